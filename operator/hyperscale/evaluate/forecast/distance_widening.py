"""How much wider an interval must be for runs unlike all finished ones: learnt by forgetting all runs near a finished one."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from hyperscale.evaluate.forecast.conformal_interval import LEVELS
from hyperscale.evaluate.forecast.novelty import NoveltyIndex
from hyperscale.evaluate.forecast.residual_process import LearnedResiduals
from hyperscale.model.graph import FloatArray, IntArray

MIN_RUNS: Final = 20
"""Finished runs below which forgetting some says nothing."""
MAX_ANCHORS: Final = 96
"""Finished runs around which others are forgotten, spread evenly over the history."""
RADII: Final = (1.0, 1.15, 1.3, 1.5, 1.75, 2.0, 2.5, 3.0, 4.0, 5.0)
"""Distances around each within which runs are forgotten."""
UNKNOWN_FACTOR: Final = 2.0
"""Widening per unit of distance beyond 1 where runs are too few."""
MAX_UNKNOWN_FACTOR: Final = 6.0
SMALLEST: Final = 1e-3


@dataclass(frozen=True)
class Widening:
    """Half widths for unlike runs, in units of the process's own spread."""

    distances: FloatArray
    """(k,) ascending, from a run to the nearest one not forgotten; empty where runs are too few."""
    sizes: FloatArray
    """(k,) typical absolute error at each distance, not falling."""
    halves: tuple[float, ...]
    """By level, of errors / sizes."""

    @property
    def reach(self) -> float:
        """Largest distance at which runs taught; 0 where too few did."""
        return float(self.distances[-1]) if len(self.distances) else 0.0

    def size(self, distance: float) -> float:
        """Typical absolute error at `distance`."""
        return float(np.interp(distance, self.distances, self.sizes))

    def half(self, distance: float, level: int, usual_half: float) -> float:
        """Half width at `distance`; `level` is an index into `LEVELS`, `usual_half` that of runs alike."""
        if not len(self.distances):
            beyond = max(0.0, min(distance, MAX_UNKNOWN_FACTOR) - 1.0)
            return usual_half * min(MAX_UNKNOWN_FACTOR, 1.0 + UNKNOWN_FACTOR * beyond)
        return self.halves[level] * self.size(distance)


def learn_widening(learned: LearnedResiduals, index: NoveltyIndex) -> Widening:
    """Forget the runs nearest to a finished one and forecast it; standardised errors by distance to the nearest run left.

    Every distance is above 1: nearer ones are those of runs alike, which need no widening.
    """
    count = len(learned.runs)
    nothing = Widening(np.zeros(0), np.zeros(0), ())
    if count < MIN_RUNS:
        return nothing
    apart = index.between()
    pairs = []
    for anchor in np.unique(np.linspace(0, count - 1, min(count, MAX_ANCHORS)).astype(np.int64)).tolist():
        for radius in RADII:
            near = apart[anchor] <= radius
            near[anchor] = False
            left = ~near
            left[anchor] = False
            if left.sum() >= MIN_RUNS:
                forgotten = np.concatenate([[anchor], np.flatnonzero(near)])
                pairs.append((float(apart[anchor, left].min()), _error(learned, forgotten)))
    if len(pairs) < MIN_RUNS:
        return nothing
    points = np.array(sorted(pairs))
    sizes = np.maximum(_not_falling(points[:, 1]), SMALLEST)
    ratios = np.sort(points[:, 1] / sizes)
    halves = [float(ratios[min(len(ratios), math.ceil((len(ratios) + 1) * level)) - 1]) for level in LEVELS]
    return Widening(points[:, 0], sizes, tuple(halves))


def _error(learned: LearnedResiduals, forgotten: IntArray) -> float:
    """Absolute standardised error at the first of `forgotten` (k,) by all other runs."""
    mean, variance = learned.group_left_out(forgotten)
    return float(abs(learned.residuals[forgotten[0]] - mean[0]) / math.sqrt(variance[0]))


def _not_falling(values: FloatArray) -> FloatArray:
    """(n,) isotonic regression: the nearest sequence that never falls (pool adjacent violators)."""
    from scipy.optimize import isotonic_regression

    fitted: FloatArray = isotonic_regression(values, increasing=True).x
    return fitted
