"""Batch normalisation over the vertices of all ranks' batches: the same statistics, weights and gradients as one process would have.

Ioffe and Szegedy, ICML 2015. One allreduce of 2 h + 1 numbers a layer forwards, one of 2 h backwards; both to the bit (molecules_sums.h).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from hyperscale.training.engine.timing import Spans, Timer
from hyperscale.training.modelgraph.kernels import Drop
from hyperscale.training.molecules import molecules_ops
from hyperscale.training.molecules.molecules_batch import MoleculeBatch
from hyperscale.training.runtime.comm import Comm

Tensor = torch.Tensor
MOMENTUM = 0.1
EPSILON = 1e-5


class Sums:
    """Sums over ranks, and how long they took."""

    def __init__(self, comm: Comm, device: torch.device) -> None:
        self.comm = comm
        self.waits = Spans(Timer(device))

    def now(self, x: Tensor, name: str) -> Tensor:
        """Of all ranks' x; collective."""
        if self.comm.size == 1:
            return x
        return self.waits.timed(lambda: self.comm.allreduce(x.contiguous(), name))


class _Normalised(torch.autograd.Function):
    """Dropout of ReLU of (x - mean) / deviation × weight + bias, mean and deviation over the rows of all ranks."""

    @staticmethod
    def forward(
        context: Any,  # noqa: ANN401 - torch's own signature
        x: Tensor,
        weight: Tensor,
        bias: Tensor,
        norm: SharedNorm,
        batch: MoleculeBatch,
        relu: bool,
        drop: Drop,
    ) -> Tensor:
        mean, variance, count = norm.over_all(x, batch.offsets)
        inverse = (variance + EPSILON).rsqrt()
        scale = weight * inverse
        shift = (bias - mean * scale).to(x.dtype)
        context.norm, context.relu, context.drop, context.count, context.batch = norm, relu, drop, count, batch
        context.save_for_backward(x, scale.to(x.dtype), shift, mean.to(x.dtype), inverse)
        return molecules_ops.scaled(x, scale.to(x.dtype), shift, batch.ids, drop, relu=relu)

    @staticmethod
    def backward(context: Any, grad: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401 - torch's own signature
        x, scale, shift, mean, inverse = context.saved_tensors
        sums, drop, batch = context.norm.sums, context.drop, context.batch
        inner, own = molecules_ops.inner_gradient(grad, x, scale, shift, mean, batch.ids, batch.offsets, drop, relu=context.relu)
        whole = sums.now(own, f"norm.{context.norm.name}.back")
        first, second = (whole[0] / context.count).to(x.dtype), (whole[1] / context.count * inverse * inverse).to(x.dtype)
        x_grad = molecules_ops.outer_gradient(inner, x, scale, mean, first, second)
        # All gradients are summed over ranks; of the weights' every rank has the sum already, and a product of a part would be rounded.
        weight_grad, bias_grad = whole[1] * inverse, whole[0]
        if sums.comm.rank:
            weight_grad, bias_grad = torch.zeros_like(weight_grad), torch.zeros_like(bias_grad)
        return x_grad, weight_grad, bias_grad, None, None, None, None


class SharedNorm(nn.Module):
    """(x - mean) / deviation × weight + bias over the rows of all ranks while training, over what was seen before otherwise."""

    mean: Tensor
    variance: Tensor

    def __init__(self, width: int, sums: Sums, name: str) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width, dtype=torch.float64))
        self.bias = nn.Parameter(torch.zeros(width, dtype=torch.float64))
        self.register_buffer("mean", torch.zeros(width, dtype=torch.float64))
        self.register_buffer("variance", torch.ones(width, dtype=torch.float64))
        self.sums, self.name = sums, name

    def forward(self, x: Tensor, batch: MoleculeBatch, drop: Drop, *, relu: bool) -> Tensor:
        """(n, width) of x (n, width), with ReLU and dropout behind it; n may be 0 on some ranks."""
        if self.training:
            result: Tensor = _Normalised.apply(x, self.weight, self.bias, self, batch, relu, drop)
            return result
        scale = self.weight * (self.variance + EPSILON).rsqrt()
        shift = (self.bias - self.mean * scale).to(x.dtype)
        return molecules_ops.scaled(x, scale.to(x.dtype), shift, batch.ids, Drop(), relu=relu)

    def over_all(self, x: Tensor, offsets: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Mean and variance (width) of each column over all ranks, and the number of rows; float64, collective. Kept for evaluation."""
        # In float64: a difference of large squares follows.
        own = torch.cat([molecules_ops.column_sums(x, offsets).flatten(), x.new_full((1,), float(len(x)), dtype=torch.float64)])
        total = self.sums.now(own, f"norm.{self.name}")
        rows = total[-1].clamp(min=1.0)
        mean = total[: x.shape[1]] / rows
        variance = (total[x.shape[1] : -1] / rows - mean * mean).clamp(min=0.0)
        unbiased = variance * (rows / (rows - 1.0).clamp(min=1.0))
        self.mean.lerp_(mean, MOMENTUM)
        self.variance.lerp_(unbiased, MOMENTUM)
        return mean, variance, rows
