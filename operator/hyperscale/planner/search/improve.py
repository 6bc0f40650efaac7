"""From starts to good placements of one worker count: local search of the most promising, then segments. Pure; the seed decides."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final, NamedTuple

import numpy as np

from hyperscale.model.graph import BoolArray, FloatArray, IntArray
from hyperscale.planner.cost.objective import Costs, objectives
from hyperscale.planner.search.kernels import kernel
from hyperscale.planner.search.lns_segments import tournament
from hyperscale.planner.search.local_search_batch import polish_all

SLICE_ELEMENTS: Final = 4_000_000
"""Numbers that local search touches between two looks at the clock, starts × workers² × candidates; some milliseconds."""
UPLINKS_RATIO: Final = 10
"""Where nodes share uplinks it is this factor fewer: a move's exact cost takes longer."""
NUMPY_RATIO: Final = 10
"""Numpy gets this factor fewer."""


class SearchBudget(NamedTuple):
    """How closely one worker count is looked at."""

    seeds: int
    """First nodes of greedy."""
    starts: int
    """Starts of each source that are improved."""
    elements: int
    """Numbers that local search may touch; beyond it one start is only put in ring order."""
    sweeps: int
    """Passes of local search."""
    work: int = 0
    """Inner steps of branch and bound."""
    segments: int = 0
    """Most inner steps of the search by segments from the best starts, some 25 ns each; see `segment_steps`."""
    beam: int = 0
    """Paths that beam search keeps at every length; no more than candidates × workers: small problems must be answered soonest."""


GREEDY_ELEMENTS: Final = 12_000_000
"""Numbers that greedy may touch, seeds × candidates × workers."""
GREEDY_SEEDS: Final = 16
"""Seeds between two looks at the clock."""

FIRST_NODES: Final = 40
"""With more candidates, all of them searched, a single worker count gets its close look at once."""
SCREENING: Final = SearchBudget(seeds=12, starts=2, elements=20_000_000, sweeps=12)
ROUGH_LOOK: Final = SCREENING._replace(starts=1, sweeps=0)
"""For large worker counts: they are compared by greedy alone, there are many of them, and improvement moves them all by much the same."""
THOROUGH: Final = SearchBudget(seeds=128, starts=8, elements=120_000_000, sweeps=12, work=1_200_000, segments=1_500_000, beam=800)
WALKED: Final = 16
"""Different starts of the search by segments, at most."""
START_STEPS: Final = 27_000
"""Inner steps for every start of the search by segments: with fewer none gets far."""
PLACES_STEPS: Final = 6_500
"""Inner steps for every two places that are free. It decides up to 12 free workers."""
STEPS_SOON: Final = 430_000
"""With more of them it is this number, or LATER_PLACES_STEPS for every two places.

Half as many where the beam had its whole width, which leaves less to search."""
LATER_PLACES_STEPS: Final = 3_500
"""It decides between 16 and 30 free workers."""
WIDE_BEAM_CANDIDATES: Final = 128
"""Among more of them the beam is narrower, and the search by segments gets its full steps."""


