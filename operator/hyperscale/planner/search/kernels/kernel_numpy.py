"""The twin of the compiled kernel: the same questions answered by numpy. Pure and deterministic.

It answers where the compiled module is missing, and where memory limits the workers' shares, which the compiled one does not know.
"""

from __future__ import annotations

import numpy as np

from hyperscale.model.graph import BoolArray, FloatArray, IntArray
from hyperscale.planner.cost import objective
from hyperscale.planner.cost.objective import Costs
from hyperscale.planner.search import greedy as lockstep
from hyperscale.planner.search.local_search_batch import polish_all
from hyperscale.planner.search.ring import ring_orders


def objectives(costs: Costs, orders: IntArray) -> FloatArray:
    """(B,) objective of each row of `orders` (B, k)."""
    return objective.objectives(costs, orders)


def seed_ranking(costs: Costs, slots: IntArray, workers: int) -> IntArray:
    """(u,) candidates with a slot, the most promising first member first."""
    score = lockstep.seed_scores(costs, slots, workers)
    usable = np.flatnonzero(slots > 0)
    ranking: IntArray = usable[np.lexsort((usable, score[usable]))]
    return ranking


def greedy_all(costs: Costs, slots: IntArray, workers: int, seeds: IntArray, start: IntArray) -> IntArray:
    """(B', k) greedy from each seed, or once from `start`; those that got stuck are left out."""
    return lockstep.greedy(costs, slots, workers, seeds, start)


def local_search(costs: Costs, slots: IntArray, orders: IntArray, fixed: BoolArray, sweeps: int) -> tuple[IntArray, FloatArray]:
    """Rows of `orders` (B, k) that no single replacement improves, and their objectives (B,)."""
    if not len(orders):
        return orders, np.zeros(0)
    improved = [polish_all(costs, slots, order[None, :], fixed, sweeps) for order in orders]
    return np.concatenate([order for order, _ in improved]), np.concatenate([seconds for _, seconds in improved])


def rings(costs: Costs, orders: IntArray, fixed: BoolArray) -> IntArray:
    """Every row of `orders` (B, k) in a good ring order."""
    return ring_orders(costs, orders, fixed)
