"""Bag-of-words features as they are: mostly zeros, so products with weights and dropout touch only what is there."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse
import torch

from hyperscale.model.adjacency import Array
from hyperscale.worker import ops
from hyperscale.worker.neighbourhood import block

Tensor = torch.Tensor
SPARSE_BELOW = 0.1
"""Part of entries that are not 0 below which rows are kept sparse."""


@dataclass(frozen=True)
class SparseRows:
    """(n, f) rows as a graph from columns to rows with the entries on its edges."""

    shape: tuple[int, int]
    graph: Any
    values: Tensor
    """(entries, 1)."""

    def scaled(self, factors: Tensor) -> SparseRows:
        """Every entry times its factor."""
        return replace(self, values=self.values * factors)

    def times(self, weight: Tensor) -> Tensor:
        """(n, out) product with weights (f, out); differentiable in the weights."""
        return ops.u_mul_e_sum(self.graph, weight, self.values)

    def dense(self) -> Tensor:
        """(n, f) with its zeros."""
        rows = self.values.new_zeros(self.shape)
        columns, destinations = self.graph.edges(order="eid")
        rows[destinations.long(), columns.long()] = self.values.squeeze(1)
        return rows


def rows_of(features: Array, device: torch.device) -> Tensor | SparseRows:
    """Features (n, f) as float32 rows, sparse where few entries are not 0."""
    filled = np.count_nonzero(features) if features.size else 1
    if filled >= SPARSE_BELOW * features.size:
        return torch.from_numpy(np.ascontiguousarray(features, dtype=np.float32)).to(device)
    csr = scipy.sparse.csr_matrix(features.astype(np.float32))
    graph = block(csr.indptr, csr.indices, features.shape[1], device)
    return SparseRows((features.shape[0], features.shape[1]), graph, torch.from_numpy(csr.data).unsqueeze(1).to(device))
