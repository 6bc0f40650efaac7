"""The fused operations with their gradients, for torch on the CPU: one pass over the edges each, intermediate rows never written.

`aggregate`: weighted sum over in-edges, own row, bias, activation, dropout. `transform_and_aggregate`: the same, and the products before.
`attend`: the attention of GAT from its scores to the weighted sum, with the softmax weights computed again in the backward pass instead of
being kept (as FlashAttention does, arXiv 2205.14135).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from hyperscale.model.adjacency import Array
from hyperscale.training.modelgraph import kernels, tails
from hyperscale.training.modelgraph.edges import Edges, Matrix
from hyperscale.training.modelgraph.kernels import NOTHING, Attended, AttentionRows, Drop, Tail
from hyperscale.training.modelgraph.tails import fits

__all__ = ["aggregate", "attend", "dropout", "fits", "fresh_seed", "transform_and_aggregate"]


def fresh_seed() -> int:
    """For one dropout, from torch's generator: `torch.manual_seed` decides what is dropped."""
    return int(torch.randint(0, 2**62, ()).item())


def aggregate(matrix: Matrix, x: Tensor, *, add: Tensor | None = None, bias: Tensor | None = None, tail: Tail = NOTHING) -> Tensor:
    """drop(activation(A x + add + bias)) of x (m, F): (n, F)."""
    out: Tensor = _Aggregate.apply(matrix, tail, x, add, bias)
    return out


def transform_and_aggregate(
    matrix: Matrix, x: Tensor, own: Tensor, other: Tensor, *, bias: Tensor | None = None, tail: Tail = NOTHING
) -> Tensor:
    """drop(activation(x[:n] ownᵀ + A (x otherᵀ) + bias)) of x (m, F_in), `own` and `other` (F_out, F_in): (n, F_out).

    Destination v is source v.
    """
    out: Tensor = _TransformAndAggregate.apply(matrix, tail, x, own, other, bias)
    return out


def attend(
    edges: Edges, x: Tensor, scores: tuple[Tensor, Tensor], how: AttentionRows, *, bias: Tensor | None = None, tail: Tail = NOTHING
) -> Tensor:
    """drop(activation(Σ attention × x + bias)): x (m, H·D), `scores` the vectors (H, D) of sources and destinations -> (n, H·D).

    Destination v is source v.
    """
    out: Tensor = _Attend.apply(edges, how, tail, x, *scores, bias)
    return out


def dropout(x: Tensor, probability: float, seed: int | None = None, ids: Array | None = None) -> Tensor:
    """Dropout of x (..., F), nothing kept in between; torch keeps a mask as large as x.

    Without a seed torch's generator gives one. ids: (rows,) int64 what draws count each row of F as, None: its place.
    """
    if probability <= 0.0:
        return x
    return tails.dropout(x, Drop(probability, fresh_seed() if seed is None else seed), ids)


def _read(tensor: Tensor | None) -> Array | None:
    return None if tensor is None else tensor.detach().contiguous().numpy()


def _must(tensor: Tensor) -> Array:
    numbers: Array = tensor.detach().contiguous().numpy()
    return numbers


def _back(array: Array | None) -> Tensor | None:
    return None if array is None else torch.from_numpy(array)


class _Aggregate(torch.autograd.Function):
    """Needs of its forward pass only the output, and that only where an activation follows."""

    @staticmethod
    def forward(ctx: Any, matrix: Matrix, tail: Tail, x: Tensor, add: Tensor | None, bias: Tensor | None) -> Tensor:  # noqa: ANN401
        out = torch.from_numpy(kernels.aggregate(matrix, _must(x), _read(add), _read(bias), tail, torch.get_num_threads()))
        ctx.matrix, ctx.tail = matrix, tail
        if tail.activation:
            ctx.save_for_backward(out)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401
        out = ctx.saved_tensors[0] if ctx.tail.activation else grad
        inner, bias_grad = _tail_back(grad, out, ctx.tail, ctx.matrix.edges.ids, bias=ctx.needs_input_grad[4])
        x_grad = kernels.aggregate(ctx.matrix.turned, inner, threads=torch.get_num_threads()) if ctx.needs_input_grad[2] else None
        return None, None, _back(x_grad), _back(inner) if ctx.needs_input_grad[3] else None, _back(bias_grad)


