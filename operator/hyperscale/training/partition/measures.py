"""Cut, balance, halo and replication of an assignment (the figures of Merkel et al., EDBT 2025)."""

from __future__ import annotations

import numpy as np

from hyperscale.model.adjacency import Adjacency, Array
from hyperscale.training.partition.compiled_search import COMPILED, search
from hyperscale.training.partition.partition_result import Measures, PartitionError, checked_shares, weight_columns

CHUNK_ENTRIES = 1 << 24
"""Entries of `indices` looked at together: bounds what measuring adds to the memory of a large graph."""


def measure(adjacency: Adjacency, assignment: Array, shares: tuple[float, ...], train: Array | None = None) -> Measures:
    """The figures of an assignment, (n,) part of each vertex; PartitionError where it names parts that do not exist."""
    target = checked_shares(adjacency, shares)
    parts, n = len(target), adjacency.vertices
    if len(assignment) != n or (n and (int(assignment.min()) < 0 or int(assignment.max()) >= parts)):
        raise PartitionError(f"assignment: need {n} parts of 0..{parts - 1}, one for each vertex")
    cut, total, halo = _boundary(adjacency, assignment, parts)
    return Measures(
        cut=cut,
        cut_fraction=cut / total if total else 0.0,
        imbalance=max(imbalance(column, assignment, target) for column in weight_columns(adjacency).T),
        edge_imbalance=imbalance(np.diff(adjacency.indptr), assignment, target),
        halo=halo,
        largest_halo=int(halo.max()),
        replication=(n + int(halo.sum())) / n if n else 1.0,
        train_imbalance=None if train is None else imbalance(train.astype(np.int64), assignment, target),
    )


def imbalance(weights: Array, assignment: Array, target: Array) -> float:
    """Largest (share of the weight) / (share of the capacity); 1 where there is no weight at all."""
    total = float(weights.sum())
    if not total:
        return 1.0
    load = np.bincount(assignment, weights=weights, minlength=len(target))
    return float((load / total / target).max())


def _boundary(adjacency: Adjacency, assignment: Array, parts: int) -> tuple[int, int, Array]:
    """Weight of the cut, of all edges, and copies by part."""
    total = len(adjacency.indices) if adjacency.edge_weights is None else int(adjacency.edge_weights.sum())
    if COMPILED and adjacency.edge_weights is None:
        indptr, indices = np.ascontiguousarray(adjacency.indptr, dtype=np.int64), np.ascontiguousarray(adjacency.indices, dtype=np.int32)
        cut, halo = search.boundary(indptr, indices, indices[:0], np.ascontiguousarray(assignment, dtype=np.int32), parts)
        return cut, total // 2, halo
    cut, halo = plain_boundary(adjacency, assignment, parts)
    return cut, total // 2, halo


def plain_boundary(adjacency: Adjacency, assignment: Array, parts: int) -> tuple[int, Array]:
    """(weight of the edges between parts, (k,) copies) without compiled code and for weights of 64 bits; rows in chunks."""
    n, indptr = adjacency.vertices, adjacency.indptr
    cut = 0
    halo = np.zeros(parts, dtype=np.int64)
    start = 0
    while start < n:
        stop = max(start + 1, int(np.searchsorted(indptr, indptr[start] + CHUNK_ENTRIES, side="right")) - 1)
        cut_here, copies = _boundary_rows(adjacency, assignment, parts, start, stop)
        cut += cut_here
        halo += copies
        start = stop
    return cut // 2, halo


def _boundary_rows(adjacency: Adjacency, assignment: Array, parts: int, start: int, stop: int) -> tuple[int, Array]:
    """A vertex is copied to every other part that one of its neighbours is in; the graph is symmetric, so rows are enough."""
    first, last = int(adjacency.indptr[start]), int(adjacency.indptr[stop])
    row = np.repeat(np.arange(stop - start, dtype=np.int64), np.diff(adjacency.indptr[start : stop + 1]))
    other = assignment[adjacency.indices[first:last]]
    across = other != assignment[start:stop][row]
    weight = int(across.sum()) if adjacency.edge_weights is None else int(adjacency.edge_weights[first:last][across].sum())
    copies = np.unique(row[across] * parts + other[across]) % parts
    return weight, np.bincount(copies, minlength=parts).astype(np.int64)
