"""A graph as the kernels read it: in-edges in CSR with 32-bit sources, the same turned round, and constant weights computed once."""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np

from hyperscale.model.adjacency import Array

MOST_SOURCES: Final = 2**31 - 1


@dataclass(frozen=True, eq=False)
class Edges:
    """In-edges of n destinations from m sources; destination v is source v as well where a layer needs its own row."""

    indptr: Array
    """(n + 1,) int64."""
    indices: Array
    """(e,) int32 sources."""
    sources: int
    """m."""
    in_degree: Array
    """(n,) of the whole graph, where this is a part of one."""
    out_degree: Array
    """(m,) of the whole graph."""
    ids: Array | None = None
    """(n,) int64 what dropout counts the destinations as, so that parts of a graph draw as the whole does; None: 0 to n - 1."""
    offsets: Array | None = None
    """(n,) int64 what dropout adds to the numbers of a destination's edges; None: nothing."""

    def __post_init__(self) -> None:
        """The kernels trust what is checked here."""
        _check_rows(self.indptr, self.indices, self.sources)
        if self.in_degree.shape != (self.destinations,) or self.out_degree.shape != (self.sources,):
            raise ValueError("edges: in_degree must have one figure a destination and out_degree one a source")
        for numbers in (self.ids, self.offsets):
            if numbers is not None and not (numbers.shape == self.in_degree.shape and _contiguous(numbers, np.int64)):
                raise ValueError("edges: ids and offsets must be contiguous int64, one number a destination")

    @property
    def destinations(self) -> int:
        """N."""
        return len(self.indptr) - 1

    @property
    def count(self) -> int:
        """E."""
        return len(self.indices)

    @cached_property
    def largest_degree(self) -> int:
        """Of a destination, edges that are here."""
        return int(np.diff(self.indptr).max(initial=0))

    @cached_property
    def lonely(self) -> bool:
        """Some destination has no edge."""
        return bool(np.any(np.diff(self.indptr) == 0))

    @cached_property
    def turned(self) -> tuple[Edges, Array]:
        """Out-edges of the sources, each row in order of destinations, and (e,) int64 the number of each edge here."""
        import scipy.sparse as sp  # not at the top: layers for GPUs need torch and numpy alone

        shape = (self.destinations, self.sources)
        matrix = sp.csr_matrix((np.arange(self.count, dtype=np.int64), self.indices, self.indptr), shape=shape).tocsc()
        indptr, indices = matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32)
        return Edges(indptr, indices, self.destinations, self.out_degree, self.in_degree), matrix.data

    @cached_property
    def turned_numbers(self) -> Array:
        """(e,) int64 what dropout counts each out-edge of `turned` as."""
        turned, origins = self.turned
        return origins if self.offsets is None else origins + self.offsets[turned.indices]

    @cached_property
    def _matrices(self) -> dict[str, Matrix]:
        return {}

    @cached_property
    def placed(self) -> dict[str, Any]:
        """By device, its arrays there (hyperscale.training.modelgraph.places)."""
        return {}

    def matrix(self, norm: str) -> Matrix:
        """The weighted adjacency of a layer, computed once: norm is none, both, right or mean (of the edges that are here), left."""
        if norm not in self._matrices:
            self._matrices[norm] = Matrix(self, _weights(self, norm))
        return self._matrices[norm]


@dataclass(frozen=True, eq=False)
class Matrix:
    """Edges with a weight each; None is 1 each."""

    edges: Edges
    weights: Array | None
    """(e,) float32."""

    @cached_property
    def placed(self) -> dict[str, Any]:
        """By device, its arrays there (hyperscale.training.modelgraph.places)."""
        return {}

    @cached_property
    def turned(self) -> Matrix:
        """Transposed."""
        edges, origins = self.edges.turned
        return Matrix(edges, None if self.weights is None else self.weights[origins])


def _check_rows(indptr: Array, indices: Array, sources: int) -> None:
    """Raise TypeError or ValueError where these are no CSR rows of numbers below `sources`."""
    if not (_contiguous(indptr, np.int64) and _contiguous(indices, np.int32)):
        raise TypeError("edges: indptr must be int64 and indices int32, both contiguous")
    if len(indptr) < 1 or indptr[0] != 0 or indptr[-1] != len(indices) or bool(np.any(np.diff(indptr) < 0)):
        raise ValueError(f"edges: indptr must rise from 0 to {len(indices)}, the number of indices")
    if len(indices) and (int(indices.min()) < 0 or int(indices.max()) >= sources):
        raise ValueError(f"edges: indices must lie in 0..{sources - 1}")


def _contiguous(numbers: Array, dtype: type[np.integer[Any]]) -> bool:
    return numbers.dtype == dtype and bool(numbers.flags.c_contiguous)


def _weights(edges: Edges, norm: str) -> Array | None:
    """As DGL's GraphConv and SAGEConv define them, degrees of 0 counted as 1."""
    received = np.maximum(edges.in_degree, 1).astype(np.float32)
    sent = np.maximum(edges.out_degree, 1).astype(np.float32)
    rows = np.diff(edges.indptr)
    match norm:
        case "none":
            return None
        case "both":
            return np.repeat(1.0 / np.sqrt(received), rows) * (1.0 / np.sqrt(sent))[edges.indices]
        case "right" | "mean":
            return np.repeat(np.float32(1.0) / received, rows)
        case "left":
            weights: Array = (np.float32(1.0) / sent)[edges.indices]
            return weights
    raise ValueError(f"norm {norm!r} is none of none, both, right, mean, left")


def edges_of(
    indptr: Array,
    indices: Array,
    sources: int,
    in_degree: Array | None = None,
    out_degree: Array | None = None,
    *,
    ids: Array | None = None,
    offsets: Array | None = None,
) -> Edges:
    """Edges from the arrays of a part or a graph; degrees that are not given are counted, ids and offsets as `Edges` says."""
    if sources > MOST_SOURCES:
        raise ValueError(f"edges: {sources} sources are more than the kernels can number ({MOST_SOURCES})")
    if in_degree is None:
        in_degree = np.diff(indptr)
    if out_degree is None:
        out_degree = np.bincount(indices, minlength=sources)
    contiguous = np.ascontiguousarray
    return Edges(contiguous(indptr, dtype=np.int64), contiguous(indices, dtype=np.int32), sources, in_degree, out_degree, ids, offsets)


_KNOWN: weakref.WeakKeyDictionary[Any, tuple[Any, Edges]] = weakref.WeakKeyDictionary()
"""Edges of graphs that are still alive, with the graph's inner handle: a graph that was changed in place has another one."""


def of_dgl(graph: Any) -> Edges:  # noqa: ANN401 - a DGLGraph; DGL ships no types
    """Edges of a DGL graph or block with one edge type on the CPU, kept as long as the graph lives."""
    kept = _KNOWN.get(graph)
    if kept is not None and kept[0] is graph._graph:
        return kept[1]
    indptr, indices, _ = graph.adj_tensors("csc")
    # Copies: DGL may free its arrays when it changes formats.
    edges = edges_of(indptr.numpy().astype(np.int64), indices.numpy().astype(np.int32), graph.num_src_nodes())
    _KNOWN[graph] = (graph._graph, edges)
    return edges
