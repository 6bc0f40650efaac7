"""A graph on several levels: as it is, and with more and more vertices joined (Hendrickson and Leland 1995; Karypis and Kumar 1998)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hyperscale.model.adjacency import Adjacency, Array
from hyperscale.training.partition.compiled_search import search
from hyperscale.training.partition.partition_result import weight_columns

LEAST_SHRINK = 0.95
"""A level that keeps more of the vertices than this is not worth its time."""


@dataclass(frozen=True)
class Level:
    """One graph of the hierarchy, in the types that the compiled search reads."""

    indptr: Array
    """(n + 1,) int64."""
    indices: Array
    """(e,) int32."""
    edge_weights: Array
    """(e,) int32; empty where each is 1."""
    weights: Array
    """(n, c) int64."""

    @property
    def vertices(self) -> int:
        """Number of vertices."""
        return len(self.indptr) - 1

    @property
    def arrays(self) -> tuple[Array, Array, Array, Array]:
        """As the compiled functions take them."""
        return self.indptr, self.indices, self.edge_weights, self.weights


@dataclass(frozen=True)
class Hierarchy:
    """Levels from the finest; `groups[i]` gives each vertex of level i its vertex of level i + 1."""

    levels: tuple[Level, ...]
    groups: tuple[Array, ...]


def finest(adjacency: Adjacency, train: Array | None = None) -> Level:
    """The graph itself; training vertices, (n,) bool, are one more column to balance."""
    weights = weight_columns(adjacency)
    if train is not None:
        weights = np.column_stack([weights, train.astype(np.int64)])
    return Level(
        np.ascontiguousarray(adjacency.indptr, dtype=np.int64),
        np.ascontiguousarray(adjacency.indices, dtype=np.int32),
        np.empty(0, dtype=np.int32),
        np.ascontiguousarray(weights, dtype=np.int64),
    )


def coarsen(start: Level, part: Array, *, stop: int, most: Array, seed: int) -> tuple[Hierarchy, Array]:
    """Levels down to about `stop` vertices, none of them across parts or heavier than `most` (c,); and the parts of the coarsest, (n',)."""
    levels: list[Level] = [start]
    groups: list[Array] = []
    while levels[-1].vertices > stop:
        here = levels[-1]
        group = np.empty(here.vertices, dtype=np.int32)
        count = search.cluster(*here.arrays, part, most, seed + len(groups), group)
        if count > LEAST_SHRINK * here.vertices:
            break
        levels.append(contracted(here, group, count))
        groups.append(group)
        coarse = np.empty(count, dtype=np.int32)
        coarse[group] = part
        part = coarse
    return Hierarchy(tuple(levels), tuple(groups)), part


def contracted(level: Level, group: Array, count: int) -> Level:
    """One vertex for each of `count` groups."""
    indptr = np.empty(count + 1, dtype=np.int64)
    indices, edge_weights = np.empty(len(level.indices), dtype=np.int32), np.empty(len(level.indices), dtype=np.int32)
    weights = np.zeros((count, level.weights.shape[1]), dtype=np.int64)
    written = search.contract(*level.arrays, group, count, indptr, indices, edge_weights, weights)
    return Level(indptr, indices[:written].copy(), edge_weights[:written].copy(), weights)


def cut_of(level: Level, part: Array) -> int:
    """Weight of the edges between parts, as the search counts it."""
    return boundary(level, part, int(part.max()) + 1 if len(part) else 1)[0]


def boundary(level: Level, part: Array, parts: int) -> tuple[int, Array]:
    """(weight of the edges between parts, (k,) vertices of other parts that each part needs a copy of)."""
    return search.boundary(level.indptr, level.indices, level.edge_weights, part, parts)
