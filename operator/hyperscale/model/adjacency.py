"""The training graph as arrays: what partitioners cut, what workers hold. No torch: the planner's side reads these too."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class Adjacency:
    """An undirected graph without self loops and double edges, in CSR: every edge stands in both rows."""

    indptr: Array
    """(n + 1,) int64."""
    indices: Array
    """(2 m,) int32 or int64, ascending in each row."""
    vertex_weights: Array | None = None
    """(n,) or (n, c) int64, one column for each thing to balance; None is 1 each."""

    @property
    def vertices(self) -> int:
        """Number of vertices."""
        return len(self.indptr) - 1


@dataclass(frozen=True)
class TrainingGraph:
    """A data set in memory: one graph with labelled vertices, or many graphs with a label each.

    Messages go from `indices` of a row to the row's vertex; an undirected graph has both directions.
    """

    indptr: Array
    """(n + 1,) int64: in-neighbours of each vertex."""
    indices: Array
    """(e,) int32 or int64."""
    features: Array
    """(n, f) float32, or int64 where the columns are categories (molecules)."""
    labels: Array
    """(n,) int64; (n, t) float32 for t tasks with NaN for unknown; by graph where `graph_offsets` is there; -1: no label."""
    train: Array
    """(n,) bool, by graph where `graph_offsets` is there; so are the next two."""
    validation: Array
    test: Array
    classes: int
    graph_offsets: Array | None = None
    """(g + 1,) int64: vertices of graph i are offsets[i] to offsets[i + 1]; None for one graph."""
    edge_features: Array | None = None
    """(e, a) int64 categories or float32."""
    name: str = ""
    notes: tuple[str, ...] = ()
    """What was done to the file's data, or lacks in it, one line each; for people, no part of the graph."""


@dataclass(frozen=True)
class LocalPart:
    """What one worker holds: its own vertices, and copies of the neighbours that others own (the halo).

    Local ids: own vertices 0..n-1 in ascending global order, then the halo in order of (owner, global id).
    """

    part: int
    parts: int
    owned: Array
    """(n,) int64 global ids, ascending."""
    halo: Array
    """(h,) int64 global ids."""
    halo_owner: Array
    """(h,) int32 the part that owns each."""
    indptr: Array
    """(n + 1,) int64 in-neighbours of own vertices."""
    indices: Array
    """(e,) int32 local ids."""
    in_degree: Array
    """(n + h,) int32 in the whole graph."""
    out_degree: Array
    """(n + h,) int32 in the whole graph."""
    features: Array
    """(n, f)."""
    labels: Array
    """(n,) or (n, t)."""
    train: Array
    """(n,) bool."""
    validation: Array
    test: Array
    classes: int
    train_total: int
    """Training vertices of all parts: the global loss divides by it."""
    extra: dict[str, Array] = field(default_factory=dict)
    """Further arrays by own vertex or edge, as a reader brought them."""
    name: str = ""
    """Of the whole graph: it tells a builtin graph from what stands in for it."""
