"""Batches of whole graphs: which graphs each step takes, and their vertices and edges as one graph without connections between them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch

from hyperscale.model.adjacency import Array, LocalPart
from hyperscale.model.api.hyperparameters import Aggregator
from hyperscale.model.api.job import Architecture

Tensor = torch.Tensor


@dataclass(frozen=True)
class Graphs:
    """The edges of a part as its model's layers want them: with each vertex as its own neighbour, or without, and weighed."""

    offsets: Array
    """(g + 1,) int64 first vertex of each graph."""
    ids: Array
    """(n,) int64 of each vertex in the whole data set."""
    indptr: Array
    """(n + 1,) int64."""
    sources: Array
    """(e,) int32; a vertex's edge from itself is its first."""
    kinds: Array
    """(e,) int32 the kind of each edge; edges from the vertex itself have a kind of their own behind all others."""
    weights: Array
    """(e,) float32."""


def prepared(part: LocalPart, kind_of: Array, kinds: int, architecture: Architecture, aggregator: Aggregator = "Mean") -> Graphs:
    """kind_of: (e,) of the part's edges, 0..kinds - 1.

    GCN: 1 / sqrt(d_u d_v) with d = in-degree + 1, own edges too. GraphSAGE: 1 / in-degree, no own edges; with its gcn aggregator 1 / d,
    own edges too. GAT: own edges, weights unused.
    """
    vertices = len(part.indptr) - 1
    degree = np.diff(part.indptr)
    indptr, sources = part.indptr.astype(np.int64), part.indices.astype(np.int32)
    sage = architecture is Architecture.GRAPH_SAGE
    if sage and aggregator == "Mean":
        weights = np.repeat(1.0 / np.maximum(degree, 1), degree).astype(np.float32)
        return Graphs(part.extra["graph_offsets"], part.owned, indptr, sources, kind_of.astype(np.int32), weights)
    first = indptr[:-1] + np.arange(vertices)
    rest = np.ones(len(sources) + vertices, dtype=bool)
    rest[first] = False
    around, of_kind = np.empty(len(rest), np.int32), np.full(len(rest), kinds, np.int32)
    around[first], around[rest], of_kind[rest] = np.arange(vertices), sources, kind_of
    norm = 1.0 / np.sqrt(degree + 1.0)
    ends = np.repeat(norm, degree + 1)
    weights = (ends * (ends if sage else norm[around])).astype(np.float32)
    return Graphs(part.extra["graph_offsets"], part.owned, np.append(first, len(rest)), around, of_kind, weights)


@dataclass(frozen=True)
class MoleculeBatch:
    """Some graphs side by side."""

    vertices: Tensor
    """(n,) int64 rows of the part's features."""
    ids: Tensor
    """(n,) int64 of each vertex in the whole data set."""
    graph_of: Tensor
    """(n,) int64 which of the batch's graphs each vertex belongs to, ascending."""
    offsets: Tensor
    """(g + 1,) int64 first vertex of each graph."""
    indptr: Tensor
    """(n + 1,) int64 first edge of each vertex."""
    sources: Tensor
    """(e,) int32."""
    destinations: Tensor
    """(e,) int64, ascending."""
    kinds: Tensor
    """(e,) int32."""
    weights: Tensor
    """(e, 1) float32."""
    sizes: Tensor
    """(g,) float32 vertices of each graph."""
    graphs: Tensor
    """(g,) int64 rows of the part's labels."""


def assemble(graphs: Graphs, chosen: Array, device: torch.device) -> MoleculeBatch:
    """Graphs `chosen` (rows of the part's labels) in that order; may be none."""
    offsets = graphs.offsets
    sizes = (offsets[chosen + 1] - offsets[chosen]).astype(np.int64)
    vertices = _ranges(offsets[chosen], sizes)
    degree = graphs.indptr[vertices + 1] - graphs.indptr[vertices]
    edges = _ranges(graphs.indptr[vertices], degree)
    # A graph's vertices are consecutive in the part and in the batch: their ids move together.
    first = _before(sizes)
    moved = np.repeat(first[:-1] - offsets[chosen], sizes)
    destinations = np.repeat(np.arange(len(vertices)), degree)

    def tensor(array: Array, kind: type = np.int64) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(array, dtype=kind)).to(device)

    return MoleculeBatch(
        vertices=tensor(vertices),
        ids=tensor(graphs.ids[vertices]),
        graph_of=tensor(np.repeat(np.arange(len(chosen)), sizes)),
        offsets=tensor(first),
        indptr=tensor(_before(degree)),
        sources=tensor(graphs.sources[edges] + moved[destinations], np.int32),
        destinations=tensor(destinations),
        kinds=tensor(graphs.kinds[edges], np.int32),
        weights=tensor(graphs.weights[edges], np.float32).unsqueeze(1),
        sizes=tensor(sizes, np.float32),
        graphs=tensor(chosen),
    )


def _before(sizes: Array) -> Array:
    """0 and the running sum."""
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


def _ranges(starts: Array, sizes: Array) -> Array:
    """starts[i], starts[i] + 1, …, sizes[i] of them, for all i one after the other."""
    before = _before(sizes)
    places: Array = np.arange(before[-1], dtype=np.int64) + np.repeat(starts.astype(np.int64) - before[:-1], sizes)
    return places


def in_turn(graphs: Array, size: int) -> Iterator[Array]:
    """Graphs in their own order, `size` at a time."""
    yield from (graphs[start : start + size] for start in range(0, len(graphs), size))