def promising_seeds(costs: Costs, slots: IntArray, workers: int, limit: int) -> IntArray:
    """The most promising first members, best first, at most `limit` and what GREEDY_ELEMENTS allows."""
    return kernel.seed_ranking(costs, slots, workers)[: max(1, min(limit, GREEDY_ELEMENTS // (len(slots) * workers)))]


def greedy_from(costs: Costs, slots: IntArray, workers: int, seeds: IntArray, start: IntArray, stop: Callable[[], bool]) -> IntArray:
    """(B, k) greedy from each of the seeds, or once from the members of `start` (p,)."""
    grown = [np.zeros((0, workers), dtype=np.int64)]
    for at in range(0, 1 if len(start) else len(seeds), GREEDY_SEEDS):
        if at and stop():
            break
        grown.append(kernel.greedy_all(costs, slots, workers, seeds[at : at + GREEDY_SEEDS], start))
    return np.concatenate(grown)


def improve(
    costs: Costs, slots: IntArray, orders: IntArray, fixed: BoolArray, effort: SearchBudget, stop: Callable[[], bool]
) -> tuple[IntArray, FloatArray]:
    """As many of `orders` (B, k), best first, as the effort allows, improved: placements (B', k), objectives (B',).

    fixed: (k,) ranks that stay and take no slot · stop: ends the search between two moves or slices
    """
    workers = orders.shape[1]
    one = workers * workers * len(slots)
    if kernel.kernel_for(costs, slots, workers) is None:
        affordable = effort.elements // NUMPY_RATIO // one
        return polish_all(costs, slots, orders[: max(1, affordable)], fixed, min(effort.sweeps, affordable), stop)
    affordable = effort.elements // one
    orders, sweeps = orders[: max(1, affordable)], min(effort.sweeps, affordable)
    slice_elements = SLICE_ELEMENTS // (UPLINKS_RATIO if len(costs.uplink_domains) else 1)
    step = max(1, slice_elements // one)
    improved: list[tuple[IntArray, FloatArray]] = []
    for start in range(0, len(orders), step):
        allowed = 0 if start and stop() else sweeps
        if one > slice_elements:
            improved.append(kernel.local_search_until(costs, slots, orders[start], fixed, allowed, slice_elements, stop))
        else:
            improved.append(kernel.local_search(costs, slots, orders[start : start + step], fixed, allowed))
    return np.concatenate([rows for rows, _ in improved]), np.concatenate([seconds for _, seconds in improved])


def walked(
    costs: Costs, slots: IntArray, orders: IntArray, fixed: BoolArray, effort: SearchBudget, seed: int, stop: Callable[[], bool]
) -> tuple[IntArray, FloatArray]:
    """The best of `orders` (B, k) after a search by segments from several: (B', k), (B',); none where the effort asks for none."""
    seconds = objectives(costs, orders)
    work = min(effort.segments, segment_steps(int((~fixed).sum()), len(slots), 0 if fixed.any() else effort.beam))
    if not work or kernel.kernel_for(costs, slots, orders.shape[1]) is None:
        return orders[:0], seconds[:0]
    chosen = orders[distinct(orders, np.argsort(seconds, kind="stable"), min(WALKED, max(2, work // START_STEPS)))]
    order, _ = tournament(costs, slots, chosen, fixed, seed=seed, work=work, expired=stop)
    # Segments judge one worker's move by its neighbours; a shared uplink has more to say.
    return improve(costs, slots, order[None, :], fixed, effort, stop)


def segment_steps(free: int, candidates: int, beam: int) -> int:
    """Inner steps that a search by segments is worth where `free` workers may change their place, after a beam of `beam` paths."""
    places = math.comb(free, 2)
    if candidates > WIDE_BEAM_CANDIDATES:
        return PLACES_STEPS * places
    steps = min(PLACES_STEPS * places, max(STEPS_SOON, LATER_PLACES_STEPS * places))
    return steps // 2 if 0 < beam <= candidates * free else steps


def promising(costs: Costs, sources: list[IntArray], starts: int) -> IntArray:
    """(B, k) the `starts` best different sets of every source, best first: one source alone may sit in the wrong part of the cluster."""
    batches = [orders for orders in sources if len(orders)]
    if not batches:
        return sources[0][:0]
    seconds = kernel.objectives(costs, np.concatenate(batches))
    chosen: list[IntArray] = []
    scores: list[FloatArray] = []
    at = 0
    for orders in batches:
        own = seconds[at : at + len(orders)]
        best = distinct(orders, np.argsort(own, kind="stable"), starts)
        chosen.append(orders[best])
        scores.append(own[best])
        at += len(orders)
    together = np.concatenate(chosen)
    return together[distinct(together, np.argsort(np.concatenate(scores), kind="stable"), len(together))]


def distinct(orders: IntArray, ranking: IntArray, limit: int) -> list[int]:
    """The first `limit` positions of `ranking` whose rows are different sets."""
    sets = np.sort(orders, axis=1)
    keys: set[bytes] = set()
    chosen: list[int] = []
    for position in ranking:
        if len(chosen) >= limit:
            break
        key = sets[position].tobytes()
        if key not in keys:
            keys.add(key)
            chosen.append(int(position))
    return chosen


def seated(sets: IntArray, ranks: IntArray, workers: int) -> IntArray:
    """(B, k) members by rank: pinned ones (first in `sets`) at their ranks, the others at the free ranks in order."""
    if not len(ranks):
        return sets
    free = np.setdiff1d(np.arange(workers), ranks)
    orders = np.empty_like(sets)
    orders[:, ranks] = sets[:, : len(ranks)]
    orders[:, free] = sets[:, len(ranks) :]
    return orders
