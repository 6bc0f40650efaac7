"""What a plan would cost with one of its workers on another node. Pure."""

from __future__ import annotations

from typing import Final

import numpy as np

from hyperscale.model.graph import BoolArray, FloatArray, IntArray
from hyperscale.planner.cost.bounds import memory_may_limit
from hyperscale.planner.cost.objective import Costs
from hyperscale.planner.search.kernels import kernel
from hyperscale.planner.search.local_search_batch import replacements

MAX_POSITIONS: Final = 32
"""Workers tried for each node."""
EXACT_STEPS: Final = 4_000_000
"""Workers tried × nodes × workers². Up to this the compiled kernel counts every move, beyond it the best of estimates."""
WHOLE_STEPS: Final = 20_000_000
"""The same where nodes share cards or uplinks: there an estimate, too, follows each ring whole, and fewer workers are tried instead."""
ELEMENTS_AT_ONCE: Final = 60_000
"""Of these numbers that are in use together: they stay in the processor's cache."""
COMPARED_ELEMENTS: Final = 2_000_000
"""Numbers that the estimates may touch, workers tried × workers × candidates; very large jobs get fewer workers tried."""


def best_replacement(costs: Costs, order: IntArray, members: IntArray, stays: BoolArray) -> FloatArray:
    """(p,) objective with each of `members` in place of one worker; +inf out of reach, NaN where memory is too small.

    At most MAX_POSITIONS workers are tried, of different nodes first. stays: (k,) ranks that keep their place in the ring
    """
    compiled = kernel.kernel_for(costs, np.ones(len(costs.weight), dtype=np.int64), len(order)) is not None
    whole = costs.railed or len(costs.uplink_domains) > 0
    most = min(MAX_POSITIONS, COMPARED_ELEMENTS // (len(order) * len(costs.flops_per_second)))
    steps = max(1, len(members) * len(order) ** 2)
    most = max(1, min(most, WHOLE_STEPS // steps) if whole else most)
    tried = np.arange(len(order)) if len(order) <= most else np.sort(np.unique(order, return_index=True)[1])
    tried = tried[np.unique(np.linspace(0, len(tried) - 1, min(len(tried), most)).round().astype(np.int64))]
    if not compiled:
        return _with_limits(costs, order, members, tried)
    if whole or len(tried) * len(members) * len(order) ** 2 <= EXACT_STEPS:
        moves = _moves(order, np.repeat(tried[:, None], len(members), axis=1), members)
        moved = kernel.objectives(costs, moves).reshape(len(tried), len(members))
    else:
        moved = _estimates(costs, order, members, tried)
    best = _moves(order, tried[moved.argmin(axis=0)][None, :], members)
    in_order = kernel.objectives(costs, np.concatenate((best, kernel.rings(costs, best, stays)))).reshape(2, len(members))
    seconds: FloatArray = in_order.min(axis=0)
    return seconds


def _with_limits(costs: Costs, order: IntArray, members: IntArray, tried: IntArray) -> FloatArray:
    """The same where memory may limit shares: estimates do not know that a full GPU shifts work to the others. The ring stays."""
    estimates = _estimates(costs, order, members, tried)
    limited = memory_may_limit(costs, np.arange(len(costs.flops_per_second)), len(order))
    most = max(1, WHOLE_STEPS // max(1, len(members) * len(order) ** 2)) if limited else 1
    places = tried[np.argsort(estimates, axis=0, kind="stable")[:most]]
    exact = kernel.objectives(costs, _moves(order, places, members)).reshape(places.shape)
    best = np.where(np.isfinite(exact), exact, np.inf).min(axis=0)
    return np.where(np.isfinite(estimates.min(axis=0)), np.where(np.isfinite(best), best, np.nan), np.inf)


def _estimates(costs: Costs, order: IntArray, members: IntArray, tried: IntArray) -> FloatArray:
    """(t, p) objective with each of `members` at each of the positions, memory aside."""
    chunks = np.array_split(tried, -(-len(tried) * len(order) * len(costs.flops_per_second) // ELEMENTS_AT_ONCE))
    return np.concatenate([replacements(costs, np.repeat(order[None, :], len(chunk), axis=0), chunk) for chunk in chunks])[:, members]


def _moves(order: IntArray, places: IntArray, members: IntArray) -> IntArray:
    """(t × p, k) the order with member j at each of places (t, p) of its column."""
    rows = np.tile(order, (places.size, 1))
    rows[np.arange(places.size), places.ravel()] = np.tile(members, len(places))
    return rows
