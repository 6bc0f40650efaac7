"""Passes over edges by device: the compiled ones of `training.modelgraph` on the processor, else products of sparse matrices."""

from __future__ import annotations

from typing import Protocol

import torch

from hyperscale.training.modelgraph import csr, fused_operations, kernels
from hyperscale.training.modelgraph.edges import Edges, Matrix
from hyperscale.training.modelgraph.kernels import NOTHING, AttentionRows, Tail

Tensor = torch.Tensor


class Passes(Protocol):
    """What `modelgraph.fused_operations` and `modelgraph.csr` both offer."""

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
