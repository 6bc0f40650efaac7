"""Sums and softmaxes over edges: DGL's kernels, or torch's own where this DGL has none for the device.

Where a whole layer can be done in one pass (`fused_on`), a neighbourhood does that instead.
DGL's wheels on PyPI know no CUDA, so on a GPU blocks are `TorchBlock` unless a DGL with CUDA is installed.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import dgl
import torch
from torch.nn import functional

from hyperscale.model.adjacency import Array
from hyperscale.modelgraph import kernels, sparse
from hyperscale.modelgraph.kernels import ELU, RELU, Tail

Tensor = torch.Tensor


@dataclass(frozen=True)
class TorchBlock:
    """Edges from sources to destinations, by destination."""

    source: Tensor
    """(e,) int64."""
    destination: Tensor
    """(e,) int64, ascending."""
    sources: int
    destinations: int

    def edges(self, order: str = "eid") -> tuple[Tensor, Tensor]:
        """As DGL's; `order` is always that of edge ids."""
        del order
        return self.source, self.destination


@cache
def dgl_runs_on(kind: str) -> bool:
    """Whether the installed DGL has kernels for this kind of device."""
    if kind == "cpu":
        return True
    try:
        dgl.graph((torch.tensor([0]), torch.tensor([0]))).to(torch.device(kind))
    except dgl.DGLError:
        return False
    return True


def fused_on(kind: str) -> bool:
    """Whether this kind of device has the compiled passes of hyperscale.modelgraph."""
    return kind == "cpu" and kernels.COMPILED


def dropout(x: Tensor, probability: float, seed: int, ids: Array | None = None) -> Tensor:
    """Dropout of x (…, F): entries set to 0 at random and the others grown.

    The seed decides which, on the processor together with `ids`, (rows,) int64 what each row of F counts as; None: its place.
    """
    if probability <= 0.0:
        return x
    if sparse.fits(x):
        return sparse.dropout(x, probability, seed, ids)
    generator = torch.Generator(device=x.device).manual_seed(seed)
    drawn = torch.empty(x.shape, device=x.device).uniform_(generator=generator)  # a quarter of the time of bernoulli_
    return x * drawn.ge_(probability).div_(1.0 - probability)


def dropout_some(x: Tensor, numbers: Array | None, probability: float, seed: int) -> Tensor:
    """Of one row, what `dropout` makes of its entries `numbers` (count,) uint32; None: of all. x (count,), without gradient."""
    if numbers is None:
        return dropout(x.unsqueeze(0), probability, seed).squeeze(0)
    return torch.from_numpy(kernels.drop_some(x.numpy(), numbers, kernels.Drop(probability, seed)))


def finish(x: Tensor, tail: Tail, ids: Array | None = None) -> Tensor:
    """Activation, then dropout of rows that count as `ids`."""
    if tail.activation == RELU:
        x = torch.relu(x)
    elif tail.activation == ELU:
        x = functional.elu(x)
    return dropout(x, *tail.drop, ids)


def copy_u_sum(block: Any, x: Tensor) -> Tensor:  # noqa: ANN401 - dgl has no annotations
    """(d, …) sum of source rows over each destination's edges."""
    if not isinstance(block, TorchBlock):
        theirs: Tensor = dgl.ops.copy_u_sum(block, x)
        return theirs
    return _summed(block, x[block.source])


def u_mul_e_sum(block: Any, x: Tensor, weights: Tensor) -> Tensor:  # noqa: ANN401 - dgl has no annotations
    """The same with a factor on each edge, broadcast over trailing dimensions."""
    if not isinstance(block, TorchBlock):
        theirs: Tensor = dgl.ops.u_mul_e_sum(block, x, weights)
        return theirs
    return _summed(block, x[block.source] * weights)


def u_add_v(block: Any, left: Tensor, right: Tensor) -> Tensor:  # noqa: ANN401 - dgl has no annotations
    """(e, …) source row plus destination row of each edge."""
    if not isinstance(block, TorchBlock):
        theirs: Tensor = dgl.ops.u_add_v(block, left, right)
        return theirs
    return left[block.source] + right[block.destination]


def edge_softmax(block: Any, scores: Tensor) -> Tensor:  # noqa: ANN401 - dgl has no annotations
    """(e, …) softmax over the edges of each destination."""
    if not isinstance(block, TorchBlock):
        theirs: Tensor = dgl.ops.edge_softmax(block, scores)
        return theirs
    index = block.destination.view(-1, *[1] * (scores.dim() - 1)).expand_as(scores)
    lowest = torch.full((block.destinations, *scores.shape[1:]), -torch.inf, dtype=scores.dtype, device=scores.device)
    highest = lowest.scatter_reduce(0, index, scores.detach(), "amax")
    raised = (scores - highest[block.destination]).exp()
    return raised / _summed(block, raised)[block.destination]


def _summed(block: TorchBlock, rows: Tensor) -> Tensor:
    return rows.new_zeros((block.destinations, *rows.shape[1:])).index_add(0, block.destination, rows)
