"""Where a layer's messages come from, whichever way the graph is held: own vertices with a halo, or a sampled block."""

from __future__ import annotations

import abc
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
import torch

from hyperscale.model.adjacency import Array
from hyperscale.training.engine.ops import Passes
from hyperscale.training.modelgraph import csr
from hyperscale.training.modelgraph.edges import Edges, Matrix, edges_of
from hyperscale.training.modelgraph.kernels import NOTHING, AttentionRows, Tail

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

    passes: Passes
    counted: Counted = PLACES

    @abc.abstractmethod
    def destinations(self, x: Tensor) -> Tensor:
        """The destinations' own rows of x."""

    @abc.abstractmethod
    def sources(self, x: Tensor, name: str) -> Tensor:
        """Rows of x for all sources of `looped`, in its numbering."""

    @property
    @abc.abstractmethod
    def looped(self) -> Edges:
        """From sources to destinations with a self loop each, for attention."""

    @abc.abstractmethod
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

    def attend(self, x: Tensor, vectors: tuple[Tensor, Tensor], how: AttentionRows, name: str, bias: Tensor | None, tail: Tail) -> Tensor:
        """drop(activation(Σ attention × x + bias)) (d, H·D) over in-neighbours and the vertex itself; x (rows, H·D), vectors (H, D)."""
        return self.passes.attend(self.looped, self.sources(x, name), vectors, how, bias=bias, tail=tail)

    def weighed(self, rows: Tensor, values: Tensor, vectors: tuple[Tensor, Tensor], how: AttentionRows) -> Tensor:
        """(d, H·D) sums of `values` by attention scored with `rows`, both (sources, H·D)."""
        return csr.attend(self.looped, rows, vectors, how, values=values)


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


def with_loops(indptr: Array, indices: Array) -> tuple[Array, Array]:
    """Each row with its own vertex as first entry; destination i must be source i."""
    rows = len(indptr) - 1
    loops: Array = np.insert(indices, indptr[:-1], np.arange(rows, dtype=indices.dtype))
    return indptr + np.arange(rows + 1), loops
