"""The heuristic planner: every worker count, greedy from many seeds, polish of the best. Pure and deterministic."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np

from hyperscale.model.graph import BoolArray, FloatArray, IntArray
from hyperscale.plan.bounds import best_link, lower_bound
from hyperscale.plan.greedy import greedy, seeds_for
from hyperscale.plan.memo import Memo
from hyperscale.plan.objective import Costs, objectives
from hyperscale.plan.polish import polish_all
from hyperscale.plan.pools import Pools
from hyperscale.plan.problem import Problem
from hyperscale.plan.regions import regions
from hyperscale.plan.starts import exact, fastest_sets, nearest_sets, scattered_sets

DENSE_COUNTS: Final = 16
"""Every worker count up to here is tried."""
COUNT_GROWTH: Final = 1.3
"""Step between larger counts, refined around the best."""


class Effort(NamedTuple):
    """How closely one worker count is looked at."""

    seeds: int
    """First nodes of greedy."""
    starts: int
    """Polished starts of each source."""
    elements: int
    """Numbers that polish may touch, starts × workers² × candidates; beyond it one start is only put in ring order."""
    sweeps: int
    """Passes of polish."""
    scattered: int
    """Starts drawn by the request's seed."""
    sets: int
    """Where there are no more sets of nodes, all are evaluated."""


FIRST_LOOK: Final = Effort(seeds=12, starts=1, elements=2_000_000, sweeps=0, scattered=0, sets=200)
SECOND_LOOK: Final = FIRST_LOOK._replace(sweeps=1)
"""For worker counts whose first look was near the best, and that need not be compared by greedy alone."""
CLOSE_LOOK: Final = Effort(seeds=128, starts=8, elements=12_000_000, sweeps=6, scattered=24, sets=12_000)
CLOSE_COUNTS: Final = 3
"""Worker counts that get a close look."""
SECOND_COUNTS: Final = 6
SECOND_RATIO: Final = 1.15
"""Counts whose first look was so much above the best get no second one."""
CLOSE_RATIO: Final = 1.1
"""Those so much above the best after it get no close one: it seldom gains more."""
REACHED: Final = 1.0 + 1e-9
"""A placement this near to what none can beat is as good as any."""

KEPT_PROBLEMS: Final = 128
"""Problems whose outcome is kept for the next job like it."""
KEPT_WORKERS: Final = 20_000
"""Workers of all placements of such an outcome; a larger one, a megabyte, is found anew."""
KEPT: Final = 8
"""Placements of one look that are remembered."""

Expired = Callable[[], bool]


@dataclass(frozen=True, order=True)
class Candidate:
    """One placement: candidates of the problem in ring order. Compares by objective, then fewer workers, then names."""

    objective: float
    workers: int
    names: tuple[str, ...]
    order: tuple[int, ...] = field(compare=False)


class Heuristic:
    """Greedy and polish; never fails, misses the optimum by little (docs/planner.md)."""

    name = "Heuristic"

    def candidates(self, problem: Problem, expired: Expired) -> Iterable[Candidate]:
        """Placements found, the best of every region and worker count.

        Jobs that are alike come by the hundred: what was found without the deadline's help is kept for the next one.
        """
        return _FOUND.get(problem.identity, lambda: _search(problem, expired), lambda found: not expired() and _small(found))


_FOUND: Final[Memo[tuple[Candidate, ...]]] = Memo(KEPT_PROBLEMS)


def _search(problem: Problem, expired: Expired) -> tuple[Candidate, ...]:
    found: list[Candidate] = []
    for region in regions(problem):
        found += _Search(problem, region, expired).run()
        if expired() and found:
            break
    return tuple(found)


def _small(found: tuple[Candidate, ...]) -> bool:
    return sum(candidate.workers for candidate in found) <= KEPT_WORKERS


