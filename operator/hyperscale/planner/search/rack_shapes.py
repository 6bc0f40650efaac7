"""Starts of equal shape: as many workers in each of some topology domains, and on each of their nodes. Pure and deterministic.

Greedy, beam and single moves leave such shapes out. None adds a worker to a further domain where its uplink is then the slowest, though all
workers spread over several domains load each uplink less; nor does any leave a node whose cards its workers share for many with fewer. So
every shape is laid out and costed as a whole.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from hyperscale.model.graph import BoolArray, FloatArray, IntArray
from hyperscale.planner.cost.objective import Costs, volumes

MAX_ELEMENTS: Final = 4_000_000
"""Numbers that costing the shapes of one level may touch, shapes x workers²; some milliseconds."""
SMALL_WORKERS: Final = 8
"""So few workers are placed well from other starts where no uplink is limited."""
DENSE_DOMAINS: Final = 16
"""Every number of domains up to here has shapes; of more of them those that divide the workers, and all there are."""


class _Level(NamedTuple):
    """The m candidates of one topology level, domain by domain, the best of each first."""

    nodes: IntArray
    """(m,) candidates."""
    domain: IntArray
    """(m,) of each, 0..d-1, rising."""
    starts: IntArray
    """(d,) where each domain begins."""
    merit: FloatArray
    """(m,) seconds of a worker there."""
    uplink: FloatArray
    """(d,) seconds of a fair part of all exchanges over the domain's uplink."""


def even_shapes(costs: Costs, slots: IntArray, workers: int, racks: IntArray | None = None) -> IntArray:
    """Return (B, k) an order of every equal shape over the domains with limited uplinks; without any, over `racks`, if given.

    A shape is a number of domains and of workers a node. Each domain gets the same number of workers, each of its nodes too, and where a
    number does not divide, one less. The domains and nodes with the least seconds by a bound of their own are taken.
    slots: (m,) workers that each candidate can take · racks: (m,) narrowest domain of each, -1 for none; SMALL_WORKERS go without
    """
    levels = list(zip(costs.uplink_domains, costs.uplink_seconds_per_byte, strict=True))
    if not levels and racks is not None and workers > SMALL_WORKERS:
        levels = [(racks, np.zeros(1 + int(racks.max(initial=0))))]
    if workers < 2 or not levels or not slots.any():
        return np.zeros((0, workers), dtype=np.int64)
    return np.concatenate([_of_level(costs, slots, workers, *level) for level in levels])


def _of_level(costs: Costs, slots: IntArray, workers: int, codes: IntArray, uplinks: FloatArray) -> IntArray:
    """(B, k) one order of every shape of one level that fits; codes: (m,) domain of each candidate · uplinks: (d,) seconds per byte."""
    level = _level(costs, slots, workers, codes, uplinks)
    domains, most = shapes(workers, len(level.starts), int(slots.max(initial=0)))
    step = max(1, MAX_ELEMENTS // workers**2)
    domains, most = domains[:step], most[:step]
    fits = slots[level.nodes] >= most[:, None]
    load = _loads(level, fits, workers, domains, most)
    load = load[load.sum(axis=1) == workers]
    return np.repeat(np.tile(level.nodes, len(load)), load.ravel()).reshape(-1, workers)


def shapes(workers: int, domains: int, slots: int) -> tuple[IntArray, IntArray]:
    """Return (s,) numbers of domains and (s,) of workers a node; shapes that divide the workers come first."""
    counts = np.arange(1, min(domains, workers) + 1)
    counts = counts[(counts <= DENSE_DOMAINS) | (workers % counts == 0) | (counts == domains)]
    wide, deep = (grid.ravel() for grid in np.meshgrid(counts, np.arange(1, min(slots, workers) + 1), indexing="ij"))
    fitting = wide * deep <= workers
    wide, deep = wide[fitting], deep[fitting]
    first = np.argsort(workers % (wide * deep) != 0, kind="stable")
    return wide[first], deep[first]


def _level(costs: Costs, slots: IntArray, workers: int, codes: IntArray, uplinks: FloatArray) -> _Level:
    """The candidates by domain; those in none are one domain without a limit."""
    usable = np.flatnonzero(slots > 0)
    codes, own = np.unique(codes[usable], return_inverse=True)
    merit = _merit(costs, usable, workers)
    order = np.lexsort((usable, merit, own))
    per_byte = np.where(codes >= 0, uplinks[codes], 0.0)
    starts = np.searchsorted(own[order], np.arange(len(codes)))
    return _Level(usable[order], own[order], starts, merit[order], per_byte * _sent(costs, workers))


def _merit(costs: Costs, usable: IntArray, workers: int) -> FloatArray:
    """(u,) seconds of a worker on each of the nodes `usable` (u,): its arithmetic, and its exchanges with a mean other node."""
    far: FloatArray = costs.apart_seconds_per_byte[np.ix_(usable, usable)].mean(axis=1)
    seconds: FloatArray = costs.workload.epoch_flops / (workers * costs.flops_per_second[usable]) + _sent(costs, workers) * far
    return seconds


def _sent(costs: Costs, workers: int) -> float:
    """Bytes that a rank sends in an epoch, were all hops of the ring alike."""
    volume = volumes(costs, workers)
    return volume.halo_bytes / costs.ranks(workers) + volume.ring_byte_factor


def _loads(level: _Level, fits: BoolArray, workers: int, domains: IntArray, most: IntArray) -> IntArray:
    """(s, m) workers on each node of every shape; rows that do not fit have fewer than all.

    fits: (s, m) whether a node has room for as many workers as a node of the shape gets
    """
    rows = np.arange(len(domains))[:, None]
    # The place of each node among those of its domain that fit, and how many these are.
    count = np.cumsum(fits, axis=1)
    before = np.where(level.starts > 0, count[:, level.starts - 1], 0)
    place = count - 1 - before[:, level.domain]
    room = np.diff(np.concatenate((before, count[:, -1:]), axis=1), axis=1)
    nodes = _ceiling(_ceiling(workers, domains), most)
    seconds = np.cumsum(np.where(fits & (place < nodes[:, None]), level.merit, 0.0), axis=1)
    ends = np.append(level.starts[1:], len(level.nodes)) - 1
    spent = np.diff(seconds[:, ends], axis=1, prepend=0.0) / nodes[:, None] + level.uplink * (domains > 1)[:, None]
    ranking = np.argsort(np.where(room >= nodes[:, None], spent, np.inf), axis=1, kind="stable")
    rank = np.empty_like(ranking)
    rank[rows, ranking] = np.arange(ranking.shape[1])
    chosen = (rank < domains[:, None]) & (room >= nodes[:, None])
    share = np.where(chosen, workers // domains[:, None] + (rank < workers % domains[:, None]), 0)
    used = np.maximum(_ceiling(share, most[:, None]), 1)
    on = share[:, level.domain] // used[:, level.domain] + (place < (share % used)[:, level.domain])
    load: IntArray = np.where(fits & (place < used[:, level.domain]), on, 0)
    return load


def _ceiling(number: IntArray | int, divisor: IntArray) -> IntArray:
    """`number` / `divisor`, rounded up."""
    rounded: IntArray = -(-number // divisor)
    return rounded
