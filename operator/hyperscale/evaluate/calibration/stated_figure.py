"""What was stated before a run and what happened, in standard deviations of the statement."""

from __future__ import annotations

import math
from typing import Final, NamedTuple

from hyperscale.model.evaluation import Interval, Recalibration

SIGMAS_95: Final = 1.959964
"""Standard deviations from the middle to a bound of an interval that 95 of 100 outcomes lie in."""
MIN_SIGMA: Final = 1e-3
"""Of ln(figure): a statement without width still allows a thousandth."""
MAX_ERROR: Final = 50.0
"""Deviations; larger errors say no more."""
MAX_LN: Final = 700.0
"""Of any figure."""


class StatedFigure(NamedTuple):
    """A positive figure as stated with its 95 % interval, and its outcome."""

    middle: float
    low: float
    high: float
    outcome: float
    at_least: bool = False
    """True: the run was cut off, and the outcome is larger than this."""


def error_of(stated: StatedFigure) -> float | None:
    """Return (ln outcome - ln middle) / stated deviation of that side, within `MAX_ERROR`.

    None where a figure is none, and for a run that was cut off before the upper bound: it may have kept to the statement.
    """
    figures = (stated.middle, stated.low, stated.high, stated.outcome)
    if not all(0.0 < figure < math.inf for figure in figures) or not stated.low <= stated.middle <= stated.high:
        return None
    if stated.at_least and stated.outcome <= stated.high:
        return None
    bound = stated.high if stated.outcome >= stated.middle else stated.low
    sigma = max(abs(_ln(bound, stated.middle)) / SIGMAS_95, MIN_SIGMA)
    return max(-MAX_ERROR, min(MAX_ERROR, _ln(stated.outcome, stated.middle) / sigma))


def recalibrated(stated: Interval, by: Recalibration) -> Interval:
    """Return the interval moved by the shift, its bounds at `widening` times their distances in ln(figure).

    An interval with a figure that is not above 0 stays as it is.
    """
    if not 0.0 < stated.low <= stated.middle <= stated.high < math.inf:
        return stated
    middle = _times(stated.middle, by.shift * _mean_sigma(stated))
    low, high = (_times(middle, by.widening * _ln(bound, stated.middle)) for bound in (stated.low, stated.high))
    return Interval(middle, low, high)


def as_before(stated: StatedFigure, by: Recalibration | None) -> StatedFigure:
    """Return the statement as the stage made it, before `recalibrated`."""
    if by is None or not 0.0 < stated.low <= stated.middle <= stated.high < math.inf:
        return stated
    below, above = (_ln(bound, stated.middle) / by.widening for bound in (stated.low, stated.high))
    middle = _times(stated.middle, -by.shift * (above - below) / (2.0 * SIGMAS_95))
    return stated._replace(middle=middle, low=_times(middle, below), high=_times(middle, above))


def _mean_sigma(stated: Interval) -> float:
    """Half the distance of the bounds in ln(figure), in standard deviations."""
    return _ln(stated.high, stated.low) / (2.0 * SIGMAS_95)


def _ln(figure: float, other: float) -> float:
    """ln(figure / other), also where the quotient is beyond what a float holds."""
    return math.log(figure) - math.log(other)


def _times(figure: float, logarithm: float) -> float:
    """Figure x exp(logarithm), within what a float holds: statements come from statuses, which others may have written."""
    return math.exp(max(-MAX_LN, min(MAX_LN, math.log(figure) + logarithm)))