def _tail_back(grad: Tensor, out: Tensor, tail: Tail, ids: Array | None, *, bias: bool) -> tuple[Array, Array | None]:
    """Gradients of the sums and of the bias."""
    inner = _must(grad)
    if tail == NOTHING and not bias:
        return inner, None
    gradient, bias_grad, _ = kernels.finish_back(inner, _must(out), tail, bias=bias, threads=torch.get_num_threads(), ids=ids)
    return gradient, bias_grad


class _TransformAndAggregate(torch.autograd.Function):
    """The gradient of x is added up by the second product; autograd would write both and add them in a pass of its own."""

    @staticmethod
    def forward(
        ctx: Any,  # noqa: ANN401
        matrix: Matrix,
        tail: Tail,
        x: Tensor,
        own: Tensor,
        other: Tensor,
        bias: Tensor | None,
    ) -> Tensor:
        mine, there = x[: matrix.edges.destinations] @ own.t(), x @ other.t()
        threads = torch.get_num_threads()
        out = torch.from_numpy(kernels.aggregate(matrix, _must(there), _must(mine), _read(bias), tail, threads, over=True))
        ctx.matrix, ctx.tail = matrix, tail
        ctx.save_for_backward(x, own, other, *((out,) if tail.activation else ()))
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401
        x, own, other, *rest = ctx.saved_tensors
        inner_grad, bias_grad = _tail_back(grad, rest[0] if rest else grad, ctx.tail, ctx.matrix.edges.ids, bias=ctx.needs_input_grad[5])
        inner = torch.from_numpy(inner_grad)
        there = torch.from_numpy(kernels.aggregate(ctx.matrix.turned, inner_grad, threads=torch.get_num_threads()))
        x_grad = None
        if ctx.needs_input_grad[2]:
            x_grad = there @ other
            x_grad[: len(inner)].addmm_(inner, own)
        return None, None, x_grad, inner.t() @ x[: len(inner)], there.t() @ x, _back(bias_grad)


class _Attend(torch.autograd.Function):
    """Keeps (n, H) maxima and sums of the softmax, nothing by edge."""

    @staticmethod
    def forward(
        ctx: Any,  # noqa: ANN401
        edges: Edges,
        how: AttentionRows,
        tail: Tail,
        x: Tensor,
        source: Tensor,
        destination: Tensor,
        bias: Tensor | None,
    ) -> Tensor:
        threads = torch.get_num_threads()
        rows = _must(x)
        left, right = kernels.scores(rows, _must(source), _must(destination), threads)
        right = right[: edges.destinations]
        done = kernels.attend(edges, rows, left, right, how, _read(bias), tail, threads)
        out = torch.from_numpy(done.out)
        ctx.edges, ctx.how, ctx.tail = edges, how, tail
        kept = (torch.from_numpy(array) for array in (done.sums, left, right, done.highest, done.total))
        ctx.save_for_backward(x, source, destination, out, *kept)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401
        threads = torch.get_num_threads()
        x, source, destination, out, sums, left, right, highest, total = (_must(tensor) for tensor in ctx.saved_tensors)
        edges, how = ctx.edges, ctx.how
        inner, bias_grad, dots = kernels.finish_back(
            _must(grad), out, ctx.tail, bias=ctx.needs_input_grad[6], sums=sums, heads=how.heads, threads=threads, ids=edges.ids
        )
        assert dots is not None  # noqa: S101 - it is there wherever sums are
        done = Attended(out, sums, highest, total)
        x_grad, left_grad, right_grad = kernels.attend_back(edges, x, left, right, how, done, inner, dots, threads)
        if edges.destinations < edges.sources:
            right_grad = _padded(right_grad, edges.sources)
        source_grad, destination_grad = kernels.scores_back(x, source, destination, left_grad, right_grad, x_grad, threads)
        return None, None, None, _back(x_grad), _back(source_grad), _back(destination_grad), _back(bias_grad)


def _padded(values: Array, rows: int) -> Array:
    wide = np.zeros((rows, values.shape[1]), dtype=np.float32)
    wide[: len(values)] = values
    return wide
