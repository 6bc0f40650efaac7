"""Single moves judged by the true costs where memory may limit shares: estimates do not know that a full GPU shifts work. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from hyperscale.model.graph import BoolArray, FloatArray, IntArray
from hyperscale.planner.cost.objective import Costs, objectives
from hyperscale.planner.search.local_search_batch import BATCH_ELEMENTS, IMPROVES
from hyperscale.planner.search.ring import ring_orders

PASSES: Final = 4
"""Times that every node in use is looked at; a placement seldom improves after the third."""


def exact_moves(
    costs: Costs, slots: IntArray, order: IntArray, fixed: BoolArray, elements: int, stop: Callable[[], bool]
) -> tuple[IntArray, FloatArray]:
    """`order` (k,) with one worker after the other on a better node: placement (1, k) and objective (1,).

    slots: (m,) of each candidate · fixed: (k,) ranks that stay · elements: numbers that may be touched, moves × workers²
    stop: ends the search between two nodes
    """
    best, seconds = order.copy(), float(objectives(costs, order[None, :])[0])
    left = elements
    for _ in range(PASSES):
        before = seconds
        for position in _one_of_each_node(best, fixed):
            moves = _moves(best, slots, fixed, int(position))
            left -= moves.size * len(order)
            if stop() or left < 0:
                return best[None, :], np.array([seconds])
            best, seconds = _better(costs, best, seconds, moves)
        best, seconds = _better(costs, best, seconds, ring_orders(costs, best[None, :], fixed))
        if seconds >= before * IMPROVES:
            break
    return best[None, :], np.array([seconds])


def _one_of_each_node(order: IntArray, fixed: BoolArray) -> IntArray:
    """The first rank of every node that may leave it: its neighbours on a node are its like."""
    free = np.flatnonzero(~fixed)
    return free[np.sort(np.unique(order[free], return_index=True)[1])]


def _moves(order: IntArray, slots: IntArray, fixed: BoolArray, position: int) -> IntArray:
    """(B, k) the order with every other candidate that has room at `position`."""
    used = np.bincount(order[~fixed], minlength=len(slots))
    members = np.flatnonzero(used < slots)
    members = members[members != order[position]]
    moves = np.repeat(order[None, :], len(members), axis=0)
    moves[:, position] = members
    return moves


def _better(costs: Costs, order: IntArray, seconds: float, moves: IntArray) -> tuple[IntArray, float]:
    """The best of `moves` (B, k) where it improves on `order`, else that."""
    if not len(moves):
        return order, seconds
    chunks = np.array_split(moves, -(-moves.size * len(order) // BATCH_ELEMENTS))
    figures = np.concatenate([objectives(costs, chunk) for chunk in chunks if len(chunk)])
    least = int(figures.argmin())
    return (moves[least], float(figures[least])) if figures[least] < seconds * IMPROVES else (order, seconds)
