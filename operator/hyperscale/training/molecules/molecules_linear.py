"""Products, embeddings, means and losses whose figures are the same to the bit however graphs are dealt to ranks, where they are compiled.

Parameters and their gradients are float64, rows float32, see molecules_sums.h. On other devices, and without a C compiler, torch's own
operations answer: the same up to rounding.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional

from hyperscale.training.engine.trainer import summed_loss
from hyperscale.training.molecules.molecules_ops import fits, flat, room

try:
    from hyperscale.training.molecules import _molecules
except ImportError:  # no C compiler where the package was built; nothing `fits` then
    _molecules = None  # type: ignore[assignment]

Tensor = torch.Tensor


def linear(x: Tensor, weight: Tensor, bias: Tensor | None, offsets: Tensor) -> Tensor:
    """(n, o) of x (n, i), weight (o, i) and bias (o). offsets (g + 1): the first row of each graph."""
    if fits(x):
        product: Tensor = _Linear.apply(x, weight, bias, offsets)
        return product
    return functional.linear(x, weight.to(x.dtype), None if bias is None else bias.to(x.dtype))


def lookup(table: Tensor, kind_of: Tensor) -> Tensor:
    """(n, F) float32: row kind_of[v] of the table (kinds, F) for each v."""
    if fits() and table.device.type == "cpu":
        rows: Tensor = _Lookup.apply(table, kind_of)
        return rows
    return functional.embedding(kind_of, table.float())  # twice as fast as indexing, backwards too


def pool(x: Tensor, graph_of: Tensor, offsets: Tensor) -> Tensor:
    """(g, F) the sum of each graph's rows."""
    if fits(x):
        pooled: Tensor = _Pool.apply(x, graph_of, offsets)
        return pooled
    return x.new_zeros((len(offsets) - 1, x.shape[1])).index_add(0, graph_of, x)


def loss(logits: Tensor, labels: Tensor, weight: float) -> Tensor:
    """`trainer.summed_loss`, over weight; float64 where compiled."""
    if fits(logits):
        summed: Tensor = _Loss.apply(logits, labels, weight)
        return summed
    return summed_loss(logits, labels) / weight


class Linear(nn.Module):
    """As torch's, in float64, for rows of graphs."""

    def __init__(self, inputs: int, outputs: int, *, bias: bool = True) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty((outputs, inputs), dtype=torch.float64))
        self.bias = nn.Parameter(torch.zeros(outputs, dtype=torch.float64)) if bias else None

    def forward(self, x: Tensor, offsets: Tensor) -> Tensor:
        """(n, outputs)."""
        return linear(x, self.weight, self.bias, offsets)


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, x: Tensor, weight: Tensor, bias: Tensor | None, offsets: Tensor) -> Tensor:  # noqa: ANN401 - torch's own signature
        weight = weight.float()
        context.biased, context.offsets = bias is not None, offsets
        context.save_for_backward(x, weight)
        product, out = room((len(x), len(weight)))
        _molecules.linear(flat(x), flat(weight.t()), None if bias is None else flat(bias.float()), x.shape[1], len(weight), out)
        return product

    @staticmethod
    def backward(context: Any, grad: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401 - torch's own signature
        x, weight = context.saved_tensors
        outputs, inputs = weight.shape
        x_grad, to_x = room(x.shape) if context.needs_input_grad[0] else (None, None)
        if to_x is not None:
            _molecules.linear(flat(grad), flat(weight), None, outputs, inputs, to_x)
        weight_grad, to_weight = room((inputs, outputs), zero=True, wide=True)
        bias_grad, to_bias = room((outputs,), zero=True, wide=True) if context.biased else (None, None)
        _molecules.weights_back(context.offsets.numpy(), flat(x), flat(grad), inputs, outputs, to_weight, to_bias)
        return x_grad, weight_grad.t(), bias_grad, None


class _Lookup(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, table: Tensor, kind_of: Tensor) -> Tensor:  # noqa: ANN401 - torch's own signature
        context.shape = table.shape
        context.save_for_backward(kind_of)
        return functional.embedding(kind_of, table.float())

    @staticmethod
    def backward(context: Any, grad: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401 - torch's own signature
        (kind_of,) = context.saved_tensors
        table_grad, out = room(context.shape, zero=True, wide=True)
        _molecules.lookup_back(kind_of.numpy(), flat(grad), context.shape[1], out)
        return table_grad, None


class _Pool(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, x: Tensor, graph_of: Tensor, offsets: Tensor) -> Tensor:  # noqa: ANN401 - torch's own signature
        context.save_for_backward(graph_of)
        pooled, out = room((len(offsets) - 1, x.shape[1]))
        _molecules.pool(offsets.numpy(), flat(x), x.shape[1], out)
        return pooled

    @staticmethod
    def backward(context: Any, grad: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401 - torch's own signature
        (graph_of,) = context.saved_tensors
        return functional.embedding(graph_of, grad.contiguous()), None, None


class _Loss(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, logits: Tensor, labels: Tensor, weight: float) -> Tensor:  # noqa: ANN401 - torch's own signature
        grad, out = room(logits.shape)
        if labels.dim() == 1:
            summed = _molecules.class_loss(flat(logits), labels.numpy(), logits.shape[1], weight, out)
        else:
            summed = _molecules.binary_loss(flat(logits), flat(labels), weight, out)
        context.save_for_backward(grad)
        return torch.tensor(summed / weight, dtype=torch.float64)

    @staticmethod
    def backward(context: Any, grad: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401 - torch's own signature
        (of_logits,) = context.saved_tensors
        return of_logits * grad.to(of_logits.dtype), None, None
