"""Batches of whole graphs: which graphs each step takes, and their vertices and edges as one graph without connections between them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch

from hyperscale.model.adjacency import Array, LocalPart

Tensor = torch.Tensor


@dataclass(frozen=True)
class Batch:
    """Some graphs side by side."""

    vertices: Tensor
    """(n,) int64 rows of the part's features."""
    graph_of: Tensor
    """(n,) int64 which of the batch's graphs each vertex belongs to, ascending."""
    sources: Tensor
    """(e,) int64."""
    destinations: Tensor
    """(e,) int64, ascending."""
    edges: Tensor
    """(e,) int64 rows of the part's edge features."""
    sizes: Tensor
    """(g,) float32 vertices of each graph."""
    in_degree: Tensor
    """(n,) float32."""
    graphs: Tensor
    """(g,) int64 rows of the part's labels."""


def assemble(part: LocalPart, chosen: Array, device: torch.device) -> Batch:
    """Graphs `chosen` (rows of the part's labels) in that order; may be none."""
    offsets = part.extra["graph_offsets"]
    sizes = (offsets[chosen + 1] - offsets[chosen]).astype(np.int64)
    vertices = _ranges(offsets[chosen], sizes)
    degree = part.indptr[vertices + 1] - part.indptr[vertices]
    edges = _ranges(part.indptr[vertices], degree)
    # A graph's vertices are consecutive in the part and in the batch: their ids move together.
    moved = np.repeat(np.concatenate([[0], np.cumsum(sizes)])[:-1] - offsets[chosen], sizes)
    destinations = np.repeat(np.arange(len(vertices)), degree)
    sources = part.indices[edges] + moved[destinations]
    graph_of = np.repeat(np.arange(len(chosen)), sizes)

    def tensor(array: Array, kind: type = np.int64) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(array, dtype=kind)).to(device)

    return Batch(
        vertices=tensor(vertices),
        graph_of=tensor(graph_of),
        sources=tensor(sources),
        destinations=tensor(destinations),
        edges=tensor(edges),
        sizes=tensor(sizes, np.float32),
        in_degree=tensor(degree, np.float32),
        graphs=tensor(chosen),
    )


def _ranges(starts: Array, sizes: Array) -> Array:
    """starts[i], starts[i] + 1, …, sizes[i] of them, for all i one after the other."""
    before = np.concatenate([[0], np.cumsum(sizes)])
    places: Array = np.arange(before[-1], dtype=np.int64) + np.repeat(starts.astype(np.int64) - before[:-1], sizes)
    return places


def in_turn(graphs: Array, size: int) -> Iterator[Array]:
    """Graphs in their own order, `size` at a time."""
    yield from (graphs[start : start + size] for start in range(0, len(graphs), size))
