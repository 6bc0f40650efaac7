"""The factor at which stated uncertainty covers what happened, and the median error, from the errors of finished runs.

A factor is tried, the runs that it covers are counted, and the next larger error is the next factor, until 68 of 100 are covered.
Where the exact test says that its 95 % interval then still holds too few, as with heavy tails, the factor covers 95 of 100 instead.
The runs' own rank makes this the split conformal quantile (Lei et al. 2018): the next run is covered as often as that.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import Final

from hyperscale.evaluate.calibration.stated_figure import SIGMAS_95
from hyperscale.model.evaluation import Recalibration

ONE_SIGMA: Final = 0.682689
"""Part of a normal distribution within one standard deviation."""
TWO_SIGMA: Final = 0.95
MIN_RUNS: Final = 20
"""Finished runs from which errors are taken as those of the next run."""
WINDOW: Final = 100
"""Newest runs that count: a cluster changes."""
WINDOW_AFTER_DRIFT: Final = 40
MAX_WIDENING: Final = 20.0
SIDES: Final = 0.05
"""Chance, without any bias, that a shift is taken for one (sign test, both sides together)."""


def recalibration(stage: str, errors: Sequence[float], drifting: bool = False) -> Recalibration | None:
    """Return what the newest `errors` teach, oldest first, in deviations as the stage stated them; None below `MIN_RUNS`.

    drifting: earlier runs had other errors, so that fewer count.
    """
    newest = list(errors)[-(WINDOW_AFTER_DRIFT if drifting else WINDOW) :]
    if len(newest) < MIN_RUNS:
        return None
    shift = _shift(newest)
    left = [error - shift for error in newest]
    factor = covering(left)
    beyond = sum(abs(error) > SIGMAS_95 * factor for error in left)
    if two_sided(beyond, len(left), 1.0 - TWO_SIGMA) < SIDES and beyond > (1.0 - TWO_SIGMA) * len(left):
        factor = max(factor, covering(left, TWO_SIGMA) / SIGMAS_95)
    return Recalibration(stage, len(newest), round(shift, 6), round(factor, 6))


def covering(errors: Sequence[float], part: float = ONE_SIGMA) -> float:
    """Return the least factor, 1 to `MAX_WIDENING`, that covers `part` of the errors and of the run to come. ValueError for none."""
    if not errors:
        raise ValueError("no error to cover; give at least one")
    wanted = math.ceil(part * (len(errors) + 1))
    factor = 1.0
    for error in sorted(abs(error) for error in errors):
        if sum(abs(each) <= factor for each in errors) >= wanted:
            break
        factor = max(factor, error)
    return min(factor, MAX_WIDENING)


def _shift(errors: Sequence[float]) -> float:
    """The median error where the exact sign test says that it is not 0, else 0."""
    larger = sum(error > 0.0 for error in errors)
    return statistics.median(errors) if two_sided(larger, len(errors), 0.5) < SIDES else 0.0


def two_sided(successes: int, trials: int, part: float) -> float:
    """Return the exact binomial p-value of a proportion: twice the smaller tail, at most 1."""
    below = sum(math.comb(trials, count) * part**count * (1.0 - part) ** (trials - count) for count in range(successes + 1))
    above = sum(math.comb(trials, count) * part**count * (1.0 - part) ** (trials - count) for count in range(successes, trials + 1))
    return min(1.0, 2.0 * min(below, above))
