"""What no division of devices into a pipeline's groups can undercut. Pure.

Take only the links whose activation cost is at most some level. Two neighbours in the pipeline whose best matching stays within the
level have equally many devices in each connected piece of those links. So the pipeline falls into runs of equally made groups, with one
dearer hop between two runs, and the pieces must be dealt out over the runs without rest. Few dearer hops mean few runs, hence groups
that hold few devices of each piece, hence a dear gradient exchange: for every level and number of dearer hops there is a least gradient
exchange (`_least`). The bound is the cheapest sum over all that can be had together.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Final

import numpy as np

from hyperscale.model.graph import BoolArray, FloatArray, IntArray
from hyperscale.planner.assign.pipeline import Pipeline

MOST_STEPS: Final = 20_000
"""Ways tried while the pieces are dealt out; beyond, it is taken that they can be: the bound only gets lower."""

Piece = tuple[int, tuple[float, ...]]
"""Devices of one connected piece, and the least gradient exchange of one of them by how many of the piece share its group (from 1)."""


def pipe_bound(pipeline: Pipeline) -> float:
    """A lower bound of the cost, seconds."""
    values, rank = pipeline.levels()
    floor = float(_nearest_sums(pipeline).max())
    hops = pipeline.groups - 1
    needs: list[list[float]] = []
    for level in range(len(values) - 1):
        pieces = _pieces(pipeline, rank <= level)
        needs.append(_needs(pipeline, pieces, hops, floor))
    cheapest = np.inf
    for exchange in sorted({floor, *itertools.chain.from_iterable(needs)} - {np.inf}):
        path = hops * float(values[0])
        for level, least in enumerate(needs):
            dear = next((count for count, need in enumerate(least) if need <= exchange), hops)
            path += dear * float(values[level + 1] - values[level])
        cheapest = min(cheapest, exchange + 2.0 * path)
    return float(cheapest)


def _needs(pipeline: Pipeline, pieces: Sequence[Piece], hops: int, floor: float) -> list[float]:
    """The least gradient exchange by the number of dearer hops, (hops,): it only falls, so from the floor on nothing is looked at."""
    seconds: list[float] = []
    for dear in range(hops):
        seconds.append(floor if seconds and seconds[-1] <= floor else _least(pipeline, pieces, dear, floor))
    return seconds


def _nearest_sums(pipeline: Pipeline) -> FloatArray:
    """(devices,): gradient exchange with the nearest devices, enough for a whole group."""
    others = np.sort(pipeline.gradient + np.diag(np.full(len(pipeline.gradient), np.inf)), axis=1)
    return np.asarray(others[:, : pipeline.size - 1].sum(axis=1))


def _pieces(pipeline: Pipeline, linked: BoolArray) -> list[Piece]:
    """The connected pieces of the links given."""
    label = _labels(linked)
    pieces: list[Piece] = []
    for piece in np.unique(label):
        inside = label == piece
        least = [_exchange(pipeline, inside, count) for count in range(1, min(pipeline.size, int(inside.sum())) + 1)]
        pieces.append((int(inside.sum()), tuple(least)))
    return sorted(pieces, key=lambda piece: (-piece[0], piece[1]))


def _labels(linked: BoolArray) -> IntArray:
    """(devices,): the lowest device of the connected piece."""
    label = np.arange(len(linked))
    joined = linked | np.eye(len(linked), dtype=np.bool_)
    while True:
        lower = np.where(joined, label[None, :], len(linked)).min(axis=1)
        if (lower == label).all():
            return label
        label = lower


def _exchange(pipeline: Pipeline, inside: BoolArray, count: int) -> float:
    """The least gradient exchange of a device where `count` devices of its piece share the group; inf where too few others are left."""
    rest = pipeline.size - count
    if rest > (~inside).sum():
        return float("inf")
    own = pipeline.gradient[np.ix_(inside, inside)] + np.diag(np.full(int(inside.sum()), np.inf))
    near = np.sort(own, axis=1)[:, : count - 1].sum(axis=1)
    far = np.sort(pipeline.gradient[np.ix_(inside, ~inside)], axis=1)[:, :rest].sum(axis=1)
    return float((near + far).min())


def _least(pipeline: Pipeline, pieces: Sequence[Piece], dear: int, floor: float) -> float:
    """The least gradient exchange with which the pieces can be dealt over `dear` + 1 runs; inf where they cannot."""
    exchanges = sorted({floor} | {max(floor, value) for _, least in pieces for value in least if np.isfinite(value)})

    def possible(exchange: float) -> bool:
        return any(_can_deal(pieces, runs, pipeline.size, exchange) for runs in _partitions(pipeline.groups, dear + 1))

    return _first_true(exchanges, possible)


def _first_true(values: Sequence[float], holds: Callable[[float], bool]) -> float:
    """The first of ascending values from which on a condition holds; inf where it never does."""
    low, high = 0, len(values)
    while low < high:
        middle = (low + high) // 2
        if holds(values[middle]):
            high = middle
        else:
            low = middle + 1
    return values[low] if low < len(values) else float("inf")


def _can_deal(pieces: Sequence[Piece], runs: Sequence[int], size: int, exchange: float) -> bool:
    """Whether every group of run r can take equally many devices of each piece so that all are dealt out and no exchange is dearer."""
    rooms: set[tuple[int, ...]] = {tuple([size] * len(runs))}
    steps = 0
    for (devices, least), times in Counter(pieces).items():
        allowed = [0, *(count for count, value in enumerate(least, start=1) if value <= exchange)]
        ways = list(_ways(devices, runs, allowed))
        for _ in range(times):
            steps += len(rooms) * len(ways)
            if steps > MOST_STEPS:
                return True
            rooms = {_sorted(left, runs) for room in rooms for way in ways if min(left := _minus(room, way)) >= 0}
            if not rooms:
                return False
    return True


def _minus(room: tuple[int, ...], way: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(have - take for have, take in zip(room, way, strict=True))


def _sorted(room: tuple[int, ...], runs: Sequence[int]) -> tuple[int, ...]:
    """Runs of one length are alike: their rooms in order."""
    return tuple(left for _, left in sorted(zip(runs, room, strict=True)))


def _ways(devices: int, runs: Sequence[int], allowed: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Counts per run with Σ run × count = devices."""
    if not runs:
        if not devices:
            yield ()
        return
    for count in allowed:
        if runs[0] * count <= devices:
            for others in _ways(devices - runs[0] * count, runs[1:], allowed):
                yield (count, *others)


def _partitions(total: int, parts: int, least: int = 1) -> Iterator[tuple[int, ...]]:
    """All ways to write `total` as a sum of `parts` ascending numbers of at least `least`."""
    if parts == 1:
        if total >= least:
            yield (total,)
        return
    for first in range(least, total // parts + 1):
        for rest in _partitions(total - first, parts - 1, first):
            yield (first, *rest)
