"""Cut, balance, halo and replication of an assignment (the figures of Merkel et al., EDBT 2025)."""

from __future__ import annotations

import numpy as np

from hyperscale.model.adjacency import Adjacency, Array
from hyperscale.training.partition.compiled_search import COMPILED, search
from hyperscale.training.partition.partition_result import Measures, PartitionError, checked_shares, weight_columns


def measure(adjacency: Adjacency, assignment: Array, shares: tuple[float, ...], train: Array | None = None) -> Measures:
    """The figures of an assignment, (n,) part of each vertex; PartitionError where it names parts that do not exist."""
    target = checked_shares(adjacency, shares)
    parts, n = len(target), adjacency.vertices
    if len(assignment) != n or (n and (int(assignment.min()) < 0 or int(assignment.max()) >= parts)):
        raise PartitionError(f"assignment: need {n} parts of 0..{parts - 1}, one for each vertex")
    cut, halo = _boundary(adjacency, assignment, parts)
    return Measures(
        cut=cut,
        cut_fraction=2 * cut / max(len(adjacency.indices), 1),
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


def _boundary(adjacency: Adjacency, assignment: Array, parts: int) -> tuple[int, Array]:
    """Edges between parts, and copies by part."""
    if not COMPILED:
        return plain_boundary(adjacency, assignment, parts)
    indptr, indices = np.ascontiguousarray(adjacency.indptr, dtype=np.int64), np.ascontiguousarray(adjacency.indices, dtype=np.int32)
    return search.boundary(indptr, indices, indices[:0], np.ascontiguousarray(assignment, dtype=np.int32), parts)


def plain_boundary(adjacency: Adjacency, assignment: Array, parts: int) -> tuple[int, Array]:
    """(edges between parts, (k,) copies) without compiled code; the graph is symmetric, so rows are enough."""
    row = np.repeat(np.arange(adjacency.vertices, dtype=np.int64), np.diff(adjacency.indptr))
    other = assignment[adjacency.indices]
    across = other != assignment[row]
    copies = np.unique(row[across] * parts + other[across]) % parts
    return int(across.sum()) // 2, np.bincount(copies, minlength=parts).astype(np.int64)
