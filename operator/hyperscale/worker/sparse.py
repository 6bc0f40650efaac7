"""Bag-of-words features as they are: mostly zeros, so products with weights and dropout touch only what is there.

Torch's CSR product, not DGL's: eight times as fast on CiteSeer's features times 64 columns.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse
import torch

from hyperscale.model.adjacency import Array

Tensor = torch.Tensor
SPARSE_BELOW = 0.1
"""Part of entries that are not 0 below which rows are kept sparse."""

with warnings.catch_warnings():
    # Torch says once in each process that its CSR is in beta.
    warnings.simplefilter("ignore")
    torch.sparse_csr_tensor(torch.tensor([0, 0]), torch.tensor([], dtype=torch.int64), torch.tensor([]), (1, 1))


@dataclass(frozen=True)
class SparseRows:
    """(n, f) in CSR, with the CSR of its transpose for gradients of weights."""

    shape: tuple[int, int]
    indptr: Tensor
    indices: Tensor
    values: Tensor
    """(entries,)."""
    transposed_indptr: Tensor
    transposed_indices: Tensor
    transposed_order: Tensor
    """Where each entry of the transpose stands in `values`."""
    numbers: Array | None = None
    """(entries,) uint32 what dropout counts each entry as; None: its place."""

    def with_values(self, values: Tensor) -> SparseRows:
        """Other entries (entries,) at the same places."""
        return replace(self, values=values)

    def times(self, weight: Tensor) -> Tensor:
        """(n, out) product with weights (f, out); differentiable in the weights."""
        product: Tensor = _Product.apply(self, weight)
        return product

    def dense(self) -> Tensor:
        """(n, f) with its zeros."""
        return self.matrix().to_dense()

    def matrix(self) -> Tensor:
        """As torch's own CSR."""
        return torch.sparse_csr_tensor(self.indptr, self.indices, self.values, self.shape, check_invariants=False)

    def transposed(self) -> Tensor:
        """(f, n) as torch's own CSR."""
        values = self.values[self.transposed_order]
        return torch.sparse_csr_tensor(self.transposed_indptr, self.transposed_indices, values, self.shape[::-1], check_invariants=False)


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, rows: SparseRows, weight: Tensor) -> Tensor:  # noqa: ANN401 - torch's own signature
        context.rows = rows
        return rows.matrix() @ weight

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> tuple[None, Tensor]:  # noqa: ANN401 - torch's own signature
        return None, context.rows.transposed() @ gradient


def worth_keeping_sparse(filled: float, size: float) -> bool:
    """Whether few of `size` entries are not 0, `filled` of them."""
    return 0 < filled < SPARSE_BELOW * size


def rows_of(features: Array, device: torch.device, *, sparse: bool) -> Tensor | SparseRows:
    """Features (n, f) as float32 rows, without their zeros where `sparse`."""
    if not sparse:
        return torch.from_numpy(np.ascontiguousarray(features, dtype=np.float32)).to(device)
    csr = scipy.sparse.csr_matrix(features.astype(np.float32))
    order = scipy.sparse.csr_matrix((np.arange(csr.nnz), csr.indices, csr.indptr), shape=csr.shape).tocsc()
    arrays = (csr.indptr, csr.indices, csr.data, order.indptr, order.indices, order.data)
    kinds = (np.int64, np.int64, np.float32, np.int64, np.int64, np.int64)
    indptr, indices, values, *turned = (torch.from_numpy(array.astype(kind)).to(device) for array, kind in zip(arrays, kinds, strict=True))
    return SparseRows((features.shape[0], features.shape[1]), indptr, indices, values, turned[0], turned[1], turned[2])
