"""Bag-of-words features as they are: mostly zeros, so products with weights and dropout touch only what is there."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from hyperscale.model.adjacency import Array
from hyperscale.training.modelgraph import kernels, tails
from hyperscale.training.modelgraph.kernels import Drop
from hyperscale.training.modelgraph.places import Places, places_of

Tensor = torch.Tensor
SPARSE_BELOW = 0.1
"""Part of entries that are not 0 below which rows are kept sparse."""


@dataclass(frozen=True)
class SparseRows:
    """(n, f) in CSR, with the transposed places for gradients of weights."""

    places: Places
    values: Tensor
    """(entries,)."""
    numbers: Array | None = None
    """(entries,) uint32 what dropout counts each entry as; None: its place."""

    def dropped(self, how: Drop) -> SparseRows:
        """Dropout of the entries, without gradient; their numbers decide which are dropped."""
        if self.numbers is None:
            return replace(self, values=tails.dropout(self.values.unsqueeze(0), how).squeeze(0))
        return replace(self, values=torch.from_numpy(kernels.drop_some(self.values.numpy(), self.numbers, how)))

    def times(self, weight: Tensor) -> Tensor:
        """(n, out) product with weights (f, out); differentiable in the weights."""
        product: Tensor = _Product.apply(self, weight)
        return product

    def dense(self) -> Tensor:
        """(n, f) with its zeros."""
        rows = self.values.new_zeros((self.places.rows, self.places.sources))
        rows[self.places.row.long(), self.places.col.long()] = self.values
        return rows


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, rows: SparseRows, weight: Tensor) -> Tensor:  # noqa: ANN401 - torch's own signature
        context.rows = rows
        return rows.places.times(rows.values, weight)

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> tuple[None, Tensor]:  # noqa: ANN401 - torch's own signature
        turned, order = context.rows.places.turned
        return None, turned.times(context.rows.values.index_select(0, order), gradient)


def worth_keeping_sparse(filled: float, size: float) -> bool:
    """Whether few of `size` entries are not 0, `filled` of them."""
    return 0 < filled < SPARSE_BELOW * size


def rows_of(features: Array, device: torch.device, *, sparse: bool) -> Tensor | SparseRows:
    """Features (n, f) as float32 rows, without their zeros where `sparse`."""
    if not sparse:
        return torch.from_numpy(np.ascontiguousarray(features, dtype=np.float32)).to(device)
    given = np.ascontiguousarray(features, dtype=np.float32)
    row, column = np.nonzero(given)
    indptr = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=len(given)))])
    places = places_of(indptr, column, given.shape[1], device)
    return SparseRows(places, torch.from_numpy(given[row, column]).to(device))
