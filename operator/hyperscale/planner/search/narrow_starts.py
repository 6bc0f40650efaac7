"""Starts on fewer slots: one worker a node, nodes whose memory holds an equal part, nodes that reach each other. Pure, deterministic.

Greedy and single moves fill a node that they have begun, and follow speed without a look at memory. From there they do not come back.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import islice
from typing import Final

import numpy as np

from hyperscale.model.graph import FloatArray, IntArray
from hyperscale.planner.cost.bounds import memory_may_limit
from hyperscale.planner.cost.objective import Costs, largest_shares
from hyperscale.planner.search.improve import SearchBudget, greedy_from, improve, promising, promising_seeds
from hyperscale.planner.search.kernels import kernel

MOST_NODES: Final = 300
"""Among which such a set is looked for: those that reach most others."""
MOST_CLIQUES: Final = 2000
"""Sets of nodes that all reach each other, at most, of which one is looked for that is large enough."""


def narrow_starts(costs: Costs, slots: IntArray, workers: int, effort: SearchBudget, stop: Callable[[], bool]) -> list[IntArray]:
    """Sources of placements (B, k), each improved on its own slots; none where no slot is left out. slots: (m,)."""
    sources: list[IntArray] = []
    if effort.beam and slots.max(initial=0) > 1:
        sources.append(_improved(costs, np.minimum(slots, 1), workers, effort, stop))
    if memory_may_limit(costs, np.flatnonzero(slots > 0), workers):
        largest = largest_shares(costs, workers)
        unlimited = replace(costs, memory_bytes=np.full(len(slots), np.inf))
        sources.append(_improved(unlimited, np.where(largest * workers >= 1.0, slots, 0), workers, effort, stop))
        sources.append(_most_room(largest, slots, workers))
    return [orders for orders in sources if len(orders)]


def reaching_starts(
    costs: Costs, slots: IntArray, workers: int, starts: IntArray, effort: SearchBudget, stop: Callable[[], bool]
) -> IntArray:
    """`starts` (B, k), or where links are missing and none of them works, placements on nodes that all reach each other.

    Greedy goes where links are fast, and the beam knows a path by its cost: few nodes that all reach each other are in neither's way.
    """
    if not costs.any_blocked or (len(starts) and np.isfinite(kernel.objectives(costs, starts)).any()):
        return starts
    import networkx

    usable = np.flatnonzero(slots > 0)
    usable = usable[np.argsort(costs.blocked[np.ix_(usable, usable)].sum(axis=1), kind="stable")[:MOST_NODES]]
    reach = networkx.from_numpy_array(~costs.blocked[np.ix_(usable, usable)] & ~np.eye(len(usable), dtype=np.bool_))
    for clique in islice(networkx.find_cliques(reach), MOST_CLIQUES):
        inside = np.zeros_like(slots)
        inside[usable[clique]] = slots[usable[clique]]
        if inside.sum() >= workers:
            orders = _improved(costs, inside, workers, effort, stop)
            return orders if len(orders) else np.repeat(usable[clique], slots[usable[clique]])[None, :workers]
        if stop():
            break
    return starts


def _improved(costs: Costs, slots: IntArray, workers: int, effort: SearchBudget, stop: Callable[[], bool]) -> IntArray:
    """Greedy and local search on these slots; none without the compiled kernel, or where the slots are too few."""
    if slots.sum() < workers or kernel.kernel_for(costs, slots, workers) is None:
        return np.zeros((0, workers), dtype=np.int64)
    seeds = promising_seeds(costs, slots, workers, effort.seeds)
    grown = promising(costs, [greedy_from(costs, slots, workers, seeds, kernel.NO_START, stop)], effort.starts)
    return improve(costs, slots, grown, np.zeros(workers, dtype=np.bool_), effort, stop)[0] if len(grown) else grown


def _most_room(largest: FloatArray, slots: IntArray, workers: int) -> IntArray:
    """(1, k) the nodes with the most memory, filled one after the other: if these do not hold the graph, none do. None on too few slots."""
    by_room = np.argsort(-largest, kind="stable")
    members = np.repeat(by_room, slots[by_room])
    return members[None, :workers] if len(members) >= workers else np.zeros((0, workers), dtype=np.int64)
