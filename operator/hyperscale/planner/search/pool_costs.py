"""Costs and bounds of the parts of a cluster that the search of one region looks at, each computed once."""

from __future__ import annotations

import numpy as np

from hyperscale.model.graph import IntArray
from hyperscale.planner.cost.bounds import BestLinks, best_links, lower_bound
from hyperscale.planner.cost.objective import Costs
from hyperscale.planner.problem.placement_problem import Problem
from hyperscale.planner.search.exact import proof_work


class PoolCosts:
    """Costs by pool of candidate nodes."""

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        self._room = problem.slots + np.bincount([candidate for _, candidate in problem.pinned], minlength=len(problem.slots))
        self._costs: dict[bytes, Costs] = {}
        self._links: dict[bytes, BestLinks] = {}
        self._bounds: dict[tuple[bytes, int], float] = {}
        self._proofs: dict[tuple[bytes, int], int] = {}

    def of(self, pool: IntArray) -> Costs:
        """Costs of the candidates at these positions."""
        key = pool.tobytes()
        if key not in self._costs:
            self._costs[key] = self._problem.costs(pool)
        return self._costs[key]

    def lower_bound(self, pool: IntArray, workers: int) -> float:
        """Objective that no placement of `workers` workers in the pool can beat."""
        key = pool.tobytes()
        if (key, workers) not in self._bounds:
            costs, room = self.of(pool), self._room[pool]
            if key not in self._links:
                self._links[key] = best_links(costs, room)
            self._bounds[key, workers] = lower_bound(costs, room, workers, self._links[key])
        return self._bounds[key, workers]

    def proof_work(self, pool: IntArray, workers: int) -> int:
        """Inner steps that a proof for `workers` workers in the pool is worth; see `exact.proof_work`."""
        key = pool.tobytes(), workers
        if key not in self._proofs:
            self._proofs[key] = proof_work(self._problem.slots[pool], workers)
        return self._proofs[key]

    def forget(self, pool: IntArray) -> None:
        """Drop the costs of a pool that is not searched again."""
        del self._costs[pool.tobytes()]
