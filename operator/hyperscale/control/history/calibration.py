"""What finished runs teach predictions: the correction of an epoch, and the measured steps of a workload."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec

from hyperscale.evaluate.calibration.widening import MIN_RUNS, WINDOW, covering
from hyperscale.model.history.step_curves import Step
from hyperscale.model.plan import MIN_SPREAD, Calibration

SAME_AS_SIGMA: Final = 1.4826
"""Median absolute deviation to standard deviation of a normal distribution."""
MIN_BEFORE: Final = 5
"""Runs before one that its error is measured by."""


class MeasuredStep(NamedTuple):
    """What one run teaches about the steps of its workload."""

    uid: str
    step: Step
    predicted_seconds: float
    """Of the step, uncorrected."""

    @property
    def ratio(self) -> float:
        """Measured / uncorrected prediction."""
        return self.step.step_seconds / self.predicted_seconds


class _Rank(msgspec.Struct):
    node: str
    gpus: int


class _Placement(msgspec.Struct):
    workers: tuple[_Rank, ...]


def placement(plan: str) -> dict[str, int]:
    """GPUs by node of a plan's JSON; empty where it cannot be read."""
    try:
        decoded = msgspec.json.decode(plan, type=_Placement)
    except (msgspec.DecodeError, RecursionError):
        return {}
    gpus: dict[str, int] = {}
    for worker in decoded.workers:
        gpus[worker.node] = gpus.get(worker.node, 0) + worker.gpus
    return gpus if all(count > 0 for count in gpus.values()) else {}


def calibrate(products: str, ratios: Sequence[float]) -> Calibration:
    """Median and spread of measured / predicted, oldest first; a single wild run moves neither. ValueError without any ratio above 0.

    With enough runs the spread is that which would have covered 68 of 100 of them, each predicted from the ones before it.
    """
    logarithms = [math.log(ratio) for ratio in ratios if ratio > 0.0 and math.isfinite(ratio)]
    if not logarithms:
        raise ValueError("a calibration needs at least one run with a measured and a predicted epoch")
    middle, spread = _middle_and_spread(logarithms)
    widening = _widening(logarithms)
    if widening > 1.0:
        spread = widening * max(spread, MIN_SPREAD)
    return Calibration(products, float(f"{math.exp(middle):.6g}"), float(f"{spread:.6g}"), len(logarithms))


def _middle_and_spread(logarithms: Sequence[float]) -> tuple[float, float]:
    middle = statistics.median(logarithms)
    return middle, SAME_AS_SIGMA * statistics.median(abs(value - middle) for value in logarithms)


def _widening(logarithms: Sequence[float]) -> float:
    """The factor of the spread at which the newest runs are covered, each by the runs before it; 1 from too few."""
    errors = []
    for place in range(max(MIN_BEFORE, len(logarithms) - WINDOW), len(logarithms)):
        middle, spread = _middle_and_spread(logarithms[:place])
        errors.append((logarithms[place] - middle) / max(spread, MIN_SPREAD))
    return covering(errors) if len(errors) >= MIN_RUNS else 1.0
