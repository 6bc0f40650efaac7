"""Edges to CSR: in-neighbours of each vertex, ascending, without self loops and double edges."""

from __future__ import annotations

import warnings

import numpy as np

from hyperscale.model.adjacency import Adjacency, Array, TrainingGraph

try:
    from hyperscale.training.data import _kernels

    COMPILED = True
except ImportError:  # no C compiler where this was installed
    COMPILED = False
    warnings.warn("hyperscale.training.data._kernels is not compiled: graphs are read several times slower", RuntimeWarning, stacklevel=1)


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
    return (_kernels.csr if COMPILED else plain_csr)(flat[0], flat[1], vertices, both_directions)


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


def plain_csr(sources: Array, destinations: Array, vertices: int, both: bool) -> tuple[Array, Array]:
    """The same without compiled code, by sorting 64-bit keys: with ten times the memory."""
    if both:
        sources, destinations = np.concatenate([sources, destinations]), np.concatenate([destinations, sources])
    keep = sources != destinations
    keys = np.unique(destinations[keep].astype(np.int64) * vertices + sources[keep])
    rows, indices = np.divmod(keys, max(vertices, 1))
    indptr = np.zeros(vertices + 1, np.int64)
    np.cumsum(np.bincount(rows, minlength=vertices), out=indptr[1:])
    return indptr, indices.astype(np.int32)
