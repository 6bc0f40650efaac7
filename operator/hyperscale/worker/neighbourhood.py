"""Where a layer's messages come from, whichever way the graph is held: own vertices with a halo, or a sampled block."""

from __future__ import annotations

import abc
from typing import Any

import dgl
import numpy as np
import torch

from hyperscale.model.adjacency import Array
from hyperscale.worker import ops

Tensor = torch.Tensor


class Neighbourhood(abc.ABC):
    """In-neighbours of some destination vertices. `x` is always by the rows that a layer gets: own vertices, or a block's sources."""

    destination_degree: Tensor
    """(d,) float32 in-degree of the destinations in the graph that messages are averaged over."""
    source_norm: Tensor
    """(rows of x, 1) 1 / sqrt(out-degree + 1), GCN's factor with its self loop."""
    destination_norm: Tensor
    """(d, 1) 1 / sqrt(in-degree + 1)."""

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
