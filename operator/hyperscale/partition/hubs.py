"""Parts of skewed graphs: where a few vertices have most of the edges, these hubs decide both the cut and the largest halo.

All hubs in one part cut least, and nearly every vertex is then a copy of that part. Hubs dealt out over several parts leave each of them
fewer neighbours: the largest halo falls, the cut grows. While vertices move afterwards, the ends of edges that a part may hold are limited
as its weight is, or the search would bring the hubs together again.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from hyperscale.model.adjacency import Array
from hyperscale.partition.levels import Level
from hyperscale.partition.refine import Effort, Reference, Seen, balanced, promising, refine, score, without_isolated

SKEW = 10.0
"""Mean square of the degrees over the square of their mean above which a graph is skewed."""
PARTS_PER_DEAL = 4
"""Parts of the graph for each that hubs are dealt to: with fewer parts the cut passes METIS's."""
MOST_CYCLES = 3
HOPELESS = 1.5
"""Times the reference's largest halo that hubs in one part may have: above it nothing else they save outweighs that."""
TAKEN_BACK = 1.07
"""Cut over the reference's of dealt hubs that the search takes back (6 to 7 % on R-MAT graphs)."""
DEALT = Effort(starts=100, priced=False)
GOLDEN = 0.6180339887498949


def skewed(level: Level) -> bool:
    """Whether a few vertices have most of the edges, as in R-MAT graphs and social networks."""
    degree = np.diff(level.indptr).astype(np.float64)
    return bool(np.square(degree).mean() > SKEW * max(degree.mean(), 1e-9) ** 2)


def by_degree(level: Level, limits: Array, together: int = 1) -> Array:
    """(n,) int32: vertices of most edges first into the largest parts, which are filled `together` at a time, by their limits.

    Vertices without edges weigh nothing in this, and find room in `refine`.
    """
    degree = np.diff(level.indptr)
    order = np.argsort(-degree, kind="stable")
    weights = np.where(degree > 0, level.weights[:, 0], 0)[order]
    turn = np.argsort(-limits[:, 0], kind="stable")
    room = np.zeros((-(-len(turn) // together), together), dtype=np.int64)
    room.flat[: len(turn)] = limits[turn, 0]
    block = np.minimum(np.searchsorted(np.cumsum(room.sum(axis=1)), np.cumsum(weights)), len(room) - 1)
    share = np.cumsum(room, axis=1) / room.sum(axis=1, keepdims=True)
    place = (np.arange(len(order)) * GOLDEN) % 1.0
    dealt = (place[:, None] >= share[block, :-1]).sum(axis=1)
    part = np.empty(level.vertices, dtype=np.int32)
    part[order] = turn[np.minimum(block * together + dealt, len(turn) - 1)]
    return part


def refine_hubs(level: Level, start: Seen, limits: Array, reference: Reference, *, seed: int, effort: Effort) -> Seen:
    """Parts within `limits` (k, c), from the hubs dealt to as many parts as the reference's cut allows, or from `start`."""
    parts = len(limits)
    for together in range(parts // PARTS_PER_DEAL, 1, -1):
        dealt = Seen.of(level, by_degree(level, limits, together), parts)
        if dealt.cut > TAKEN_BACK * reference.cut or promising((dealt, start), reference) is start:
            continue
        longer = replace(DEALT, cycles=min(together, MOST_CYCLES), work=effort.work)
        found = refine_dealt(level, dealt, limits, reference, seed=seed, effort=longer)
        if found.cut <= reference.cut:
            return found
    joined = Seen.of(level, by_degree(level, limits), parts)
    if int(joined.copies.max()) <= HOPELESS * reference.largest:
        found = refine(level, joined, limits, reference, seed=seed, effort=effort)
        if score(level, found, limits, reference) < score(level, start, limits, reference):
            return found
    return refine(level, start, limits, reference, seed=seed, effort=effort)


def refine_dealt(level: Level, dealt: Seen, limits: Array, reference: Reference, *, seed: int, effort: Effort) -> Seen:
    """Refined while no part may hold more ends of edges than one does at first."""
    start = balanced(without_isolated(level), dealt, limits, seed)
    degree = np.diff(level.indptr)
    most = int(np.bincount(start.part, weights=degree, minlength=len(limits)).max())
    wide = replace(level, weights=np.ascontiguousarray(np.column_stack([level.weights, degree])))
    return refine(wide, start, np.column_stack([limits, np.full(len(limits), most)]), reference, seed=seed, effort=effort)
