"""What a namespace's own runs of an architecture say where they contradict what all runs say together."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from hyperscale.evaluate.calibration.speed_design import Design
from hyperscale.model.graph import FloatArray, IntArray
from hyperscale.model.history.corrections import PartKind

CONTRADICTION: Final = 0.1
"""Of the median of ln(measured / predicted), from which runs contradict the fit where it is also SURE standard errors."""
SURE: Final = 3.0
SAME_AS_SIGMA: Final = 1.4826
"""Median absolute deviation to standard deviation of a normal distribution."""
LEAST_PART: Final = 0.1
"""Of an epoch, from which a run says something of a part."""
STEPS: Final = 8
ENOUGH: Final = 1e-3
"""Of a level: a smaller step changes nothing."""
LIMIT: Final = math.log(400.0)
"""Of a level: measured and predicted seconds are no further apart, nor are factors and their bounds."""


class OwnLevel(NamedTuple):
    """What is added to each ln(factor) for one namespace."""

    arithmetic: float
    exchange: float
    """Of tiers and insides."""
    error: float
    """Standard error of both."""
    left_out: FloatArray
    """(k,) ln(measured / predicted) of its runs' epochs, each about as if it had been left out."""

    @property
    def contradicts(self) -> bool:
        """Whether anything is added."""
        return self.arithmetic != 0.0 or self.exchange != 0.0


def own_level(design: Design, mean: FloatArray, rows: Sequence[int], left_out: FloatArray) -> OwnLevel:
    """Return what a namespace's runs of one architecture add: to arithmetic, to exchange or to both, whichever leaves least errors.

    Nothing where the runs do not contradict the fit, or where none of these explains them.
    mean: (f,) ln(factor) of the fit; rows: (k,) of the runs; left_out: (k,) their errors by the fit
    """
    spread, error = _spread_and_error(left_out)
    best = OwnLevel(0.0, 0.0, 0.0, left_out)
    if abs(float(np.median(left_out))) <= max(CONTRADICTION, SURE * error):
        return best
    part = design.with_runs(np.asarray(rows, dtype=np.int64))[0]
    arithmetic = part.architecture[:1]
    exchange = np.array([at for at, (kind, _) in enumerate(part.keys) if kind in (PartKind.LINK, PartKind.INSIDE)], dtype=np.int64)
    least = math.hypot(float(np.median(left_out)), spread)
    for moves in ((True, False), (False, True), (True, True)):
        level, errors = _level(part, mean, np.concatenate([arithmetic[: moves[0]], exchange if moves[1] else exchange[:0]]))
        rest = math.hypot(float(np.median(errors)), _spread_and_error(errors)[0])
        if rest < least * (1.0 - LEAST_PART):
            best, least = OwnLevel(level * moves[0], level * moves[1], error, errors), rest
    return best


def _level(part: Design, mean: FloatArray, places: IntArray) -> tuple[float, FloatArray]:
    """What the factors at `places` have to be multiplied with so that the median error is 0, as a logarithm, and (k,) the errors then."""
    moved, level = mean.copy(), 0.0
    for _ in range(STEPS):
        residual, slope = part.residuals(moved)
        depends = slope[: part.runs, places].sum(axis=1)
        tells = depends > LEAST_PART
        if not tells.any():
            break
        step = float(np.median(residual[: part.runs][tells] / depends[tells]))
        if abs(step) < ENOUGH:
            break
        level = min(max(level + step, -LIMIT), LIMIT)
        moved[places] = mean[places] + level
    errors: FloatArray = part.residuals(moved)[0][: part.runs] * math.sqrt(part.runs / (part.runs - 1.0))
    return level, errors


def _spread_and_error(errors: FloatArray) -> tuple[float, float]:
    spread = SAME_AS_SIGMA * float(np.median(np.abs(errors - np.median(errors))))
    return spread, spread / math.sqrt(len(errors))
