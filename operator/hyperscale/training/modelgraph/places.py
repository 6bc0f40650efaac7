"""Sparse matrices (CSR) on a device, with the transposed ones kept beside them, for products by torch alone."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
import torch
from torch import Tensor

from hyperscale.model.adjacency import Array
from hyperscale.training.modelgraph.edges import Edges, Matrix

WIDE_IDS: Final = 2**31
"""Edges or vertices from which on ids take 64 bits."""

with warnings.catch_warnings():
    # Torch says once in each process that its CSR is in beta.
    warnings.simplefilter("ignore")
    torch.sparse_csr_tensor(torch.tensor([0, 0]), torch.tensor([], dtype=torch.int64), torch.tensor([]), (1, 1))


@dataclass(frozen=True, eq=False)
class Places:
    """Where the entries of a sparse matrix stand: in-edges of n rows from m sources."""

    crow: Tensor
    """(n + 1,) int32; int64 where edges, rows or sources number WIDE_IDS or more."""
    col: Tensor
    """(e,) of the same kind."""
    sources: int
    """m."""

    @property
    def rows(self) -> int:
        """N."""
        return len(self.crow) - 1

    @cached_property
    def row(self) -> Tensor:
        """(e,) the row of each entry; 4 bytes an edge that only attention keeps."""
        return self._row()

    def _row(self) -> Tensor:
        ids = torch.arange(self.rows, dtype=self.col.dtype, device=self.col.device)
        return torch.repeat_interleave(ids, self.crow.diff().long(), output_size=len(self.col))

    def transposed(self) -> tuple[Places, Tensor]:
        """The transposed matrix's places, and (e,) where each of its entries stands here."""
        order = torch.sort(self.col, stable=True).indices
        crow = torch.zeros(self.sources + 1, dtype=self.crow.dtype, device=self.crow.device)
        crow[1:] = torch.bincount(self.col, minlength=self.sources).cumsum(0)
        return Places(crow, self._row().index_select(0, order), self.rows), order.to(self.col.dtype)

    @cached_property
    def turned(self) -> tuple[Places, Tensor]:
        """`transposed`, made once: 8 bytes an edge."""
        return self.transposed()

    def matrix(self, values: Tensor) -> Tensor:
        """Torch's sparse CSR of entries `values` (e,), in the memory of both."""
        return torch.sparse_csr_tensor(self.crow, self.col, values, (self.rows, self.sources), check_invariants=False)

    def times(self, values: Tensor, x: Tensor) -> Tensor:
        """(n, F) product of the matrix with entries `values` (e,) and x (m, F), or (n,) of x (m,)."""
        return _product(self.matrix(values), x) if x.dim() == 2 else self.matrix(values) @ x


@dataclass(frozen=True, eq=False)
class Weighted:
    """A matrix with its entries, and the transposed one from its first use on."""

    places: Places
    values: Tensor

    @cached_property
    def _matrix(self) -> Tensor:
        return self.places.matrix(self.values)

    def times(self, x: Tensor, *, add: Tensor | None = None) -> Tensor:
        """(n, F) product of the matrix and x (m, F); `add` (n, F) takes the sum."""
        return _product(self._matrix, x, add)

    @cached_property
    def turned(self) -> Weighted:
        """The transposed matrix."""
        places, order = self.places.transposed()
        return Weighted(places, self.values.index_select(0, order))


def _product(matrix: Tensor, x: Tensor, add: Tensor | None = None) -> Tensor:
    """Product of sparse CSR (n, m) and x (m, F), in the memory of `add` (n, F) or fresh. `@` takes that memory twice on a processor."""
    into = x.new_zeros((matrix.shape[0], x.shape[1])) if add is None else add
    return torch.addmm(into, matrix, x, out=into)


def places_of(indptr: Array, indices: Array, sources: int, device: torch.device) -> Places:
    """CSR arrays on a device; on the processor they keep their memory where the kind is the same."""
    kind = np.int64 if max(len(indices), len(indptr), sources) >= WIDE_IDS else np.int32
    crow, col = (torch.from_numpy(np.ascontiguousarray(array, kind)).to(device) for array in (indptr, indices))
    return Places(crow, col, sources)


def placed(edges: Edges, device: torch.device) -> Places:
    """`edges` on a device, made once."""
    places: Places | None = edges.placed.get(str(device))
    if places is None:
        places = edges.placed[str(device)] = places_of(edges.indptr, edges.indices, edges.sources, device)
    return places


def weighted(matrix: Matrix, device: torch.device) -> Weighted:
    """A matrix on a device, made once."""
    weighed: Weighted | None = matrix.placed.get(str(device))
    if weighed is None:
        places = placed(matrix.edges, device)
        values = torch.ones(len(places.col)) if matrix.weights is None else torch.from_numpy(matrix.weights)
        weighed = matrix.placed[str(device)] = Weighted(places, values.to(device))
    return weighed
