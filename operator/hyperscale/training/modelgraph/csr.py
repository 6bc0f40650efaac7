"""Sums over edges as products of sparse matrices with dense rows, by torch alone: for GPUs, and where nothing was compiled.

The same calls as in `sparse`, for tensors on any device. No tensor has a row for each edge times the width of the features: aggregation is
one product forward and one with the transposed matrix backward, attention computes its numbers by edge and head again in the backward pass.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from hyperscale.training.modelgraph.attention_scores import Scored, scored
from hyperscale.training.modelgraph.edges import Edges, Matrix
from hyperscale.training.modelgraph.kernels import NOTHING, AttentionRows, Tail
from hyperscale.training.modelgraph.places import placed, weighted
from hyperscale.training.modelgraph.tails import finish_, finish_back


def aggregate(matrix: Matrix, x: Tensor, *, add: Tensor | None = None, bias: Tensor | None = None, tail: Tail = NOTHING) -> Tensor:
    """drop(activation(A x + add + bias)) of x (m, F): (n, F), in the memory of `add`, which nothing else may need."""
    out: Tensor = _CsrAggregate.apply(matrix, tail, x, add, bias)
    return out


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
    """drop(activation(Σ attention × values + bias)) (n, H·D): x (m, H·D) is scored with the vectors (H, D) of sources and destinations.

    values: (m, H·D) what is weighed; None: x. Destination v is source v.
    """
    out: Tensor = _CsrAttend.apply(edges, how, tail, x, values, *vectors, bias)
    return out


class _CsrAggregate(torch.autograd.Function):
    """Needs of its forward pass only the output, and that only where an activation follows."""

    @staticmethod
    def forward(ctx: Any, matrix: Matrix, tail: Tail, x: Tensor, add: Tensor | None, bias: Tensor | None) -> Tensor:  # noqa: ANN401
        here = weighted(matrix, x.device)
        if ctx.needs_input_grad[2]:
            # Made now, once: in the backward pass the room that it takes for a moment would come on top of all activations.
            _ = here.turned
        out = finish_(here.times(x, add=add), bias, tail, matrix.edges.ids)
        ctx.matrix, ctx.tail, ctx.ids = here, tail, matrix.edges.ids
        if add is not None:
            ctx.mark_dirty(add)
        if tail.activation:
            ctx.save_for_backward(out)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401
        out = ctx.saved_tensors[0] if ctx.tail.activation else grad
        inner = finish_back(grad, out, ctx.tail, ctx.ids)
        x_grad = ctx.matrix.turned.times(inner) if ctx.needs_input_grad[2] else None
        return None, None, x_grad, inner if ctx.needs_input_grad[3] else None, inner.sum(0) if ctx.needs_input_grad[4] else None


class _CsrAttend(torch.autograd.Function):
    """Keeps (H, n) maxima and sums of the softmax, nothing by edge."""

    @staticmethod
    def forward(
        ctx: Any,  # noqa: ANN401
        edges: Edges,
        how: AttentionRows,
        tail: Tail,
        x: Tensor,
        values: Tensor | None,
        source: Tensor,
        destination: Tensor,
        bias: Tensor | None,
    ) -> Tensor:
        rows = x if values is None else values
        places = placed(edges, x.device)
        if any(ctx.needs_input_grad):
            _ = places.turned  # as in `_CsrAggregate`
        scores = scored(places, how, x, (source, destination), edges.offsets)
        out = x.new_empty((scores.places.rows, x.shape[1]))
        for first, last in scores.groups():
            weights = scores.powers(first, last)
            total = scores.by_row(weights)
            scores.total[first:last] = total.masked_fill_(total == 0.0, 1.0)
            scores.thin_(first, last, weights)
            for head in range(first, last):
                at = scores.columns(head, x.shape[1])
                summed = scores.places.times(weights[head - first], rows[:, at])
                torch.div(summed, scores.total[head].unsqueeze(1), out=out[:, at])
        finish_(out, bias, tail, edges.ids)
        ctx.scores, ctx.tail, ctx.ids = scores, tail, edges.ids
        ctx.save_for_backward(x, source, destination, out, *(() if values is None else (values,)))
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401
        x, source, destination, out, *apart = ctx.saved_tensors
        scores: Scored = ctx.scores
        inner = finish_back(grad, out, ctx.tail, ctx.ids)
        bias_grad = inner.sum(0) if ctx.needs_input_grad[7] else None
        rows_grad, left_grad, right_grad = _attend_back(scores, apart[0] if apart else x, inner)
        x_grad = torch.zeros_like(x) if apart else rows_grad
        vector_grads = _scores_back(scores, x, (source, destination), (left_grad, right_grad), x_grad)
        return None, None, None, x_grad, rows_grad if apart else None, *vector_grads, bias_grad


def _attend_back(scores: Scored, rows: Tensor, inner: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of what was weighed (m, H·D), and of left (H, m) and right (H, n), from that of the sums, `inner` (n, H·D)."""
    turned, order = scores.places.turned
    rows_grad, left_grad, right_grad = torch.empty_like(rows), torch.empty_like(scores.left), torch.empty_like(scores.right)
    for first, last in scores.groups():
        positive = torch.empty((last - first, len(order)), dtype=torch.bool, device=rows.device)
        weights = scores.powers(first, last, positive)
        scores.each_row_(weights, scores.total[first:last].reciprocal())
        products = scores.products(first, last, rows, inner)
        kept = weights.clone() if scores.how.drop.probability else weights
        scores.thin_(first, last, products, *((kept,) if kept is not weights else ()))
        for head in range(first, last):
            at = scores.columns(head, rows.shape[1])
            rows_grad[:, at] = turned.times(kept[head - first].index_select(0, order), inner[:, at])
        del kept
        given = scores.back(first, last, weights, products, positive)
        left_grad[first:last], right_grad[first:last] = scores.by_source(given), scores.by_row(given)
    return rows_grad, left_grad, right_grad


def _scores_back(
    scores: Scored, x: Tensor, vectors: tuple[Tensor, Tensor], grads: tuple[Tensor, Tensor], x_grad: Tensor
) -> tuple[Tensor, Tensor]:
    """Add to x_grad (m, H·D) in place what the scores' gradients (H, m) and (H, n) give; return the gradients of the vectors (H, D)."""
    gradients = []
    for vector, grad in zip(vectors, grads, strict=True):
        rows = grad.shape[1]
        by_head = []
        for head in range(len(vector)):
            at = scores.columns(head, x.shape[1])
            x_grad[:rows, at].addr_(grad[head], vector[head])
            by_head.append(grad[head] @ x[:rows, at])
        gradients.append(torch.stack(by_head))
    return gradients[0], gradients[1]
