"""Passes over edges by device: the compiled ones of `training.modelgraph` on the processor, else products of sparse matrices."""

from __future__ import annotations

from typing import Protocol

import torch

from hyperscale.model.adjacency import Array
from hyperscale.training.modelgraph import csr, fused_operations, kernels, tails
from hyperscale.training.modelgraph.edges import Edges, Matrix
from hyperscale.training.modelgraph.kernels import NOTHING, AttentionRows, Drop, Tail

Tensor = torch.Tensor


class Passes(Protocol):
    """What `modelgraph.sparse` and `modelgraph.csr` both offer."""

    def aggregate(
        self, matrix: Matrix, x: Tensor, *, add: Tensor | None = None, bias: Tensor | None = None, tail: Tail = NOTHING
    ) -> Tensor:
        """drop(activation(A x + add + bias)); the result may take the memory of `add`."""
        ...

    def attend(
        self,
        edges: Edges,
        x: Tensor,
        vectors: tuple[Tensor, Tensor],
        how: AttentionRows,
        *,
        bias: Tensor | None = None,
        tail: Tail = NOTHING,
    ) -> Tensor:
        """drop(activation(Σ attention × x + bias))."""
        ...


def passes_on(kind: str) -> Passes:
    """The passes for this kind of device."""
    return fused_operations if kind == "cpu" and kernels.COMPILED else csr


def dropout(x: Tensor, probability: float, seed: int, ids: Array | None = None) -> Tensor:
    """Dropout of x (…, F): entries set to 0 at random and the others grown.

    The seed decides which, on the processor together with `ids`, (rows,) int64 what each row of F counts as; None: its place.
    """
    return tails.dropout(x, Drop(probability, seed), ids)


def dropout_some(x: Tensor, numbers: Array | None, probability: float, seed: int) -> Tensor:
    """Of one row, what `dropout` makes of its entries `numbers` (count,) uint32; None: of all. x (count,), without gradient."""
    if numbers is None:
        return dropout(x.unsqueeze(0), probability, seed).squeeze(0)
    return torch.from_numpy(kernels.drop_some(x.numpy(), numbers, Drop(probability, seed)))
