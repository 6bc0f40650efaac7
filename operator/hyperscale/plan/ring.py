"""Order of the ranks: the ring whose slowest hop is fastest. Pure and deterministic."""

from __future__ import annotations

from typing import Final

import numpy as np

from hyperscale.model.graph import BoolArray, FloatArray, IntArray
from hyperscale.plan.objective import Costs, Volumes, ring_costs, volumes

MAX_STARTS: Final = 16
"""Nearest-neighbour tours tried."""
MAX_REPAIRS: Final = 64
"""Improving 2-opt moves in one repair."""
REPAIR_ELEMENTS: Final = 4_000_000
"""Numbers that one repair may touch, moves × workers²: rings of hundreds of workers get fewer moves."""


def ring_order(costs: Costs, members: IntArray, fixed: BoolArray) -> IntArray:
    """`members` (k,) in a good ring order; positions where `fixed` (k,) keep their member.

    Without fixed positions the ring starts at the lowest candidate and runs towards its lower neighbour, so that equal rings look equal.
    """
    if len(members) <= 2:
        return members if fixed.any() else np.sort(members)
    volume = volumes(costs, len(members))
    if fixed.any():
        return _swap_free(costs, members, fixed, volume)
    hops = _hop_seconds(costs, volume)
    order = _repair(costs, _nearest_neighbour(costs, np.sort(members), hops, volume), volume)
    start = int(np.argmin(order))
    order = np.roll(order, -start)
    return order if order[1] <= order[-1] else np.concatenate((order[:1], order[:0:-1]))


def _hop_seconds(costs: Costs, volume: Volumes) -> FloatArray:
    """(m, m) allreduce seconds if this hop were the slowest."""
    seconds = volume.ring_latency_factor * costs.latency_seconds + volume.ring_byte_factor * costs.seconds_per_byte
    return np.where(costs.blocked, np.inf, seconds)


def _nearest_neighbour(costs: Costs, members: IntArray, hops: FloatArray, volume: Volumes) -> IntArray:
    """The best of some nearest-neighbour tours, all built at once."""
    count = len(members)
    starts = np.unique(np.linspace(0, count - 1, min(count, MAX_STARTS)).astype(np.int64))
    between = hops[np.ix_(members, members)]
    tours = np.zeros((len(starts), count), dtype=np.int64)
    tours[:, 0] = starts
    visited = np.zeros((len(starts), count), dtype=np.bool_)
    rows = np.arange(len(starts))
    visited[rows, starts] = True
    for position in range(1, count):
        distance = np.where(visited, np.inf, between[tours[:, position - 1]])
        # Unreachable but unvisited members must still come before visited ones.
        distance = np.where(~visited & ~np.isfinite(distance), np.finfo(np.float64).max, distance)
        tours[:, position] = np.argmin(distance, axis=1)
        visited[rows, tours[:, position]] = True
    orders = members[tours]
    best: IntArray = orders[int(np.argmin(ring_costs(costs, orders, volume)))]
    return best


def _repair(costs: Costs, order: IntArray, volume: Volumes) -> IntArray:
    """2-opt on the slowest hops until none improves: only a move that takes out the slowest hop can help."""
    best = float(ring_costs(costs, order[None, :], volume)[0])
    for _ in range(min(MAX_REPAIRS, REPAIR_ELEMENTS // len(order) ** 2)):
        moves = np.concatenate([_reversals(order, hop) for hop in _slowest_hops(costs, order)])
        seconds = ring_costs(costs, moves, volume)
        choice = int(np.argmin(seconds))
        if not seconds[choice] < best * (1.0 - 1e-12):
            break
        best, order = float(seconds[choice]), moves[choice]
    return order


def _slowest_hops(costs: Costs, order: IntArray) -> list[int]:
    """Positions of the hops that bound latency and bandwidth."""
    following = np.roll(order, -1)
    bounds = (costs.blocked, costs.latency_seconds, costs.seconds_per_byte)
    return sorted({int(np.argmax(bound[order, following])) for bound in bounds})


def _reversals(order: IntArray, hop: int) -> IntArray:
    """(k - 1, k) every 2-opt move that removes the hop after position `hop`."""
    count = len(order)
    turned = np.roll(order, -(hop + 1))
    positions = np.arange(count)[None, :]
    last = np.arange(1, count)[:, None]
    reversed_positions = np.where(positions <= last, last - positions, positions)
    moves: IntArray = turned[reversed_positions]
    return moves


def _swap_free(costs: Costs, order: IntArray, fixed: BoolArray, volume: Volumes) -> IntArray:
    """Swaps among the free positions, best first, until none improves."""
    free = np.flatnonzero(~fixed)
    left, right = np.triu_indices(len(free), 1)
    if not len(left):
        return order
    best = float(ring_costs(costs, order[None, :], volume)[0])
    for _ in range(min(MAX_REPAIRS, REPAIR_ELEMENTS // (len(left) * len(order)))):
        moves = np.repeat(order[None, :], len(left), axis=0)
        rows = np.arange(len(left))
        moves[rows, free[left]], moves[rows, free[right]] = order[free[right]], order[free[left]]
        seconds = ring_costs(costs, moves, volume)
        choice = int(np.argmin(seconds))
        if not seconds[choice] < best * (1.0 - 1e-12):
            break
        best, order = float(seconds[choice]), moves[choice]
    return order