class _Search:
    """Search of one region over the worker counts."""

    def __init__(self, problem: Problem, region: IntArray, expired: Expired) -> None:
        self.problem, self.expired = problem, expired
        self.capacity = int(problem.slots[region].sum()) + len(problem.pinned)
        self.pools = Pools(problem, region)
        self.room = problem.slots + np.bincount([candidate for _, candidate in problem.pinned], minlength=len(problem.slots))
        self.costs: dict[bytes, Costs] = {}
        self.links: dict[bytes, tuple[float, float]] = {}
        self.starts: dict[int, IntArray] = {}
        self.best: dict[int, Candidate] = {}
        self.others: list[Candidate] = []
        self.solved: set[int] = set()

    def run(self) -> list[Candidate]:
        """All worker counts roughly, those around the best more finely, the best few closely."""
        counts = [count for count in self.problem.counts() if count <= self.capacity]
        steps = ladder(counts)
        for count in steps:
            if not self.expired() or self.best or count in (steps[0], steps[-1]):
                self._look(count, FIRST_LOOK)
        for _ in range(2):
            for count in self._between(counts):
                self._look(count, FIRST_LOOK)
        # Large counts are compared by greedy alone: there are many of them, and polish moves them all by much the same.
        for candidate in sorted(self.best.values())[:SECOND_COUNTS]:
            if candidate.workers <= DENSE_COUNTS and candidate.objective <= min(self.best.values()).objective * SECOND_RATIO:
                self._look(candidate.workers, SECOND_LOOK)
        for candidate in sorted(self.best.values())[:CLOSE_COUNTS]:
            if candidate.objective <= min(self.best.values()).objective * CLOSE_RATIO:
                self._look(candidate.workers, CLOSE_LOOK)
        return sorted({*self.best.values(), *self.others})

    def _between(self, counts: list[int]) -> list[int]:
        """Untried counts half-way between the best one and its tried neighbours."""
        if not self.best:
            return []
        tried = sorted(self.best)
        at = tried.index(min(self.best.values()).workers)
        ends = [tried[max(0, at - 1)], tried[at], tried[min(len(tried) - 1, at + 1)]]
        halves = {(low + high) // 2 for low, high in pairwise(ends)}
        return sorted(halves & set(counts) - set(tried))

    def _done(self) -> bool:
        """Time is up and something was found."""
        return bool(self.best) and self.expired()

    def _look(self, workers: int, effort: Effort) -> None:
        """Search one worker count; past the deadline only while nothing has been found."""
        if workers in self.solved or self._done():
            return
        pool = self.pools.pool(workers)
        costs, slots = self._costs_of(pool), self.problem.slots[pool]
        bound = lower_bound(costs, self.room[pool], workers, self._best_link(pool, costs))
        if effort is not FIRST_LOOK and bound > min(self.best.values()).objective:
            return
        ranks, start = self._pinned_in(pool)
        if not len(ranks) and (best := exact(costs, slots, workers, effort.sets)) is not None:
            self.solved.add(workers)
            self._keep(pool, best[None, :], objectives(costs, best[None, :]))
            return
        orders = self.starts.get(workers) if effort is SECOND_LOOK else None
        if orders is None:
            orders = self.starts[workers] = self._starts(pool, costs, workers, effort, ranks, start)
        seconds = objectives(costs, orders)
        fixed: BoolArray = np.isin(np.arange(workers), ranks)
        if not (seconds <= bound * REACHED).any():
            affordable = effort.elements // (workers * workers * len(pool))
            sweeps = 0 if self.expired() else min(effort.sweeps, affordable)
            orders, seconds = polish_all(costs, slots, orders[: max(1, affordable)], fixed, sweeps, self._done)
        self._keep(pool, orders, seconds)
        if (seconds <= bound * REACHED).any():
            self.solved.add(workers)

    def _starts(self, pool: IntArray, costs: Costs, workers: int, effort: Effort, ranks: IntArray, start: IntArray) -> IntArray:
        """(B, k) placements to polish, in ring order, the most promising first, scattered ones last."""
        problem, slots = self.problem, self.problem.slots[pool]
        seeds = seeds_for(costs, slots, workers, effort.seeds)
        grown = _seated(greedy(costs, slots, workers, seeds, start, self._done), ranks, workers)
        if len(ranks):
            return _promising(costs, [grown], effort.starts)
        near = nearest_sets(costs, slots, workers, seeds)
        fast = fastest_sets(costs, slots, workers, problem.graph.domains[problem.nodes[pool]])
        scattered = scattered_sets(slots, workers, effort.scattered, problem.request.seed)
        return np.concatenate((_promising(costs, [grown, near, fast], effort.starts), scattered))

    def _keep(self, pool: IntArray, orders: IntArray, seconds: FloatArray) -> None:
        """Remember the best two different sets among `orders` (B, k) of the pool, and all that reach the best."""
        ranking = np.argsort(seconds, kind="stable")
        ranking = ranking[np.isfinite(seconds[ranking])]
        for order, cost in zip(pool[orders[ranking[:KEPT]]], seconds[ranking[:KEPT]], strict=True):
            names = tuple(self.problem.names[candidate] for candidate in order)
            candidate = Candidate(float(cost), len(order), names, tuple(int(position) for position in order))
            held = self.best.get(candidate.workers)
            if held is None or candidate < held:
                self.best[candidate.workers] = candidate
            if held is not None and held.names != candidate.names:
                self.others.append(max(held, candidate))

    def _costs_of(self, pool: IntArray) -> Costs:
        key = pool.tobytes()
        if key not in self.costs:
            self.costs[key] = self.problem.costs(pool)
        return self.costs[key]

    def _best_link(self, pool: IntArray, costs: Costs) -> tuple[float, float]:
        key = pool.tobytes()
        if key not in self.links:
            self.links[key] = best_link(costs, self.room[pool])
        return self.links[key]

    def _pinned_in(self, pool: IntArray) -> tuple[IntArray, IntArray]:
        """Ranks that stay, and their positions in the pool."""
        ranks = np.array([rank for rank, _ in self.problem.pinned], dtype=np.int64)
        start = np.searchsorted(pool, np.array([candidate for _, candidate in self.problem.pinned], dtype=np.int64))
        return ranks, start


def ladder(counts: list[int]) -> list[int]:
    """Counts for the first look: all small ones, then growing steps, always the last."""
    chosen = [count for position, count in enumerate(counts) if position < DENSE_COUNTS]
    for count in counts[DENSE_COUNTS:]:
        if count >= chosen[-1] * COUNT_GROWTH or count == counts[-1]:
            chosen.append(count)
    return chosen


def _seated(sets: IntArray, ranks: IntArray, workers: int) -> IntArray:
    """(B, k) members by rank: pinned ones (first in `sets`) at their ranks, the others at the free ranks in order."""
    if not len(ranks):
        return sets
    free = np.setdiff1d(np.arange(workers), ranks)
    orders = np.empty_like(sets)
    orders[:, ranks] = sets[:, : len(ranks)]
    orders[:, free] = sets[:, len(ranks) :]
    return orders


def _promising(costs: Costs, sources: list[IntArray], starts: int) -> IntArray:
    """(B, k) the `starts` best different sets of every source, best first: one source alone may sit in the wrong part of the cluster."""
    found = [orders for orders in sources if len(orders)]
    if not found:
        return sources[0][:0]
    seconds = objectives(costs, np.concatenate(found))
    chosen: list[IntArray] = []
    scores: list[FloatArray] = []
    at = 0
    for orders in found:
        own = seconds[at : at + len(orders)]
        best = _distinct(orders, np.argsort(own, kind="stable"), starts)
        chosen.append(orders[best])
        scores.append(own[best])
        at += len(orders)
    together = np.concatenate(chosen)
    return together[_distinct(together, np.argsort(np.concatenate(scores), kind="stable"), len(together))]


def _distinct(orders: IntArray, ranking: IntArray, limit: int) -> list[int]:
    """The first `limit` positions of `ranking` whose rows are different sets."""
    sets = np.sort(orders, axis=1)
    seen: set[bytes] = set()
    chosen: list[int] = []
    for position in ranking:
        key = sets[position].tobytes()
        if key not in seen:
            seen.add(key)
            chosen.append(int(position))
        if len(chosen) == limit:
            break
    return chosen
