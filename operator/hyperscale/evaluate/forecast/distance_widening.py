"""How much wider an interval must be for runs unlike all finished ones: learnt by leaving out whole kinds of finished runs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from hyperscale.evaluate.forecast.conformal_interval import LEVELS
from hyperscale.evaluate.forecast.novelty import NoveltyIndex
from hyperscale.evaluate.forecast.residual_process import Learned
from hyperscale.model.graph import FloatArray, IntArray

MIN_KINDS: Final = 4
"""Kinds of runs below which leaving one out says nothing of the next."""
UNKNOWN_FACTOR: Final = 2.0
"""Widening per unit of distance beyond 1 where kinds are too few."""
MAX_UNKNOWN_FACTOR: Final = 6.0


@dataclass(frozen=True)
class Widening:
    """Half widths for unlike runs, in units of the process's own spread."""

    distances: FloatArray
    """(k,) ascending, of runs whose whole kind was left out; empty where kinds are too few."""
    sizes: FloatArray
    """(k,) typical absolute error at each distance, not falling."""
    halves: tuple[float, ...]
    """By level, of errors / sizes."""

    def size(self, distance: float) -> float:
        """Typical absolute error at `distance`."""
        return float(np.interp(distance, self.distances, self.sizes))

    def half(self, distance: float, level: int, usual_half: float) -> float:
        """Half width at `distance`, never below that of runs alike; `level` is an index into `LEVELS`."""
        if not len(self.distances):
            beyond = max(0.0, min(distance, MAX_UNKNOWN_FACTOR) - 1.0)
            return usual_half * min(MAX_UNKNOWN_FACTOR, 1.0 + UNKNOWN_FACTOR * beyond)
        return max(usual_half, self.halves[level] * self.size(distance))


NO_WIDENING: Final = Widening(np.zeros(0), np.zeros(0), ())


def kinds_of(index: NoveltyIndex) -> IntArray:
    """(n,) number of each run's kind: runs joined by steps of at most the usual distance."""
    from scipy.sparse.csgraph import connected_components

    numbers: IntArray = connected_components(index.between() <= 1.0, directed=False)[1]
    return numbers


def learn_widening(learned: Learned, index: NoveltyIndex) -> Widening:
    """Leave out each kind of runs in turn; errors, in units of the process's spread, by distance to the nearest run of another kind."""
    kinds = kinds_of(index)
    numbers = np.unique(kinds)
    if len(numbers) < MIN_KINDS:
        return NO_WIDENING
    apart = index.between()
    distances, errors = [], []
    for number in numbers:
        members = np.flatnonzero(kinds == number)
        mean, variance = learned.group_left_out(members)
        errors.append(np.abs(learned.residuals[members] - mean) / np.sqrt(variance))
        distances.append(apart[np.ix_(members, np.flatnonzero(kinds != number))].min(axis=1))
    by_distance, error = np.concatenate(distances), np.concatenate(errors)
    order = np.argsort(by_distance, kind="stable")
    by_distance, error = by_distance[order], error[order]
    sizes = np.maximum(_not_falling(error), 1e-3)
    ratios = np.sort(error / sizes)
    halves = [float(ratios[min(len(ratios), math.ceil((len(ratios) + 1) * level)) - 1]) for level in LEVELS]
    return Widening(by_distance, sizes, tuple(halves))


def _not_falling(values: FloatArray) -> FloatArray:
    """(n,) isotonic regression: the nearest sequence that never falls (pool adjacent violators)."""
    from scipy.optimize import isotonic_regression

    fitted: FloatArray = isotonic_regression(values, increasing=True).x
    return fitted
