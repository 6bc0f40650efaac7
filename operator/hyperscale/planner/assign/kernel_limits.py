"""What the kernels of several tasks can take: they index without looking. Pure."""

from __future__ import annotations

from typing import Final

import numpy as np

from hyperscale.model.graph import FloatArray, IntArray

MOST_GROUPS: Final = 12
"""A path's table has 2^groups rows."""
MOST_MEMBERS: Final = 64
"""One bit each."""
ROUNDING: Final = 1e-13
"""Part of the largest sums that a gain must exceed: sums are kept up to date by differences, and a descent has an end."""


def sums_fit(
    cost: FloatArray, memory: FloatArray, need: FloatArray, weight: FloatArray, low: IntArray, high: IntArray, group: IntArray
) -> bool:
    """Whether (machines,), (sets,) and the sets named in `group` fit each other."""
    machines, sets = len(memory), len(weight)
    shapes = np.shape(cost) == (machines, machines) and np.shape(group) == (machines,)
    return shapes and len(need) == len(low) == len(high) == sets and _within(group, sets)


def least_gain(cost: FloatArray, memory: FloatArray, penalty: float) -> float:
    """Changes of the cost that win less than this are rounding."""
    return max(1e-9, ROUNDING * (float(np.sum(cost)) + penalty * float(np.sum(memory))))


def pipes_fit(gradient: FloatArray, rank: IntArray, level: FloatArray, kind: IntArray, group: IntArray, groups: int) -> bool:
    """Whether there are equal groups of a size that the masks hold, and every rank is that of a level."""
    devices = len(gradient)
    if not 2 <= groups <= MOST_GROUPS or devices % groups or not groups <= devices <= groups * MOST_MEMBERS:
        return False
    square = (devices, devices)
    shapes = np.shape(gradient) == np.shape(rank) == square and np.shape(kind) == np.shape(group) == (devices,)
    return shapes and _within(group, groups) and _within(rank, len(level)) and bool((np.bincount(group) == devices // groups).all())


def _within(numbers: IntArray, limit: int) -> bool:
    return not np.size(numbers) or bool(np.min(numbers) >= 0 and np.max(numbers) < limit)
