"""Edges to CSR: in-neighbours of each vertex, ascending, without self loops and double edges."""

from __future__ import annotations

import numpy as np

from hyperscale.model.adjacency import Adjacency, Array, TrainingGraph


def in_neighbours(vertices: int, sources: Array, destinations: Array, *, both_directions: bool) -> tuple[Array, Array]:
    """CSR of the edges `sources[i]` → `destinations[i]`, with their reverses where asked: `indptr` (n + 1,) int64, `indices` int32.

    Ids must be within 0..vertices-1 (the readers check). Self loops and repetitions are dropped: models add their own loops.
    """
    if both_directions:
        sources, destinations = np.concatenate([sources, destinations]), np.concatenate([destinations, sources])
    keep = sources != destinations
    keys = np.unique(destinations[keep].astype(np.int64) * vertices + sources[keep])
    rows, indices = np.divmod(keys, max(vertices, 1))
    indptr = np.zeros(vertices + 1, np.int64)
    np.cumsum(np.bincount(rows, minlength=vertices), out=indptr[1:])
    return indptr, indices.astype(np.int32)


def symmetric(graph: TrainingGraph) -> Adjacency:
    """The undirected graph that partitioners cut: an edge wherever `graph` has one in either direction; no weights."""
    vertices = len(graph.indptr) - 1
    destinations = np.repeat(np.arange(vertices, dtype=np.int32), np.diff(graph.indptr))
    indptr, indices = in_neighbours(vertices, graph.indices, destinations, both_directions=True)
    return Adjacency(indptr, indices)
