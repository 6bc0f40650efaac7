"""Where a layer's messages come from, whichever way the graph is held: own vertices with a halo, or a sampled block."""

from __future__ import annotations

import abc
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import dgl
import numpy as np
import torch

from hyperscale.model.adjacency import Array
from hyperscale.modelgraph import sparse
from hyperscale.modelgraph.edges import Edges, Matrix, edges_of
from hyperscale.modelgraph.kernels import NOTHING, Attention, Tail
from hyperscale.modelgraph.kernels_numpy import WIDE
from hyperscale.worker import ops

Tensor = torch.Tensor
GCN, MEAN, OWN_MEAN = "gcn", "mean", "own-mean"
"""Weights of sums: D^-1/2 (A + I) D^-1/2, D^-1 A, and D^-1 (A + I), with the degrees of the whole graph."""


@dataclass(frozen=True)
class Counted:
    """What dropout counts rows and edges as: with the whole graph's numbers any number of ranks drops the same entries. None: places."""

    rows: Array | None = None
    """(rows of x,) int64."""
    sources: Array | None = None
    """(sources of `looped`,) int64."""
    destinations: Array | None = None
    """(d,) int64."""
    offsets: Array | None = None
    """(d,) int64 to be added to the numbers of a destination's edges in `looped`."""


PLACES: Final = Counted()


class Neighbourhood(abc.ABC):
    """In-neighbours of some destination vertices. `x` is always by the rows that a layer gets: own vertices, or a block's sources."""

    destination_degree: Tensor
    """(d,) float32 in-degree of the destinations in the graph that messages are averaged over."""
    source_norm: Tensor
    """(rows of x, 1) 1 / sqrt(out-degree + 1), GCN's factor with its self loop."""
    destination_norm: Tensor
    """(d, 1) 1 / sqrt(in-degree + 1)."""
    fused: bool = False
    """Whether the passes of hyperscale.modelgraph take this neighbourhood; otherwise sums are chains of DGL's or torch's operations."""
    counted: Counted = PLACES

    @abc.abstractmethod
    def destinations(self, x: Tensor) -> Tensor:
        """The destinations' own rows of x."""

    @abc.abstractmethod
    def sum(self, x: Tensor, name: str) -> Tensor:
        """(d, f) sum of x over in-neighbours. name: of the layer, the same on all ranks."""

    @abc.abstractmethod
    def sources(self, x: Tensor, name: str) -> Tensor:
        """Rows of x for all sources of `looped`, in its numbering."""

    @property
    @abc.abstractmethod
    def looped(self) -> Any:  # noqa: ANN401 - dgl has no annotations
        """DGL block from sources to destinations with a self loop each, for attention."""

    def gather(
        self,
        weights: str,
        x: Tensor,
        name: str,
        *,
        add: Callable[[], Tensor] | None = None,
        bias: Tensor | None = None,
        tail: Tail = NOTHING,
    ) -> Tensor:
        """drop(activation(A x + add() + bias)) (d, f), A with `weights` GCN, MEAN or OWN_MEAN; `add` is computed while rows travel."""
        if self.fused:
            return self._gathered(weights, x, name, add, bias, tail)
        if weights == GCN:
            rows = x * self.source_norm
            out = (self.sum(rows, name) + self.destinations(rows)) * self.destination_norm
        elif weights == OWN_MEAN:
            out = (self.sum(x, name) + self.destinations(x)) * self.destination_norm.square()
        else:
            out = self.sum(x, name) * self.destination_degree.clamp(min=1.0).reciprocal().unsqueeze(1)
        for other in (None if add is None else add(), bias):
            out = out if other is None else out + other
        return ops.finish(out, tail, self.counted.destinations)

    def attend(self, x: Tensor, vectors: tuple[Tensor, Tensor], how: Attention, name: str, bias: Tensor | None, tail: Tail) -> Tensor:
        """drop(activation(Σ attention × x + bias)) (d, H·D) over in-neighbours and the vertex itself; x (rows, H·D), vectors (H, D)."""
        sources = self.sources(x, name)
        if self.fused:
            return sparse.attend(self.looped_edges, sources, vectors, how, bias=bias, tail=tail)
        heads, depth = vectors[0].shape
        rows = sources.view(-1, heads, depth)
        out = self.weighed(rows, rows, vectors, how).flatten(1)
        return ops.finish(out if bias is None else out + bias, tail, self.counted.destinations)

    def weighed(self, rows: Tensor, values: Tensor, vectors: tuple[Tensor, Tensor], how: Attention) -> Tensor:
        """(d, H, D) sums of `values` by attention scored with `rows`, both (sources, H, D); never in one pass."""
        left = (rows * vectors[0]).sum(-1, keepdim=True)
        right = (rows[: len(self.destination_degree)] * vectors[1]).sum(-1, keepdim=True)
        scores = torch.nn.functional.leaky_relu(ops.u_add_v(self.looped, left, right), how.slope)
        weights = ops.edge_softmax(self.looped, scores).squeeze(-1)
        # The seed that the fused pass takes for its edges: on the processor both leave out the same ones.
        numbers = self._edge_numbers if how.drop.probability else None
        kept = ops.dropout(weights, how.drop.probability, ~how.drop.seed & WIDE, numbers).unsqueeze(-1)
        return ops.u_mul_e_sum(self.looped, values, kept)

    @cached_property
    def _edge_numbers(self) -> Array | None:
        """(e,) int64 what dropout counts the edges of `looped` as."""
        if self.counted.offsets is None:
            return None
        edges = self.looped_edges
        numbers: Array = np.arange(edges.count) + np.repeat(self.counted.offsets, np.diff(edges.indptr))
        return numbers

    @property
    @abc.abstractmethod
    def looped_edges(self) -> Edges:
        """`looped` for the passes of hyperscale.modelgraph."""

    @abc.abstractmethod
    def _gathered(self, weights: str, x: Tensor, name: str, add: Callable[[], Tensor] | None, bias: Tensor | None, tail: Tail) -> Tensor:
        """`gather` in one pass."""


