"""The learned planner: the constructor's placement of the most promising worker count, polished. Pure and deterministic.

It proposes; whether its placement is used is the portfolio's choice by objective. docs/explanation/learning.md says what it is worth.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import numpy as np

from hyperscale.model.graph import BoolArray, IntArray
from hyperscale.planner.cost.objective import Costs
from hyperscale.planner.learned.learned_features import View
from hyperscale.planner.learned.learned_network import ConstructorNetwork
from hyperscale.planner.learned.learned_state import Surroundings
from hyperscale.planner.learned.learned_weights import NAME, WeightsError, load, shipped
from hyperscale.planner.problem.counts import ladder
from hyperscale.planner.problem.placement_problem import Problem
from hyperscale.planner.problem.regions import regions
from hyperscale.planner.search.heuristic import Expired, Heuristic
from hyperscale.planner.search.kernels.kernel import greedy_all, local_search, objectives, rings, seed_ranking
from hyperscale.planner.search.pools import Pools
from hyperscale.planner.search.search_result import Candidate
from hyperscale.util.memo import Memo

MOST_WORKERS: Final = 32
"""Twice as many as it was taught with; larger jobs are left to search."""
MOST_NODES: Final = 64
"""Candidates that it looks at closely; of larger clusters the best neighbourhoods."""
SEEDS: Final = 6
"""First workers whose neighbourhoods share the candidates of a large cluster."""
KEPT_PROBLEMS: Final = 128


class Learned:
    """The constructor as a planner."""

    name = "Learned"

    def __init__(self, network: ConstructorNetwork) -> None:
        self._network = network
        self._found: Memo[tuple[Candidate, ...]] = Memo(KEPT_PROBLEMS)

    def candidates(self, problem: Problem, expired: Expired) -> Iterable[Candidate]:
        """One placement as constructed and the same polished, of the best region and worker count; none for one worker or very many."""
        return self._found.get(problem.identity, lambda: self._construct(problem, expired), lambda result: not expired())

    def _construct(self, problem: Problem, expired: Expired) -> tuple[Candidate, ...]:
        part = _most_promising(problem, expired)
        # One node has no links to look at, and only one placement.
        if part is None or len(part.members) < 2 or expired():
            return ()
        costs, slots, workers = part.costs, problem.slots[part.members], part.workers
        around = Surroundings(costs, slots, workers)
        start = np.searchsorted(part.members, np.array([member for _, member in problem.pinned], dtype=np.int64))
        grown = self._network.construct(View(around), start, not len(start), expired)
        if grown is None:
            return ()
        order = _seated(grown, problem.pinned)
        fixed: BoolArray = np.isin(np.arange(workers), [rank for rank, _ in problem.pinned])
        polished, _ = local_search(costs, slots, rings(costs, order[None, :], fixed), fixed)
        seconds = float(objectives(costs, polished)[0])
        if not np.isfinite(seconds):
            return ()
        chosen = part.members[polished[0]]
        names = tuple(problem.names[member] for member in chosen)
        return (Candidate(seconds, workers, names, tuple(int(member) for member in chosen)),)


class _Part:
    """Candidates and worker count that greedy finds most promising."""

    def __init__(self, seconds: float, members: IntArray, costs: Costs, workers: int) -> None:
        self.seconds, self.members, self.costs, self.workers = seconds, members, costs, workers


def planners(folder: Path | None = None) -> tuple[Heuristic | Learned, ...]:
    """Every planner that exists in this process; the learned one only where its weights can be used.

    folder: of published weights; where it has none of the constructor, those of the package count
    """
    try:
        return Heuristic(), Learned(load(folder) if folder is not None and (folder / f"{NAME}.json").exists() else shipped())
    except WeightsError as error:
        warnings.warn(f"nothing learned will plan: {error}", RuntimeWarning, stacklevel=2)
        return (Heuristic(),)


def _most_promising(problem: Problem, expired: Expired) -> _Part | None:
    """By greedy from the best seed of every region and worker count; None where no count is within what the constructor was taught."""
    best: _Part | None = None
    for region in regions(problem):
        pools, costs_by_members = Pools(problem, region), dict[bytes, Costs]()
        for workers in _worker_counts(problem, region):
            if best is not None and expired():
                break
            members = pools.pool(workers)
            if (key := members.tobytes()) not in costs_by_members:
                costs_by_members[key] = problem.costs(members)
            seconds = _greedy_seconds(problem, costs_by_members[key], members, workers)
            if best is None or seconds < best.seconds:
                best = _Part(seconds, members, costs_by_members[key], workers)
    return None if best is None or not np.isfinite(best.seconds) else _cut(problem, best)


def _worker_counts(problem: Problem, region: IntArray) -> list[int]:
    """Worker counts to compare: those that the region holds and the constructor was trained for."""
    capacity = int(problem.slots[region].sum()) + len(problem.pinned)
    steps = ladder([count for count in problem.counts() if count <= capacity])
    return [workers for workers in steps if 2 <= workers <= MOST_WORKERS]


def _greedy_seconds(problem: Problem, costs: Costs, members: IntArray, workers: int) -> float:
    """Objective of greedy from the pinned ranks, else from the best seed; +inf where it gets stuck."""
    slots = problem.slots[members]
    start = np.searchsorted(members, np.array([member for _, member in problem.pinned], dtype=np.int64))
    if len(start) >= workers:
        return float("inf")
    orders = greedy_all(costs, slots, workers, seed_ranking(costs, slots, workers)[:1], start)
    return float(objectives(costs, rings(costs, orders))[0]) if len(orders) else float("inf")


def _cut(problem: Problem, part: _Part) -> _Part:
    """The same with no more than MOST_NODES candidates, every one with a slot or taken: neighbourhoods of the best seeds, nearest first."""
    slots = problem.slots[part.members]
    pinned = np.searchsorted(part.members, np.array(sorted({member for _, member in problem.pinned}), dtype=np.int64))
    usable = np.flatnonzero(slots > 0)
    if len(usable) > MOST_NODES:
        around = Surroundings(part.costs, slots, part.workers)
        seeds = seed_ranking(part.costs, slots, part.workers)[:SEEDS]
        near = np.argsort(around.joint[seeds][:, usable], axis=1, kind="stable")
        ranked = np.concatenate((seeds, usable[near].T.ravel()))
        _, first = np.unique(ranked, return_index=True)
        usable = ranked[np.sort(first)][:MOST_NODES]
    kept = np.union1d(usable, pinned)
    if len(kept) == len(part.members):
        return part
    return _Part(part.seconds, part.members[kept], part.costs.subset(kept), part.workers)


def _seated(grown: IntArray, pinned: tuple[tuple[int, int], ...]) -> IntArray:
    """(k,) members by rank: pinned ones, first in `grown`, at their ranks, the others at the free ranks in order."""
    ranks = [rank for rank, _ in pinned]
    order = np.empty_like(grown)
    order[ranks] = grown[: len(ranks)]
    order[np.setdiff1d(np.arange(len(grown)), ranks)] = grown[len(ranks) :]
    return order
