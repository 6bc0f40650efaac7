"""The hybrid partitioner of HyperScale: independent-set seeds, a spectral embedding of the coarse graph, refinement by capacity.

1. Vertices of an independent set are seeds: no two are neighbours, every other vertex has one beside it. Each joins the seed it is bound to
   most, which gives a coarser graph; again until it is small.
2. The coarse graph is embedded by the first eigenvectors of its normalised adjacency (Shi and Malik 2000), and bisected along the principal
   direction of each piece, at the place where the capacities of both sides divide its weight.
3. Local search on every level, then V-cycles, as for METIS.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hyperscale.model.adjacency import Array
from hyperscale.training.partition.baselines import along
from hyperscale.training.partition.compiled_search import search, seeds
from hyperscale.training.partition.levels import LEAST_SHRINK, Hierarchy, Level, contracted, cut_of
from hyperscale.training.partition.refine import (
    CLUSTERS_PER_PART,
    PRICE,
    Reference,
    RefineEffort,
    VisitedParts,
    balanced,
    climb,
    limits_of,
    refine,
)

if TYPE_CHECKING:
    import scipy.sparse as sp  # imported where used: workers that only take their parts need neither scipy nor METIS

COARSEST = 240
COARSEST_PER_PART = 30
DENSE = 400
"""Vertices up to which all eigenvectors cost less than iterating for a few."""
MOST_DIMENSIONS = 8
EIGEN_TOLERANCE = 1e-3
CUT_FOR_HALO = 1.02
"""The cut may grow so much where that lowers the largest halo; there is no METIS to compare with."""
COARSE_PASSES = RefineEffort(passes=4, starts=5, patience=200)


def hybrid(level: Level, target: Array, limits: Array, *, seed: int, effort: RefineEffort | None = None) -> Array:
    """(n,) int32 parts within `limits` (k, c); `target` are the shares, (k,) with sum 1."""
    effort = effort or RefineEffort()
    hierarchy = seeded(level, limits, stop=max(COARSEST, COARSEST_PER_PART * len(target)))
    coarsest = hierarchy.levels[-1]
    halves = bisected(coarsest, embedding(coarsest, len(target), seed), target, seed)
    price = np.full(len(target), PRICE, dtype=np.int64)
    part = balanced(coarsest, VisitedParts.of(coarsest, halves, len(target)), limits, seed).part.copy()
    search.improve(*coarsest.arrays, limits, price, part, seed, COARSE_PASSES.passes, COARSE_PASSES.starts, COARSE_PASSES.patience)
    part = climb(hierarchy, part, limits, price, seed=seed, effort=effort)
    start = balanced(level, VisitedParts.of(level, part, len(target)), limits, seed)
    return refine(level, start, limits, Reference.of(start, CUT_FOR_HALO), seed=seed, effort=effort).part


def seeded(level: Level, limits: Array, *, stop: int) -> Hierarchy:
    """Levels by independent-set seeds down to about `stop` vertices."""
    most = np.maximum(limits.min(axis=0) // CLUSTERS_PER_PART, 1)
    levels: list[Level] = [level]
    groups: list[Array] = []
    free = np.zeros(level.vertices, dtype=np.int32)
    while levels[-1].vertices > stop:
        here = levels[-1]
        chosen, group = np.zeros(here.vertices, dtype=np.uint8), np.empty(here.vertices, dtype=np.int32)
        seeds.greedy(here.indptr, here.indices, chosen)
        count = seeds.gather(*here.arrays, chosen, most, group)
        if count > LEAST_SHRINK * here.vertices:
            # Seeds that are full, or have no neighbours: join them as the V-cycles do.
            count = search.cluster(*here.arrays, free[: here.vertices], most, len(groups), group)
            if count > LEAST_SHRINK * here.vertices:
                break
        levels.append(contracted(here, group, count))
        groups.append(group)
    return Hierarchy(tuple(levels), tuple(groups))


def embedding(level: Level, parts: int, seed: int) -> Array:
    """(n, d) coordinates in which vertices with strong bonds lie together; signs and order do not depend on the machine's threads."""
    n = level.vertices
    dimensions = min(max(2, parts), MOST_DIMENSIONS, max(n - 1, 1))
    weights = level.edge_weights if len(level.edge_weights) else np.ones(len(level.indices), dtype=np.int32)
    degree = np.maximum(np.add.reduceat(np.append(weights, 0), level.indptr[:-1]) * (np.diff(level.indptr) > 0), 1)
    scale = 1.0 / np.sqrt(degree)
    values = weights * np.repeat(scale, np.diff(level.indptr)) * scale[level.indices]
    import scipy.sparse as sp

    matrix = sp.csr_array((values, level.indices, level.indptr), shape=(n, n))
    vectors = _leading(matrix, dimensions + 1, seed)
    return np.asarray(vectors * scale[:, None])