def matrix(weights: str, indptr: Array, indices: Array, degrees: tuple[Array, Array], *, loops: bool, ids: Array | None = None) -> Matrix:
    """In-neighbours of d destinations among s sources as CSR; degrees (d,) in and (s,) out in the whole graph. loops: not for MEAN.

    ids: (d,) int64 what dropout counts the destinations as; None: their places.
    """
    if weights == MEAN:
        return edges_of(indptr, indices, len(degrees[1]), *degrees, ids=ids).matrix("mean")
    if loops:
        indptr, indices = with_loops(indptr, indices)
    received, sent = degrees[0] + 1, degrees[1] + 1
    return edges_of(indptr, indices, len(degrees[1]), received, sent, ids=ids).matrix("both" if weights == GCN else "mean")


def block(indptr: Array, indices: Array, sources: int, device: torch.device) -> Any:  # noqa: ANN401 - dgl has no annotations
    """DGL block of `len(indptr) - 1` destinations whose in-neighbours are sources 0..sources-1, as CSR.

    A `TorchBlock` where DGL lacks the device.
    """
    rows = len(indptr) - 1
    if not ops.dgl_runs_on(device.type):
        return torch_block(indptr, indices, sources, device)
    # Stated although they are in order: DGL's libxsmm kernels for edge features do without them in one direction only.
    edges = torch.arange(len(indices))
    made = dgl.create_block(
        ("csc", (torch.from_numpy(indptr.astype(np.int64)), torch.from_numpy(indices.astype(np.int64)), edges)),
        num_src_nodes=sources,
        num_dst_nodes=rows,
        device="cpu",
    )
    # 32-bit ids halve what a sparse product reads; every format now, so that no first epoch pays for the reverse one.
    made = made.int() if max(sources, rows, len(indices)) < 2**31 else made
    made = made.formats(["coo", "csr", "csc"])
    made.create_formats_()
    return made.to(device)


def torch_block(indptr: Array, indices: Array, sources: int, device: torch.device) -> ops.TorchBlock:
    """The same for torch's own operations."""
    rows = len(indptr) - 1
    destination = torch.from_numpy(np.repeat(np.arange(rows), np.diff(indptr))).to(device)
    return ops.TorchBlock(torch.from_numpy(indices.astype(np.int64)).to(device), destination, sources, rows)


def with_loops(indptr: Array, indices: Array) -> tuple[Array, Array]:
    """Each row with its own vertex as first entry; destination i must be source i."""
    rows = len(indptr) - 1
    loops: Array = np.insert(indices, indptr[:-1], np.arange(rows, dtype=indices.dtype))
    return indptr + np.arange(rows + 1), loops


def norm(degree: Tensor) -> Tensor:
    """(n, 1) of (n,) degrees."""
    return (degree.float() + 1.0).rsqrt().unsqueeze(1)
