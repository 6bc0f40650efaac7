"""The order of a few stops: cheapest open path, and the path or ring whose worst hop is least. Pure; no chance anywhere.

Both are exact by dynamic programming over sets (Held and Karp) up to `EXACT` stops. Beyond, the worst hop is found by binary search
over the distinct costs, with a bound that is proven and a ring that a search found: the two differ where the search gave up.
"""

from __future__ import annotations

import dataclasses
from typing import Final

import numpy as np

from hyperscale.model.graph import BoolArray, FloatArray, IntArray

EXACT: Final = 16
"""Stops up to which every set is looked at: 2^16 sets of 16 stops are a second of numpy."""
ROTATIONS: Final = 4000
"""Rotations tried for one Hamiltonian cycle before the search gives up."""


@dataclasses.dataclass(frozen=True)
class StopOrder:
    """Stops in an order."""

    stops: tuple[int, ...]
    worst: float
    """The dearest hop, the closing one included for a ring."""
    bound: float
    """No order has a cheaper worst hop; equal to `worst` where the order is proven best."""


def shortest_path(cost: FloatArray) -> tuple[tuple[int, ...], float]:
    """The cheapest open path through all stops of a symmetric (stops, stops) matrix, and its length; at most `EXACT` stops.

    Raises ValueError above that.
    """
    stops = len(cost)
    if stops > EXACT:
        raise ValueError(f"{stops} stops; exact paths end at {EXACT}")
    reach = np.full((1 << stops, stops), np.inf)
    reach[1 << np.arange(stops), np.arange(stops)] = 0.0
    for mask in range(1, (1 << stops) - 1):
        outside = [stop for stop in range(stops) if not mask >> stop & 1]
        ways = (reach[mask][:, None] + cost[:, outside]).min(axis=0)
        for stop, way in zip(outside, ways, strict=True):
            after = mask | 1 << stop
            reach[after, stop] = min(reach[after, stop], way)
    return _walk_back(reach, cost)


def _walk_back(reach: FloatArray, cost: FloatArray) -> tuple[tuple[int, ...], float]:
    mask = len(reach) - 1
    last = int(reach[mask].argmin())
    walk, length = [last], float(reach[mask, last])
    while mask ^ 1 << last:
        before = mask ^ 1 << last
        step = reach[before] + cost[:, last]
        mask, last = before, int(step.argmin())
        walk.append(last)
    return tuple(walk), length


def bottleneck(cost: FloatArray, ring: bool = True) -> StopOrder:
    """The ring (or open path) through all stops whose dearest hop is cheapest: what a ring allreduce or a pipeline waits for.

    `cost` is symmetric, (stops, stops); +inf is a pair that cannot talk. Exact up to `EXACT` stops; see `StopOrder.bound` beyond.
    """
    stops = len(cost)
    if stops < 3:
        worst = float(cost[0, 1]) if stops == 2 else 0.0
        return StopOrder(tuple(range(stops)), worst, worst)
    levels = np.unique(cost[np.triu_indices(stops, 1)])
    low, high, shortest, bound = 0, len(levels) - 1, tuple(range(stops)), float(levels[0])
    while low <= high:
        middle = (low + high) // 2
        stops_found = _hamiltonian(cost <= levels[middle], ring)
        if stops_found:
            high, shortest = middle - 1, stops_found
        else:
            low = middle + 1
            if stops <= EXACT or not _may_have(cost <= levels[middle], ring):
                bound = max(bound, float(levels[min(middle + 1, len(levels) - 1)]))
    hops = [float(cost[shortest[place - 1], shortest[place]]) for place in range(0 if ring else 1, stops)]
    return StopOrder(shortest, max(hops), bound)


def _hamiltonian(linked: BoolArray, ring: bool) -> tuple[int, ...]:
    """A cycle or path through all stops over the links given; empty where none was found (up to `EXACT` stops: where there is none)."""
    if not _may_have(linked, ring):
        return ()
    return _by_sets(linked, ring) if len(linked) <= EXACT else _by_rotations(linked, ring)


