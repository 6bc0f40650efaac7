"""The worker's sums over edges as chains of DGL's operations: what `hyperscale.training.engine.ops.Passes` offers, by another library."""

from __future__ import annotations

from typing import Any

import dgl
import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from hyperscale.model.adjacency import Array
from hyperscale.training.modelgraph import tails
from hyperscale.training.modelgraph.edges import Edges, Matrix
from hyperscale.training.modelgraph.kernels import ELU, NOTHING, RELU, AttentionRows, Drop, Tail
from hyperscale.util.splitmix import WORD


def aggregate(matrix: Matrix, x: Tensor, *, add: Tensor | None = None, bias: Tensor | None = None, tail: Tail = NOTHING) -> Tensor:
    """Scale, copy_u_sum, scale; u_mul_e_sum where the weights are no product of a factor for each row and one for each source."""
    edges, block = matrix.edges, _block(matrix.edges)
    norm = next((name for name, made in edges._matrices.items() if made is matrix), None)
    received, sent = (
        torch.from_numpy(np.maximum(degree, 1).astype(np.float32)).unsqueeze(1) for degree in (edges.in_degree, edges.out_degree)
    )
    if norm == "both":
        out = dgl.ops.copy_u_sum(block, x * sent.rsqrt()) * received.rsqrt()
    elif norm == "mean":
        out = dgl.ops.copy_u_sum(block, x) * received.reciprocal()
    else:
        out = dgl.ops.u_mul_e_sum(block, x, torch.from_numpy(matrix.weights).unsqueeze(1))
    return _finish(out, add, bias, tail, edges.ids)


def attend(
    edges: Edges,
    x: Tensor,
    vectors: tuple[Tensor, Tensor],
    how: AttentionRows,
    *,
    bias: Tensor | None = None,
    tail: Tail = NOTHING,
    values: Tensor | None = None,
) -> Tensor:
    """u_add_v, leaky ReLU, edge_softmax, dropout, u_mul_e_sum."""
    block, rows = _block(edges), x.view(-1, *vectors[0].shape)
    weighed = rows if values is None else values.view_as(rows)
    left, right = (rows * vectors[0]).sum(-1, keepdim=True), (rows[: edges.destinations] * vectors[1]).sum(-1, keepdim=True)
    weights = dgl.ops.edge_softmax(block, functional.leaky_relu(dgl.ops.u_add_v(block, left, right), how.slope)).squeeze(-1)
    # The numbers that the fused pass counts its edges as: both leave out the same ones.
    numbers = None if edges.offsets is None else np.arange(edges.count) + np.repeat(edges.offsets, np.diff(edges.indptr))
    kept = tails.dropout(weights, Drop(how.drop.probability, ~how.drop.seed & WORD), numbers).unsqueeze(-1)
    return _finish(dgl.ops.u_mul_e_sum(block, weighed, kept).flatten(1), None, bias, tail, edges.ids)


def _finish(out: Tensor, add: Tensor | None, bias: Tensor | None, tail: Tail, ids: Array | None) -> Tensor:
    for other in (add, bias):
        out = out if other is None else out + other
    if tail.activation == RELU:
        out = torch.relu(out)
    elif tail.activation == ELU:
        out = functional.elu(out)
    return tails.dropout(out, tail.drop, ids)


def _block(edges: Edges) -> Any:  # noqa: ANN401 - dgl has no annotations
    """A block of destinations whose in-neighbours are the sources, made once."""
    if "dgl" not in edges.placed:
        # Edge ids stated although they are in order: DGL's libxsmm kernels for edge features do without them in one direction only.
        given = torch.from_numpy(edges.indptr), torch.from_numpy(edges.indices.astype(np.int64)), torch.arange(edges.count)
        made = dgl.create_block(("csc", given), num_src_nodes=edges.sources, num_dst_nodes=edges.destinations, device="cpu")
        # 32-bit ids halve what a sparse product reads; every format now, so that no first epoch pays for the reverse one.
        made = made.int().formats(["coo", "csr", "csc"])
        made.create_formats_()
        edges.placed["dgl"] = made
    return edges.placed["dgl"]
