"""Parts of skewed graphs: where a few vertices have most of the edges, these hubs decide both the cut and the largest halo.

All hubs in one part cut least, and nearly every vertex is then a copy of that part. Hubs dealt out over several parts leave each of them
fewer neighbours: the largest halo falls, the cut grows. While vertices move afterwards, the ends of edges that a part may hold are limited
as its weight is, or the search would bring the hubs together again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from hyperscale.model.adjacency import Array
from hyperscale.training.partition.levels import Level
from hyperscale.training.partition.refine import Reference, RefineEffort, VisitedParts, balanced, promising, refine, score, without_isolated

SKEW = 10.0
"""Mean square of the degrees over the square of their mean above which a graph is skewed."""
PARTS_PER_DEAL = 4
"""Parts of the graph for each that hubs are dealt to: with fewer parts the cut passes METIS's."""
MOST_CYCLES = 3
HOPELESS = 1.5
"""Times the reference's largest halo that hubs in one part may have: above it nothing else they save outweighs that."""
TAKEN_BACK = 1.07
"""Cut over the reference's of dealt hubs that the search takes back (6 to 7 % on R-MAT graphs)."""
PART_WAY_TAKEN_BACK = 1.055
"""The same where hubs are dealt part of the way, 4 to 6 %."""
TOPS = (0.1, 0.05, 0.03, 0.02, 0.01)
"""Of the room of the parts that hubs are dealt to: what is dealt to all of them where the cut allows no more."""
DEALT = RefineEffort(starts=100, priced=False)
GOLDEN = 0.6180339887498949


def skewed(level: Level) -> bool:
    """Whether a few vertices have most of the edges, as in R-MAT graphs and social networks."""
    degree = np.diff(level.indptr).astype(np.float64)
    return bool(np.square(degree).mean() > SKEW * max(degree.mean(), 1e-9) ** 2)


def by_degree(level: Level, limits: Array, together: int = 1, top: float = 1.0) -> Array:
    """(n,) int32: vertices of most edges first into the largest parts, which are filled `together` at a time, by their limits.

    top: of the room of the first `together` parts, what is dealt to all of them; where it is less than 1, what follows fills one part less
    at a time. Vertices without edges weigh nothing in this, and find room in `refine`.
    """
    degree = np.diff(level.indptr)
    order = np.argsort(-degree, kind="stable")
    weights = np.where(degree > 0, level.weights[:, 0], 0)[order]
    parts, room = _blocks(limits[:, 0], together, top)
    block = np.minimum(np.searchsorted(np.cumsum(room.sum(axis=1)), np.cumsum(weights)), len(room) - 1)
    share = np.cumsum(room, axis=1) / np.maximum(room.sum(axis=1, keepdims=True), 1)
    place = (np.arange(len(order)) * GOLDEN) % 1.0
    dealt = (place[:, None] >= share[block, :-1]).sum(axis=1)
    part = np.empty(level.vertices, dtype=np.int32)
    part[order] = parts[block, dealt]
    return part


def _blocks(limits: Array, together: int, top: float) -> tuple[Array, Array]:
    """(b, together) parts that are filled in turn, row by row, and their room (int64): 0 where a row has fewer parts."""
    turn = np.argsort(-limits, kind="stable")
    left = limits[turn].astype(np.int64)
    first = (left[:together] * top).astype(np.int64)
    left[:together] -= first
    size = together if top == 1.0 else together - 1
    starts = range(0, len(turn), size)
    parts, room = np.zeros((1 + len(starts), together), dtype=np.int32), np.zeros((1 + len(starts), together), dtype=np.int64)
    parts[0], room[0] = turn[:together], first
    for row, start in enumerate(starts, start=1):
        members = turn[start : start + size]
        parts[row, : len(members)], room[row, : len(members)] = members, left[start : start + size]
    return parts, room


def refine_hubs(level: Level, start: VisitedParts, limits: Array, reference: Reference, *, seed: int, effort: RefineEffort) -> VisitedParts:
    """Parts within `limits` (k, c), from the hubs dealt to as many parts as the reference's cut allows, or from `start`."""
    parts = len(limits)
    for together, dealt in _deals(level, limits, reference):
        if promising((dealt, start), reference) is start:
            continue
        longer = replace(DEALT, cycles=min(together, MOST_CYCLES), work=effort.work)
        refined = refine_dealt(level, dealt, limits, reference, seed=seed, effort=longer)
        if refined.cut <= reference.cut:
            return refined
    joined = VisitedParts.of(level, by_degree(level, limits), parts)
    if int(joined.copies.max()) <= HOPELESS * reference.largest:
        refined = refine(level, joined, limits, reference, seed=seed, effort=effort)
        if score(level, refined, limits, reference) < score(level, start, limits, reference):
            return refined
    return refine(level, start, limits, reference, seed=seed, effort=effort)


def _deals(level: Level, limits: Array, reference: Reference) -> Iterator[tuple[int, VisitedParts]]:
    """Deals whose cut the search can take back, those to most parts first, with the number of these parts."""
    most = len(limits) // PARTS_PER_DEAL
    for together in range(most, 1, -1):
        dealt = VisitedParts.of(level, by_degree(level, limits, together), len(limits))
        if dealt.cut > TAKEN_BACK * reference.cut:
            continue
        if together < most:
            yield from _part_way(level, limits, reference, together + 1)
        yield together, dealt


def _part_way(level: Level, limits: Array, reference: Reference, together: int) -> Iterator[tuple[int, VisitedParts]]:
    """The deals of most hubs to `together` parts, the rest to one part less at a time, near the reference's cut."""
    for top in TOPS:
        dealt = VisitedParts.of(level, by_degree(level, limits, together, top), len(limits))
        if dealt.cut <= PART_WAY_TAKEN_BACK * reference.cut:
            yield together, dealt
            return


def refine_dealt(
    level: Level, dealt: VisitedParts, limits: Array, reference: Reference, *, seed: int, effort: RefineEffort
) -> VisitedParts:
    """Refined while no part may hold more ends of edges than one does at first."""
    start = balanced(without_isolated(level), dealt, limits, seed)
    degree = np.diff(level.indptr)
    most = int(np.bincount(start.part, weights=degree, minlength=len(limits)).max())
    wide = replace(level, weights=np.ascontiguousarray(np.column_stack([level.weights, degree])))
    return refine(wide, start, np.column_stack([limits, np.full(len(limits), most)]), reference, seed=seed, effort=effort)