def _may_have(linked: BoolArray, ring: bool) -> bool:
    """Whether nothing simple forbids it: enough links at every stop, one piece, and for a ring no stop that falls apart without."""
    stops = len(linked)
    few = linked.sum(axis=1) - linked.diagonal()
    if (few < 2).sum() > (0 if ring else 2) or (few < 1).any():
        return False
    if not _one_piece(linked, np.ones(stops, dtype=np.bool_)):
        return False
    return not ring or all(_one_piece(linked, np.arange(stops) != stop) for stop in range(stops))


def _one_piece(linked: BoolArray, inside: BoolArray) -> bool:
    reached = np.zeros(len(linked), dtype=np.bool_)
    reached[inside.argmax()] = True
    while True:
        grown = (reached | linked[reached].any(axis=0)) & inside
        if (grown == reached).all():
            return bool((reached == inside).all())
        reached = grown


def _by_sets(linked: BoolArray, ring: bool) -> tuple[int, ...]:
    """A cycle (or path) through all stops by dynamic programming over sets; empty where there is none."""
    stops = len(linked)
    bits = [sum(1 << other for other in range(stops) if linked[stop, other] and other != stop) for stop in range(stops)]
    ends = _path_ends(bits, ring)
    full = (1 << stops) - 1
    last = int(ends[full]) & (bits[0] if ring else full)
    if not last:
        return ()
    walk, mask = [last.bit_length() - 1], full
    while len(walk) < stops:
        stop, mask = walk[-1], mask ^ 1 << walk[-1]
        walk.append((int(ends[mask]) & bits[stop]).bit_length() - 1)
    return tuple(walk)


def _path_ends(bits: list[int], ring: bool) -> IntArray:
    """(2^stops,) bit sets of the stops where a path over each set may end. A ring starts at 0. bits: partners of each stop."""
    stops = len(bits)
    ends = np.zeros(1 << stops, dtype=np.int64)
    for stop in range(1 if ring else stops):
        ends[1 << stop] = 1 << stop
    masks = np.arange(1 << stops, dtype=np.int64)
    members = sum(masks >> stop & 1 for stop in range(stops))
    for size in range(2, stops + 1):
        layer = masks[members == size]
        for stop in range(stops):
            inside = layer[(layer >> stop & 1) == 1]
            ends[inside] |= np.where(ends[inside ^ 1 << stop] & bits[stop], 1 << stop, 0)
    return ends


def _by_rotations(linked: BoolArray, ring: bool) -> tuple[int, ...]:
    """Pósa's rotations, fewest free links first: finds most cycles there are, proves nothing where it finds none."""
    stops = len(linked)
    links = [np.flatnonzero(linked[stop] & (np.arange(stops) != stop)).tolist() for stop in range(stops)]
    path, turn = [min(range(stops), key=lambda stop: len(links[stop]))], 0
    for _ in range(ROTATIONS):
        end = path[-1]
        free = [stop for stop in links[end] if stop not in path]
        if free:
            path.append(min(free, key=lambda stop: (len(links[stop]), stop)))
        elif len(path) == stops and (not ring or linked[end, path[0]]):
            return tuple(path)
        else:
            turn = _rotate(path, linked[end], turn)
    return ()


def _rotate(path: list[int], linked_to_end: BoolArray, turn: int) -> int:
    """Reverse the path behind a stop that its end is linked to, each in turn, or else the whole path; return the rotations so far."""
    turning = [place for place in range(len(path) - 2) if linked_to_end[path[place]]]
    if not turning:
        path.reverse()
        return turn
    turn += 1
    at = turning[turn % len(turning)]
    path[at + 1 :] = reversed(path[at + 1 :])
    if turn % 11 == 0:
        path.reverse()
    return turn
