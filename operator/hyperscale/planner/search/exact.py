"""The best placement of all, with the proof, or how far from it the best known can be. Pure and deterministic."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import combinations, combinations_with_replacement
from typing import Final, NamedTuple

import numpy as np

from hyperscale.model.graph import FloatArray, IntArray
from hyperscale.planner.cost.bounds import best_links, lower_bound
from hyperscale.planner.cost.objective import Costs, ring_costs, set_objectives, volumes
from hyperscale.planner.search.kernels.kernel import CANNOT_WORK, NO_START, kernel_for, objectives
from hyperscale.planner.search.ring import EXACT_WORKERS, all_rings

try:
    from hyperscale.planner.search.kernels import _branch
except ImportError:  # pragma: no cover - planner/search/kernels/kernel.py has warned
    _branch = None  # type: ignore[assignment] # the numpy path asks

DEFAULT_WORK: Final = 50_000_000
"""Inner steps of branch and bound, some tenths of a second."""
EARLY_WORK: Final = 120_000
"""Steps of a proof that is tried before a close look, a millisecond or two: small problems need none."""
PROOF_SETS: Final = 1e8
"""With no more sets of slots a proof may take DEFAULT_WORK."""
QUICK_WORK: Final = 1_200_000
"""With more sets it is tried no longer than this, some ten milliseconds: when it succeeds, it mostly does soon."""
MANY_SETS: Final = 1e12
"""Sets beyond which it gets a third of that."""
HOPELESS_SETS: Final = 1e16
"""Sets beyond which no proof is tried (128 nodes with 16 workers): it would say no more than the simple bound."""
PROOF_WORKERS: Final = 24
"""More workers get no proof, only the simple bound."""
LISTED_SETS: Final = 12_000
"""Sets that the numpy path lists and evaluates."""
CHUNK_SETS: Final = 64
"""Sets whose rings are evaluated at once."""
PROVEN: Final = 1.0 - 1e-9
"""A bound this near to the objective is the objective: what is left is rounding."""


class OptimalityProof(NamedTuple):
    """The best placement known and what none can beat."""

    order: IntArray | None
    """(k,) in ring order; None where none below the given upper value is known, or none works."""
    objective: float
    """+inf without an order."""
    lower_bound: float
    """Every placement has at least this objective; the same as `objective` where that is proven."""
    proven: bool
    """No placement is better; without an order: none is below the upper value."""
    work: int
    """Inner steps; the same on every machine."""


def branch_and_bound(
    costs: Costs,
    slots: IntArray,
    workers: int,
    upper_order: IntArray | None = None,
    *,
    upper: float = np.inf,
    pinned: IntArray = NO_START,
    work: int = DEFAULT_WORK,
    floor: float | None = None,
    expired: Callable[[], bool] = lambda: False,
) -> OptimalityProof:
    """The best placement of `workers` workers among all; `upper_order` (k,) is the best known so far; the nearer, the faster.

    upper:   instead of `upper_order` the objective that a placement must be below to be of interest, e.g. that of another worker count
    pinned:  candidates of ranks that stay, which take no slot; then only the bound is sought, and `upper_order` is answered
    work:    inner steps after which what is left stays unexplored; `expired` may end it sooner
    floor:   `bounds.lower_bound` of the same placements where the caller has it
    """
    if upper_order is not None:
        upper = min(upper, float(objectives(costs, upper_order[None, :])[0]))
    if floor is None:
        room = slots + np.bincount(pinned, minlength=len(slots))
        floor = lower_bound(costs, room, workers, best_links(costs, room))
    kernel = kernel_for(costs, slots, workers) if _branch is not None and len(pinned) < workers else None
    if kernel is None:
        return _listed(costs, slots, workers, upper_order, upper, floor, pinned)
    order = np.zeros(workers, dtype=np.int32)
    seconds, bound, used = _branch.branch_and_bound(kernel, pinned.astype(np.int32), order, min(upper, CANNOT_WORK), work, expired)
    if seconds >= min(upper, CANNOT_WORK) and upper_order is None:
        return _without_placement(max(floor, bound), max(floor, bound) >= seconds * PROVEN, used)
    if seconds >= CANNOT_WORK:
        return _without_placement(max(floor, bound), bound >= CANNOT_WORK, used)
    best = order.astype(np.int64) if seconds < upper or upper_order is None else upper_order
    proven = max(bound, floor) >= seconds * PROVEN
    return OptimalityProof(best, seconds, seconds if proven else max(bound, floor), proven, used)


def _without_placement(bound: float, proven: bool, work: int) -> OptimalityProof:
    """The search met no placement of interest."""
    return OptimalityProof(None, np.inf, np.inf if bound >= CANNOT_WORK else bound, proven, work)


def proof_work(slots: IntArray, workers: int) -> int:
    """Inner steps that a proof for `workers` workers is worth; 0 where it would prove nothing."""
    if workers > PROOF_WORKERS:
        return 0
    ways = np.zeros(workers + 1)
    ways[0] = 1.0
    for count in slots:
        more = ways.copy()
        for taken in range(1, min(int(count), workers) + 1):
            more[taken:] += ways[: workers + 1 - taken]
        ways = more
    if ways[workers] <= PROOF_SETS:
        return DEFAULT_WORK
    if ways[workers] > HOPELESS_SETS:
        return 0
    return QUICK_WORK if ways[workers] <= MANY_SETS else QUICK_WORK // 3


def _listed(
    costs: Costs, slots: IntArray, workers: int, upper_order: IntArray | None, upper: float, floor: float, pinned: IntArray
) -> OptimalityProof:
    """The same by listing all sets where there are few; else the simple bound only."""
    best = None if len(pinned) else best_of_all(costs, slots, workers, LISTED_SETS)
    if best is None:
        return OptimalityProof(upper_order, upper, floor, upper <= floor / PROVEN, 0)
    seconds: FloatArray = objectives(costs, best[None, :])
    if not seconds[0] < upper and upper_order is None:
        return OptimalityProof(None, np.inf, float(seconds[0]), True, LISTED_SETS)
    if not np.isfinite(seconds[0]):
        return OptimalityProof(None, np.inf, np.inf, True, LISTED_SETS)
    return OptimalityProof(best, float(seconds[0]), float(seconds[0]), True, LISTED_SETS)


def best_of_all(costs: Costs, slots: IntArray, workers: int, limit: int) -> IntArray | None:
    """The best placement (k,) of all, the first of equals; None where there are more than `limit` sets, or too few slots.

    Sets come in the order of their cost without the ring; once that alone is above the best whole cost, the rest cannot win.
    """
    sets = _all_sets(slots, workers, limit) if workers <= EXACT_WORKERS else None
    if sets is None:
        return None
    floor = set_objectives(costs, sets)
    ranking = np.argsort(floor, kind="stable")
    rings, volume, weight = all_rings(workers), volumes(costs, workers), 1.0 + costs.communication_weight
    best: IntArray = sets[ranking[0]]
    best_seconds = np.inf
    for start in range(0, len(ranking), CHUNK_SETS):
        rows = ranking[start : start + CHUNK_SETS]
        if not floor[rows[0]] < best_seconds:
            break
        orders = sets[rows][:, rings].reshape(-1, workers)
        seconds = np.repeat(floor[rows], len(rings)) + weight * ring_costs(costs, orders, volume)
        choice = int(np.argmin(seconds))
        if seconds[choice] < best_seconds:
            best, best_seconds = orders[choice], float(seconds[choice])
    return best


def _all_sets(slots: IntArray, workers: int, limit: int) -> IntArray | None:
    """(B, k) every set of slots, members rising, sets in rising order; None where there are too many to list, or none."""
    usable = np.flatnonzero(slots > 0)
    single = bool((slots <= 1).all())
    size = len(usable)
    if (math.comb(size, workers) if single else math.comb(size + workers - 1, workers)) > limit:
        return None
    chosen = (combinations if single else combinations_with_replacement)(usable.tolist(), workers)
    sets = np.array(list(chosen), dtype=np.int64).reshape(-1, workers)
    for times in range(1, workers):
        # A member that comes again `times` places later needs more than `times` slots.
        again = (sets[:, times:] == sets[:, :-times]) & (slots[sets[:, times:]] <= times)
        sets = sets[~again.any(axis=1)]
    return sets if len(sets) else None
