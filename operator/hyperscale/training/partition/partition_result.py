"""What partitioners give back, what they refuse with, and the checks that all of them share."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hyperscale.model.adjacency import Adjacency, Array
from hyperscale.model.api.choices import PartitioningMethod

MAX_PARTS = 32767
"""Parts are counted in 16 bits in places, and no job has more workers."""


class PartitionError(ValueError):
    """A graph, shares or method that cannot be partitioned; one line that begins with the field and ends with what to write instead."""


@dataclass(frozen=True)
class Measures:
    """How good an assignment is; the sums run over undirected edges, each counted once."""

    cut: int
    """Edges between parts."""
    cut_fraction: float
    """Of all edges; 0 where there are none."""
    imbalance: float
    """Largest (share of the weight) / (share of the capacity) over parts, and over columns where vertices have several weights."""
    edge_imbalance: float
    """Largest (share of the edges) / (share of the capacity); an edge counts in the part of the vertex that gets its message."""
    halo: Array
    """(k,) int64: vertices of other parts that each part needs a copy of."""
    largest_halo: int
    replication: float
    """(vertices + copies) / vertices."""
    train_imbalance: float | None
    """As `imbalance`, of training vertices; None where none were named."""


@dataclass(frozen=True)
class Parts:
    """An assignment of every vertex to one part."""

    assignment: Array
    """(n,) int32, 0..parts-1."""
    parts: int
    method: PartitioningMethod | str
    """The partitioner that made it; never Auto. A benchmark's baseline has a name of its own."""
    measures: Measures


def checked_shares(adjacency: Adjacency, shares: tuple[float, ...]) -> Array:
    """Shares of the capacity, (k,) float64 with sum 1; errors name the field of the job that they come from."""
    target = np.asarray(shares, dtype=np.float64)
    if target.ndim != 1 or len(target) == 0:
        raise PartitionError("spec.partitioning.count: no parts; ask for at least 1")
    if not np.isfinite(target).all() or (target <= 0).any():
        bad = int(np.flatnonzero(~(np.isfinite(target) & (target > 0)))[0])
        raise PartitionError(f"shares[{bad}]: {shares[bad]} is no capacity; every part needs a finite share above 0")
    limit = max(min(adjacency.vertices, MAX_PARTS), 1)
    if len(target) > limit:
        raise PartitionError(f"spec.partitioning.count: {len(target)} parts for {adjacency.vertices} vertices; ask for at most {limit}")
    normed: Array = target / target.sum()
    return normed


def checked_graph(adjacency: Adjacency) -> None:
    """Refuse arrays that do not fit together; cheap, so that everything after it may index without asking."""
    n = adjacency.vertices
    indptr, indices = adjacency.indptr, adjacency.indices
    if n < 0 or indptr[0] != 0 or indptr[-1] != len(indices) or (np.diff(indptr) < 0).any():
        raise PartitionError("adjacency.indptr: not the row pointers of `indices`; it must ascend from 0 to their number")
    if len(indices) and (int(indices.min()) < 0 or int(indices.max()) >= n):
        raise PartitionError(f"adjacency.indices: names a vertex outside 0..{n - 1}; renumber the vertices")
    if adjacency.vertex_weights is not None and not _are_weights(adjacency.vertex_weights, n):
        raise PartitionError(f"adjacency.vertex_weights: need {n} rows of non-negative integers")


def _are_weights(weights: Array, vertices: int) -> bool:
    return weights.ndim in (1, 2) and len(weights) == vertices and (not len(weights) or int(weights.min()) >= 0)


def weight_columns(adjacency: Adjacency) -> Array:
    """(n, c) int64: what is to be balanced; one column of ones where the graph names none."""
    weights = adjacency.vertex_weights
    if weights is None:
        return np.ones((adjacency.vertices, 1), dtype=np.int64)
    return np.ascontiguousarray(weights.reshape(len(weights), -1), dtype=np.int64)
