"""Edges to CSR: in-neighbours of each vertex, ascending, without self loops and double edges."""

from __future__ import annotations

import numpy as np

from hyperscale.model.adjacency import Adjacency, Array, TrainingGraph
from hyperscale.training.data.compiled_kernels import kernels


def in_neighbours(vertices: int, sources: Array, destinations: Array, *, both_directions: bool) -> tuple[Array, Array]:
    """CSR of the edges `sources[i]` → `destinations[i]`, with their reverses where asked: `indptr` (n + 1,) int64, `indices` int32.

    Ids must be within 0..vertices-1 (the readers check). Self loops and repetitions are dropped: models add their own loops.
    """
    if sources.shape != destinations.shape or sources.ndim != 1:
        raise ValueError(f"sources {sources.shape} and destinations {destinations.shape} do not fit; give (m,) each")
    for ids in (sources, destinations):
        if len(ids) and (int(ids.min()) < 0 or int(ids.max()) >= vertices):
            raise ValueError(f"an edge ends outside 0..{vertices - 1}")
    flat = [np.ascontiguousarray(ids, np.int32) for ids in (sources, destinations)]
    return kernels.csr(flat[0], flat[1], vertices, both_directions)


def symmetric(graph: TrainingGraph) -> Adjacency:
    """The undirected graph that partitioners cut: an edge wherever `graph` has one in either direction; no weights.

    Shares the arrays of `graph` where that is symmetric already.
    """
    vertices = len(graph.indptr) - 1
    destinations = np.repeat(np.arange(vertices, dtype=np.int32), np.diff(graph.indptr))
    # The transpose of a symmetric graph is the graph: one look that saves most data sets the larger sort.
    indptr, indices = in_neighbours(vertices, destinations, graph.indices, both_directions=False)
    if np.array_equal(indptr, graph.indptr) and np.array_equal(indices, graph.indices):
        return Adjacency(graph.indptr, graph.indices)
    del indptr, indices
    return Adjacency(*in_neighbours(vertices, graph.indices, destinations, both_directions=True))
