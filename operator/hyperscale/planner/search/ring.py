"""Order of the ranks: the ring whose slowest hop is fastest, for many sets of members at once. Pure and deterministic."""

from __future__ import annotations

from functools import lru_cache
from itertools import permutations
from typing import Final

import numpy as np

from hyperscale.model.graph import BoolArray, FloatArray, IntArray
from hyperscale.planner.cost.costs import ExchangeVolumes
from hyperscale.planner.cost.objective import Costs, ring_costs, volumes

EXACT_WORKERS: Final = 7
"""Workers whose rings are all tried: 360 of them."""
MAX_STARTS: Final = 16
"""Nearest-neighbour tours tried for a set."""
BATCH_TOURS: Final = 64
"""Tours of all sets together, where that leaves each at least two."""
MAX_REPAIRS: Final = 64
"""Improving 2-opt moves in one repair."""
HOPS_AT_ONCE: Final = 64_000_000
"""Pairs of workers of all rings that are reckoned at a time."""
REPAIR_ELEMENTS: Final = 4_000_000
"""Numbers that one repair may touch, moves × workers²: rings of hundreds of workers get fewer moves."""


def ring_order(costs: Costs, members: IntArray, fixed: BoolArray) -> IntArray:
    """`members` (k,) in a good ring order; positions where `fixed` (k,) keep their member.

    Without fixed positions the ring starts at the lowest candidate and runs towards its lower neighbour, so that equal rings look equal.
    """
    order: IntArray = ring_orders(costs, members[None, :], fixed)[0]
    return order


