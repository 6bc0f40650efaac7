"""The heuristic planner: every worker count, greedy and beam search, local search, proof or segments. Pure and deterministic."""

from __future__ import annotations

from collections.abc import Callable
from sys import float_info
from typing import Final

import numpy as np

from hyperscale.model.graph import BoolArray, FloatArray, IntArray
from hyperscale.planner.cost.objective import Costs, objectives
from hyperscale.planner.problem.counts import DENSE_COUNTS, between, ladder
from hyperscale.planner.problem.placement_problem import Problem
from hyperscale.planner.problem.regions import MAX_DOMAINS, regions
from hyperscale.planner.search import subregions
from hyperscale.planner.search.beam import beam_sets
from hyperscale.planner.search.exact import EARLY_WORK, branch_and_bound
from hyperscale.planner.search.exact_moves import exact_moves
from hyperscale.planner.search.improve import (
    FIRST_NODES,
    ROUGH_LOOK,
    SCREENING,
    THOROUGH,
    SearchBudget,
    distinct,
    greedy_from,
    improve,
    promising,
    promising_seeds,
    seated,
    walked,
)
from hyperscale.planner.search.memory_relaxation import ROUNDING, ways
from hyperscale.planner.search.narrow_starts import narrow_starts, reaching_starts
from hyperscale.planner.search.pool_costs import PoolCosts
from hyperscale.planner.search.pools import Pools, pinned_in
from hyperscale.planner.search.rack_shapes import even_shapes
from hyperscale.planner.search.ring import canonical
from hyperscale.planner.search.search_result import Candidate, SearchResult
from hyperscale.util.memo import Memo

CLOSE_COUNTS: Final = 3
"""Worker counts that get a close look."""
CLOSE_RATIO: Final = 1.1
"""Those so much above the best, both after the first look, get no close one: it seldom gains more."""
PROOF_COUNTS: Final = 32
"""Jobs with more possible worker counts get no bound: each needs its own."""
REACHED: Final = 1.0 + 1e-9
"""A placement this near to what none can beat is as good as any."""

KEPT_PROBLEMS: Final = 128
"""Problems whose outcome is kept for the next job like it."""
KEPT_WORKERS: Final = 20_000
"""Workers of all placements of such an outcome; a larger one, a megabyte, is found again."""
KEPT: Final = 8
"""Placements of one look that are remembered."""

Expired = Callable[[], bool]


class Heuristic:
    """Greedy, beam and local search, proof or segments; never fails, says how near the optimum it is (docs/explanation/planner.md)."""

    name = "Heuristic"

    def __init__(self) -> None:
        """Start with no results; an owner that asks about many jobs alike keeps one heuristic for all of them."""
        self._results: Memo[SearchResult] = Memo(KEPT_PROBLEMS)

    def candidates(self, problem: Problem, expired: Expired) -> SearchResult:
        """Return the best placements of every region and worker count; a complete result is kept for the next job like this one."""

        def keep(result: SearchResult) -> bool:
            return not expired() and sum(candidate.workers for candidate in result) <= KEPT_WORKERS

        return self._results.get(problem.identity, lambda: _search(problem, expired), keep)


def _search(problem: Problem, expired: Expired) -> SearchResult:
    candidates: list[Candidate] = []
    bounds: list[float | None] = []
    topology = problem.job.placement.topology
    parts = regions(problem)
    for region in parts:
        search = _Search(problem, region, expired, bool(candidates))
        candidates += search.run()
        bounds.append(search.lower_bound)
        if expired() and candidates:
            break
    if topology.required is None:
        # A preferred level only adds parts of the first region, which is everything.
        bounds = bounds[:1]
    elif len(bounds) < len(parts) or len(parts) == MAX_DOMAINS:
        bounds = [None]
    proven = [bound for bound in bounds if bound is not None]
    return SearchResult(tuple(candidates), min(proven) if proven and len(proven) == len(bounds) else None)


