"""The rule "r racks x n nodes x g GPUs each": equal counts in equal domains, what people write into a launch script."""

from __future__ import annotations

from itertools import combinations, islice
from typing import Final

import numpy as np

from hyperscale.model.graph import IntArray
from hyperscale.planner.cost.objective import Costs, objectives

MAX_SUBSETS: Final = 100
"""Sets of racks of one shape that the wide rule tries; the rule itself takes the fastest racks only."""


def equal_shapes(costs: Costs, slots: IntArray, racks: IntArray, workers: int, *, wide: bool = False) -> tuple[IntArray, float]:
    """Return the best order (k,) of all shapes r x n x g = k, and its objective; an empty one and +inf where no shape fits.

    slots: (m,) workers of each candidate · racks: (m,) code of its rack
    wide: try up to MAX_SUBSETS sets of racks, not just those whose members are fastest
    """
    orders = [order for shape in shapes(workers) for order in placements(costs, slots, racks, shape, wide)]
    if not orders:
        return np.zeros(0, dtype=np.int64), float("inf")
    seconds = objectives(costs, np.array(orders))
    best = int(np.argmin(seconds))
    return orders[best], float(seconds[best])


def shapes(workers: int) -> list[tuple[int, int, int]]:
    """Return every (r, n, g) with r x n x g = workers."""
    divisors = [number for number in range(1, workers + 1) if workers % number == 0]
    return [(r, n, workers // r // n) for r in divisors for n in divisors if workers // r % n == 0]


def placements(costs: Costs, slots: IntArray, racks: IntArray, shape: tuple[int, int, int], wide: bool) -> list[IntArray]:
    """Return orders (k,) of one shape, rack by rack and node by node, the fastest nodes of each rack."""
    count, nodes, gpus = shape
    fitting: list[tuple[float, IntArray]] = []
    for rack in np.unique(racks):
        members = np.flatnonzero((racks == rack) & (slots >= gpus))
        if len(members) >= nodes:
            chosen = members[np.argsort(-costs.flops_per_second[members], kind="stable")[:nodes]]
            fitting.append((float(costs.flops_per_second[chosen].min()), np.repeat(np.sort(chosen), gpus)))
    fitting.sort(key=lambda entry: -entry[0])
    if len(fitting) < count:
        return []
    sets = islice(combinations(range(len(fitting)), count), MAX_SUBSETS if wide else 1)
    return [np.concatenate([fitting[at][1] for at in chosen]) for chosen in sets]