def ring_orders(costs: Costs, orders: IntArray, fixed: BoolArray) -> IntArray:
    """The same for every row of `orders` (B, k)."""
    workers = orders.shape[1]
    if not len(orders):
        return orders
    if workers <= 2:
        return orders.copy() if fixed.any() else np.sort(orders, axis=1)
    volume = volumes(costs, workers)
    if fixed.any():
        return np.array([_swap_free(costs, order, fixed, volume) for order in orders])
    members = np.sort(orders, axis=1)
    if workers <= EXACT_WORKERS:
        return _best_of(costs, members[:, all_rings(workers)], volume)
    step = max(1, REPAIR_ELEMENTS // (3 * workers * workers))
    parts = [_repair(costs, _nearest_neighbour(costs, members[at : at + step], volume), volume) for at in range(0, len(members), step)]
    return canonical(np.concatenate(parts))


@lru_cache(maxsize=EXACT_WORKERS + 1)
def all_rings(workers: int) -> IntArray:
    """Return (r, k) positions in every ring that differs when neither start nor direction counts: a read-only table."""
    turns = [turn for turn in permutations(range(1, workers)) if len(turn) < 2 or turn[0] < turn[-1]]
    rings: IntArray = np.array([(0, *turn) for turn in turns], dtype=np.int64)
    rings.flags.writeable = False
    return rings


def _best_of(costs: Costs, rings: IntArray, volume: ExchangeVolumes) -> IntArray:
    """(B, k) the fastest ring of every row of `rings` (B, r, k), the first of equals."""
    count, tried, workers = rings.shape
    if tried == 1:
        return rings[:, 0].copy()
    seconds = ring_costs(costs, rings.reshape(-1, workers), volume).reshape(count, tried)
    best: IntArray = rings[np.arange(count), np.argmin(seconds, axis=1)]
    return best


def canonical(orders: IntArray) -> IntArray:
    """(B, k) the same rings from their lowest member towards its lower neighbour."""
    workers = orders.shape[1]
    if workers <= 2:
        return np.sort(orders, axis=1)
    turned = np.take_along_axis(orders, (np.argmin(orders, axis=1)[:, None] + np.arange(workers)) % workers, axis=1)
    backwards = np.concatenate((turned[:, :1], turned[:, :0:-1]), axis=1)
    return np.where((turned[:, 1] <= turned[:, -1])[:, None], turned, backwards)


def _nearest_neighbour(costs: Costs, members: IntArray, volume: ExchangeVolumes) -> IntArray:
    """(B, k) the best of some nearest-neighbour tours of every row, all built at once."""
    rows, count = members.shape
    tries = min(count, MAX_STARTS, max(2, BATCH_TOURS // rows))
    starts = np.unique(np.linspace(0, count - 1, tries).astype(np.int64))
    pairs = (members[:, :, None], members[:, None, :])
    between = volume.ring_latency_factor * costs.latency_seconds[pairs] + volume.ring_byte_factor * costs.seconds_per_byte[pairs]
    # Unreachable but unvisited members must still come before visited ones.
    between = np.where(costs.blocked[pairs], np.finfo(np.float64).max, between)
    owner = np.repeat(np.arange(rows), len(starts))
    tours = np.zeros((len(owner), count), dtype=np.int64)
    tours[:, 0] = np.tile(starts, rows)
    visited = np.zeros((len(owner), count), dtype=np.bool_)
    every = np.arange(len(owner))
    visited[every, tours[:, 0]] = True
    for position in range(1, count):
        distance: FloatArray = between[owner, tours[:, position - 1]]
        distance[visited] = np.inf
        tours[:, position] = np.argmin(distance, axis=1)
        visited[every, tours[:, position]] = True
    return _best_of(costs, np.take_along_axis(members[owner], tours, axis=1).reshape(rows, len(starts), count), volume)


def _repair(costs: Costs, orders: IntArray, volume: ExchangeVolumes) -> IntArray:
    """2-opt on the slowest hops of every row until none improves: only a move that takes out a slowest hop can help."""
    orders = orders.copy()
    workers = orders.shape[1]
    best = ring_costs(costs, orders, volume)
    active = np.arange(len(orders))
    for _ in range(min(MAX_REPAIRS, REPAIR_ELEMENTS // workers**2)):
        moves = _reversals(orders[active], _slowest_hops(costs, orders[active]))
        seconds = _in_parts(costs, moves.reshape(-1, workers), volume).reshape(len(active), -1)
        choice = np.argmin(seconds, axis=1)
        rows = np.arange(len(active))
        better = seconds[rows, choice] < best[active] * (1.0 - 1e-12)
        active, choice, rows = active[better], choice[better], rows[better]
        if not len(active):
            break
        best[active], orders[active] = seconds[rows, choice], moves[rows, choice]
    return orders


def _in_parts(costs: Costs, orders: IntArray, volume: ExchangeVolumes) -> FloatArray:
    """`ring_costs` of rings (B, k), some at a time: where cards are shared, each needs workers² numbers."""
    step = max(1, HOPS_AT_ONCE // orders.shape[1] ** 2)
    return np.concatenate([ring_costs(costs, orders[start : start + step], volume) for start in range(0, max(1, len(orders)), step)])


def _slowest_hops(costs: Costs, orders: IntArray) -> IntArray:
    """(B, h) positions of the hops that bound latency, bandwidth and, where any pair is blocked, reachability."""
    following = np.roll(orders, -1, axis=1)
    bounds = [costs.latency_seconds[orders, following] * (orders != following), costs.seconds_per_byte[orders, following]]
    if costs.any_blocked:
        bounds.append(costs.blocked[orders, following].astype(np.float64))
    return np.stack([np.argmax(bound, axis=1) for bound in bounds], axis=1)


def _reversals(orders: IntArray, hops: IntArray) -> IntArray:
    """(B, h (k - 1), k) every 2-opt move that removes one of the hops after positions `hops` (B, h)."""
    rows, count = orders.shape
    positions = np.arange(count)
    turned = orders[np.arange(rows)[:, None, None], (hops[:, :, None] + 1 + positions) % count]
    last = np.arange(1, count)[:, None]
    reversed_positions = np.where(positions[None, :] <= last, last - positions[None, :], positions[None, :])
    moves: IntArray = turned[:, :, reversed_positions].reshape(rows, -1, count)
    return moves


def _swap_free(costs: Costs, order: IntArray, fixed: BoolArray, volume: ExchangeVolumes) -> IntArray:
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