class _Search:
    """Search of one region over the worker counts."""

    def __init__(self, problem: Problem, region: IntArray, expired: Expired, placed_elsewhere: bool) -> None:
        self.problem, self.region, self.expired, self.placed_elsewhere = problem, region, expired, placed_elsewhere
        self.capacity = int(problem.slots[region].sum()) + len(problem.pinned)
        self.pools = Pools(problem, region)
        self.costs = PoolCosts(problem)
        self.counts: list[int] = []
        self.bounds: dict[int, float] = {}
        self.worked: dict[int, int] = {}
        self.lower_bound: float | None = None
        self.best: dict[int, Candidate] = {}
        self.others: list[Candidate] = []
        self.solved: set[int] = set()
        self.looked: set[tuple[int, SearchBudget]] = set()

    def run(self) -> list[Candidate]:
        """All worker counts roughly, those around the best more finely, the best few closely."""
        self.counts = [count for count in self.problem.counts() if count <= self.capacity]
        self._screen()
        self._look_closely()
        if self.best:
            self._widen(min(self.best.values()).workers)
        self.lower_bound = self._prove()
        return sorted({*self.best.values(), *self.others})

    def _screen(self) -> None:
        """Look at steps over all worker counts roughly, then half-way between the best one and its neighbours, twice."""
        counts, steps = self.counts, ladder(self.counts)
        if len(counts) == 1 and FIRST_NODES < len(self.region) == len(self.pools.pool(counts[0])):
            self._look(counts[0], THOROUGH)
        for count in steps if not self.best else ():
            if not self.expired() or self.best or count in (steps[0], steps[-1]):
                self._first(count)
        for _ in range(2):
            for count in between(counts, sorted(self.best), min(self.best.values()).workers) if self.best else ():
                self._first(count)

    def _look_closely(self) -> None:
        """Look thoroughly at the best few worker counts."""
        looked = sorted(self.best.values())[:CLOSE_COUNTS]
        for candidate in looked:
            # Against the first look's best: a close look at one count gains a tenth where links have no structure, and so may the next.
            if candidate.objective <= looked[0].objective * CLOSE_RATIO:
                if not self.problem.pinned and (candidate.workers, THOROUGH) not in self.looked:
                    self._bound(candidate.workers, min(EARLY_WORK, self.costs.proof_work(self.region, candidate.workers)))
                self._look(candidate.workers, THOROUGH)

    def _first(self, count: int) -> None:
        self._look(count, SCREENING if count <= DENSE_COUNTS else ROUGH_LOOK)

    def _done(self) -> bool:
        """Time is up and something was found, here or in another region."""
        return (self.placed_elsewhere or bool(self.best)) and self.expired()

    def _look(self, workers: int, effort: SearchBudget) -> None:
        """Search one worker count; past the deadline only while nothing has been found."""
        if workers in self.solved or (workers, effort) in self.looked or self._done():
            return
        pool = self.pools.pool(workers)
        costs, slots = self.costs.of(pool), self.problem.slots[pool]
        bound = self.costs.lower_bound(pool, workers)
        if bound > (min(self.best.values()).objective if effort is THOROUGH and self.best else float_info.max):
            return  # a search in vain would go on past its deadline
        self.looked.add((workers, effort))
        tried = ways(costs, slots, workers)
        for way in tried:
            orders = self._starts(pool, workers, effort, *way)
            if len(orders) and self._settles(workers, self._improve(pool, way, orders, effort, bound)):
                break
        if effort.work and len(tried) > 1:
            self._move(pool, workers, effort)

    def _improve(self, pool: IntArray, way: tuple[Costs, IntArray], orders: IntArray, effort: SearchBudget, bound: float) -> float:
        """Improve `orders` (B, k) and keep the best ones; the least seconds by the costs of `way`. bound: none has a lower objective."""
        workers = orders.shape[1]
        fixed = self._fixed(workers)
        if workers > subregions.WIDE_WORKERS:  # improving them takes long, and only what is kept ends it in time
            self._keep(pool, orders[:1], objectives(way[0], orders[:1]))
        orders, seconds = improve(*way, orders, fixed, effort, self._done)
        least = self._keep(pool, orders, seconds)
        if workers in self.best and self.best[workers].objective <= bound * REACHED:
            self.bounds[workers] = bound
            self.solved.add(workers)
        elif effort.work and not self.expired():
            least = min(least, self._closer(pool, way, orders, fixed, effort))
        return least

    def _move(self, pool: IntArray, workers: int, effort: SearchBudget) -> None:
        """Improve the best placement by single moves where memory may limit shares: the searches before did not know by how much."""
        if workers in self.best and workers not in self.solved:
            start = np.searchsorted(pool, np.array(self.best[workers].order))
            costs, slots = self.costs.of(pool), self.problem.slots[pool]
            self._keep(pool, *exact_moves(costs, slots, start, self._fixed(workers), effort.elements, self._done))

    def _settles(self, workers: int, least: float) -> bool:
        """Whether a stricter relaxation cannot improve on the best placement, or time is up. least: seconds by the relaxed costs."""
        known_best = self.best.get(workers)
        return workers in self.solved or self._done() or (known_best is not None and known_best.objective <= least * ROUNDING)

    def _closer(self, pool: IntArray, way: tuple[Costs, IntArray], orders: IntArray, fixed: BoolArray, effort: SearchBudget) -> float:
        """Prove the best of `orders` (B, k), or find better ones by branch and bound, else by segments; the least seconds found."""
        workers = orders.shape[1]
        if self.best and not fixed.any():
            self._bound(workers, min(effort.work, self.costs.proof_work(pool, workers)))
        if workers in self.solved:
            return np.inf
        return self._keep(pool, *walked(*way, orders, fixed, effort, self.problem.request.seed, self.expired))

    def _widen(self, workers: int) -> None:
        """Search every domain with room of a cluster that was cut to a pool."""
        if len(self.pools.pool(workers)) == len(self.region) or workers > subregions.WIDE_WORKERS:
            return
        spread = None if self.problem.pinned else subregions.spread_nodes(self.problem, self.region, workers)
        pools = [*([] if spread is None else [spread]), *subregions.domains_with_room(self.problem, self.region, workers)]
        grown = [self._domain(pool, workers) for pool in pools]
        if grown and len(self.region) <= subregions.WHOLE_NODES:
            # The last node may be of another domain.
            self._domain(self.region, workers, np.concatenate(grown))

    def _domain(self, pool: IntArray, workers: int, grown: IntArray | None = None) -> IntArray:
        """Return a domain's best placement, (1, k) or none, from the best so far and its own starts, or some of `grown` (B, k)."""
        best = np.zeros((0, workers), dtype=np.int64)
        if self.expired():
            return best
        costs, slots = self.costs.of(pool), self.problem.slots[pool]
        order = np.array(self.best[workers].order)
        starts = np.searchsorted(pool, order)[None, :] if np.isin(order, pool).all() else best
        further = self._starts(pool, workers, subregions.DOMAIN_LOOK, costs, slots) if grown is None else np.searchsorted(pool, grown)
        starts = np.concatenate((starts, further if grown is None else promising(costs, [further], subregions.WHOLE_STARTS)))
        if len(starts):
            orders, seconds = improve(costs, slots, starts, self._fixed(workers), subregions.DOMAIN_LOOK, self.expired)
            self._keep(pool, orders, seconds)
            best = pool[orders[np.argmin(seconds)]][None, :]
        self.costs.forget(pool)
        return best

    def _prove(self) -> float | None:
        """What no placement of any worker count can beat; None where that is unknown."""
        if not self.best or len(self.counts) > PROOF_COUNTS or len(self.pools.pool(self.counts[0])) < len(self.region):
            return None
        least = np.inf
        for workers in sorted(self.counts, key=lambda count: (count != min(self.best.values()).workers, count)):
            least = min(least, self._bound(workers, self.costs.proof_work(self.region, workers)))
        return float(least)

    def _bound(self, workers: int, work: int) -> float:
        """What no placement of `workers` workers can beat, or the best objective where that is less; keeps a better one met on the way."""
        proven = self.bounds.get(workers, 0.0)
        best = min(self.best.values())
        pool = self.pools.pool(workers)
        simple = self.costs.lower_bound(pool, workers)
        if max(proven, simple) * REACHED >= best.objective or work <= self.worked.get(workers, 0) or self.expired():
            return max(proven, simple)
        self.worked[workers] = work
        _, start = pinned_in(self.problem, pool)
        if len(start) >= workers:
            return max(proven, simple)
        costs, slots = self.costs.of(pool), self.problem.slots[pool]
        proof = branch_and_bound(costs, slots, workers, upper=best.objective, pinned=start, work=work, floor=simple, expired=self.expired)
        if proof.order is not None:
            self._keep(pool, proof.order[None, :], np.array([proof.objective]))
        self.bounds[workers] = max(proven, proof.lower_bound)
        if proof.proven:
            self.solved.add(workers)
        return self.bounds[workers]

    def _starts(self, pool: IntArray, workers: int, effort: SearchBudget, costs: Costs, slots: IntArray) -> IntArray:
        """Return (B, k) placements to improve, the most promising first."""
        ranks, start = pinned_in(self.problem, pool)
        seeds = promising_seeds(costs, slots, workers, effort.seeds)
        grown = seated(greedy_from(costs, slots, workers, seeds, start, self._done), ranks, workers)
        if len(ranks):
            return promising(costs, [grown], effort.starts)
        racks = None if effort.sweeps and not effort.beam else subregions.racks_of(self.problem, pool)  # a first look does without
        beam = beam_sets(costs, slots, workers, min(effort.beam, len(slots) * workers))
        sources = [grown, beam, even_shapes(costs, slots, workers, racks), *narrow_starts(costs, slots, workers, effort, self._done)]
        return reaching_starts(costs, slots, workers, promising(costs, sources, effort.starts), effort, self._done)

    def _keep(self, pool: IntArray, orders: IntArray, seconds: FloatArray) -> float:
        """Remember the best different sets among `orders` (B, k) of the pool that work; the least of `seconds` (B,)."""
        ranking = np.argsort(seconds, kind="stable")
        rows = orders[distinct(orders, ranking[np.isfinite(seconds[ranking])], KEPT)]
        rows = rows if self.problem.pinned else canonical(rows)
        # By the reference, so that placements of all planners compare to the last digit.
        costs = objectives(self.costs.of(pool), rows)
        for order, cost in zip(pool[rows][np.isfinite(costs)], costs[np.isfinite(costs)], strict=True):
            names = tuple(self.problem.names[candidate] for candidate in order)
            candidate = Candidate(float(cost), len(order), names, tuple(int(position) for position in order))
            incumbent = self.best.get(candidate.workers)
            if incumbent is None or candidate < incumbent:
                self.best[candidate.workers] = candidate
            if incumbent is not None and incumbent.names != candidate.names:
                self.others.append(max(incumbent, candidate))
        return float(seconds.min(initial=np.inf))

    def _fixed(self, workers: int) -> BoolArray:
        """(k,) ranks that stay."""
        stays: BoolArray = np.isin(np.arange(workers), [rank for rank, _ in self.problem.pinned])
        return stays