def _leading(matrix: sp.csr_array, count: int, seed: int) -> Array:
    """(n, count) eigenvectors of the largest eigenvalues."""
    from scipy.sparse.linalg import ArpackError, eigsh

    n = matrix.shape[0]
    if n > max(DENSE, 3 * count):
        start = np.random.default_rng(seed).random(n) + 0.5
        try:
            return np.asarray(eigsh(matrix, k=count, which="LA", tol=EIGEN_TOLERANCE, v0=start, maxiter=60)[1])
        except ArpackError as short:
            converged = getattr(short, "eigenvectors", None)
            if converged is not None and converged.shape[1] >= 2:
                return np.asarray(converged)
    if n > 4 * DENSE:
        # No convergence, a graph that hardly hangs together: its rows smoothed a few times stand in.
        rough = np.random.default_rng(seed).standard_normal((n, count))
        for _ in range(20):
            rough = np.linalg.qr(rough + matrix @ rough)[0]
        return rough
    _, vectors = np.linalg.eigh(matrix.toarray())
    return np.asarray(vectors[:, ::-1][:, :count])


def bisected(level: Level, points: Array, target: Array, seed: int) -> Array:
    """(n,) int32 parts: each piece is cut across its principal direction and the cut is searched, again and again, until it is one part."""
    part = np.zeros(level.vertices, dtype=np.int32)
    pieces = [(np.arange(level.vertices), 0, len(target))]
    while pieces:
        members, first, last = pieces.pop()
        if last - first == 1 or not len(members):
            part[members] = first
            continue
        middle = (first + last) // 2
        sides = np.array([target[first:middle].sum(), target[middle:last].sum()])
        right = _halved(_induced(level, members), points[members], sides / sides.sum(), seed + first)
        pieces += [(members[~right], first, middle), (members[right], middle, last)]
    return part


def _halved(piece: Level, points: Array, sides: Array, seed: int) -> Array:
    """(n,) bool, True for the second side; of cuts across the principal direction and two coordinates the best after local search."""
    order = [_direction(points), *points.T[1:3]]
    limits = np.maximum(limits_of(piece.weights, sides, False), np.outer(sides, piece.weights.sum(axis=0)) + piece.weights.max(axis=0))
    limits = limits.astype(np.int64)
    best, least = np.zeros(piece.vertices, dtype=bool), -1
    for positions in order:
        half = along(np.argsort(positions, kind="stable"), piece.weights[:, 0], sides)
        search.improve(*piece.arrays, limits, np.ones(2, dtype=np.int64), half, seed, 4, 5, 200)
        cut = cut_of(piece, half)
        if least < 0 or cut < least:
            best, least = half.astype(bool), cut
    return best


def _induced(level: Level, members: Array) -> Level:
    """The graph among some vertices."""
    local = np.full(level.vertices, -1, dtype=np.int32)
    local[members] = np.arange(len(members), dtype=np.int32)
    sizes = np.diff(level.indptr)[members]
    starts = np.concatenate([[0], np.cumsum(sizes)])
    entries = np.arange(starts[-1]) + np.repeat(level.indptr[members] - starts[:-1], sizes)
    inside = local[level.indices[entries]]
    kept = inside >= 0
    indptr = np.concatenate([[0], np.cumsum(kept)])[starts].astype(np.int64)
    weights = level.edge_weights[entries][kept] if len(level.edge_weights) else level.edge_weights
    return Level(indptr, inside[kept], weights, np.ascontiguousarray(level.weights[members]))


def _direction(points: Array) -> Array:
    """(n,) positions along the direction in which the points spread most."""
    centred = points - points.mean(axis=0)
    axis = np.linalg.eigh(centred.T @ centred)[1][:, -1]
    axis = axis * (1.0 if axis[np.argmax(np.abs(axis))] > 0 else -1.0)
    return np.asarray(centred @ axis)
