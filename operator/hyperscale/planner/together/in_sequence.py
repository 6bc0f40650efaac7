"""Jobs placed in a sequence, each by greedy and local search on what those before it leave. Pure and deterministic."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np

from hyperscale.model.graph import FloatArray, IntArray
from hyperscale.planner.cost.objective import Costs
from hyperscale.planner.search.kernels import kernel
from hyperscale.planner.search.kernels.kernel import CANNOT_WORK
from hyperscale.planner.together.shared_nodes import LIMIT_ROUNDING, SharedNodes

SEEDS: Final = 4
"""First members that a job is grown from."""
SWEEPS: Final = 3
"""Passes of local search over the best of them."""
GROWING_STEPS: Final = 70
"""What growing a worker's place takes of a node, in steps of local search."""


class Sequences:
    """Placements in several sequences of the same jobs; what two of them have in common at the front is placed once."""

    def __init__(self, shared: SharedNodes) -> None:
        self._shared = shared
        self._left = shared.left([None] * len(shared.workers))
        self._placed: dict[tuple[int, ...], tuple[IntArray, float] | None] = {}
        self.placements = 0
        """Placements searched so far."""
        self.work = 0
        """Their steps, see `placing_work`."""

    def orders(self, sequence: Sequence[int]) -> list[IntArray] | None:
        """Placements (k,) of all jobs in this sequence; None where one finds no place."""
        return self.searched(sequence)[0]

    def searched(self, sequence: Sequence[int]) -> tuple[list[IntArray] | None, float]:
        """The same with their weighted sum by the kernels, where memory does not matter; +inf where a job is above its limit."""
        left, total = self._left, 0.0
        orders: dict[int, IntArray] = {}
        for at, index in enumerate(sequence):
            key = tuple(sequence[: at + 1])
            if key not in self._placed:
                self.placements += 1
                self.work += placing_work(self._shared, index)
                self._placed[key] = placed(self._shared, index, left)
            placement = self._placed[key]
            if placement is None:
                return None, math.inf
            orders[index], value = placement
            within = value <= self._shared.limits[index] * LIMIT_ROUNDING
            total += float(self._shared.weights[index]) * value if within else math.inf
            left = left - taken(self._shared, index, placement[0])
        return [orders[index] for index in range(len(self._shared.workers))], total


def placing_work(shared: SharedNodes, index: int) -> int:
    """Steps of one call of `placed`, two nanoseconds each: measured on clusters of 32 to 128 nodes."""
    workers = shared.workers[index]
    return len(shared.of_job[index].nodes) * workers * (workers + GROWING_STEPS)


def placed(shared: SharedNodes, index: int, left: FloatArray) -> tuple[IntArray, float] | None:
    """A job's placement (k,) on what is `left` (P, R), and its seconds by the kernel; None where it finds no place."""
    workers, room = shared.workers[index], shared.room(index, left)
    if int(room.sum()) < workers:
        return None
    if shared.kernels is None:
        return _placed_in_numpy(shared.of_job[index].search_costs, workers, room)
    compiled = shared.kernels[index]
    compiled.use_slots(room.astype(np.int32))
    ranking = np.empty(len(room), dtype=np.int32)
    seeds = ranking[: min(SEEDS, compiled.seed_ranking(ranking))]
    grown = np.zeros((len(seeds), workers), dtype=np.int32)
    grown[:, 0] = seeds
    filled = np.zeros(len(grown), dtype=np.int32)
    compiled.greedy(grown, 1, True, filled)
    grown = grown[filled == workers]
    if not len(grown):
        return None
    seconds = np.empty(len(grown))
    compiled.objectives(grown, seconds)
    row, value = np.ascontiguousarray(grown[int(np.argmin(seconds))][None, :]), np.empty(1)
    compiled.local_search(row, np.zeros(workers, dtype=np.uint8), SWEEPS, value)
    return (row[0].astype(np.int64), float(value[0])) if value[0] < CANNOT_WORK else None


def _placed_in_numpy(costs: Costs, workers: int, room: IntArray) -> tuple[IntArray, float] | None:
    rows = kernel.greedy_all(costs, room, workers, kernel.seed_ranking(costs, room, workers)[:SEEDS])
    if not len(rows):
        return None
    rows, seconds = kernel.local_search(costs, room, rows, sweeps=SWEEPS)
    best = int(np.argmin(seconds))
    return rows[best], float(seconds[best])


def taken(shared: SharedNodes, index: int, order: IntArray) -> FloatArray:
    """(P, R) what a placement takes."""
    counts = np.bincount(shared.of_job[index].nodes[order], minlength=len(shared.nodes))
    amounts: FloatArray = counts[:, None] * shared.demand[index]
    return amounts
