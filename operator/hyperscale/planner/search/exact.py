"""The best placement of all, with the proof, or how far from it the best known can be. Pure and deterministic."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

import numpy as np

from hyperscale.model.graph import FloatArray, IntArray
from hyperscale.planner.cost.bounds import best_link, lower_bound
from hyperscale.planner.cost.objective import Costs
from hyperscale.planner.search.initial_solutions import exact
from hyperscale.planner.search.kernels.kernel import CANNOT_WORK, NO_START, kernel_for, objectives

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
    expired: Callable[[], bool] = lambda: False,
) -> OptimalityProof:
    """The best placement of `workers` workers among all; `upper_order` (k,) is the best known so far; the nearer, the faster.

    upper:   instead of `upper_order` the objective that a placement must be below to be of interest, e.g. that of another worker count
    pinned:  candidates of ranks that stay, which take no slot; then only the bound is sought, and `upper_order` is answered
    work:    inner steps after which what is left stays unexplored; `expired` may end it sooner
    """
    if upper_order is not None:
        upper = min(upper, float(objectives(costs, upper_order[None, :])[0]))
    room = slots + np.bincount(pinned, minlength=len(slots))
    floor = lower_bound(costs, room, workers, best_link(costs, room))
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
    best = None if len(pinned) else exact(costs, slots, workers, LISTED_SETS)
    if best is None:
        return OptimalityProof(upper_order, upper, floor, upper <= floor / PROVEN, 0)
    seconds: FloatArray = objectives(costs, best[None, :])
    if not seconds[0] < upper and upper_order is None:
        return OptimalityProof(None, np.inf, float(seconds[0]), True, LISTED_SETS)
    if not np.isfinite(seconds[0]):
        return OptimalityProof(None, np.inf, np.inf, True, LISTED_SETS)
    return OptimalityProof(best, float(seconds[0]), float(seconds[0]), True, LISTED_SETS)
