"""Batch normalisation over the vertices of all ranks' batches: the same statistics, weights and gradients as one process would have.

Ioffe and Szegedy, ICML 2015. One allreduce of 2 h + 1 numbers a layer forwards, one of 2 h backwards.
"""

from __future__ import annotations

import time
from typing import Any

import torch
from torch import nn

from hyperscale.modelgraph.kernels import Drop
from hyperscale.worker import molecules_ops
from hyperscale.worker.comm import Comm

Tensor = torch.Tensor
MOMENTUM = 0.1
EPSILON = 1e-5


class Sums:
    """Sums over ranks, and how long they took."""

    def __init__(self, comm: Comm) -> None:
        self.comm = comm
        self.wait_seconds = 0.0
        """Since it was last set to 0."""

    def now(self, x: Tensor, name: str) -> Tensor:
        """Of all ranks' x; collective."""
        if self.comm.size == 1:
            return x
        began = time.perf_counter()
        summed = self.comm.allreduce(x.contiguous(), name)
        self.wait_seconds += time.perf_counter() - began
        return summed


class _Normalised(torch.autograd.Function):
    """Dropout of ReLU of (x - mean) / deviation × weight + bias, mean and deviation over the rows of all ranks."""

    @staticmethod
    def forward(context: Any, x: Tensor, weight: Tensor, bias: Tensor, norm: SharedNorm, ids: Tensor, relu: bool, drop: Drop) -> Tensor:  # noqa: ANN401 - torch's own signature
        mean, variance, rows = norm.over_all(x)
        inverse = (variance + EPSILON).rsqrt()
        scale = weight * inverse
        shift = bias - mean * scale
        context.norm, context.relu, context.drop, context.rows = norm, relu, drop, rows
        context.save_for_backward(x, scale, shift, mean, inverse, ids)
        return molecules_ops.scaled(x, scale, shift, ids, drop, relu=relu)

    @staticmethod
    def backward(context: Any, grad: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401 - torch's own signature
        x, scale, shift, mean, inverse, ids = context.saved_tensors
        inner, own = molecules_ops.inner_gradient(grad, x, scale, shift, mean, ids, context.drop, relu=context.relu)
        whole = context.norm.sums.now(own, f"norm.{context.norm.name}.back") / context.rows
        second = (whole[1] * inverse * inverse).to(x.dtype)
        x_grad = molecules_ops.outer_gradient(inner, x, scale, mean, whole[0].to(x.dtype), second)
        # The weights' gradients are this rank's part: they are summed over ranks with those of all other weights.
        return x_grad, (own[1] * inverse).to(x.dtype), own[0].to(x.dtype), None, None, None, None


class SharedNorm(nn.Module):
    """(x - mean) / deviation × weight + bias over the rows of all ranks while training, over what was seen before otherwise."""

    mean: Tensor
    variance: Tensor

    def __init__(self, width: int, sums: Sums, name: str) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.bias = nn.Parameter(torch.zeros(width))
        self.register_buffer("mean", torch.zeros(width))
        self.register_buffer("variance", torch.ones(width))
        self.sums, self.name = sums, name

    def forward(self, x: Tensor, ids: Tensor, drop: Drop, *, relu: bool) -> Tensor:
        """(n, width) of x (n, width), with ReLU and dropout behind it; n may be 0 on some ranks. ids: (n,) of the rows, for dropout."""
        if self.training:
            result: Tensor = _Normalised.apply(x, self.weight, self.bias, self, ids, relu, drop)
            return result
        scale = self.weight * (self.variance + EPSILON).rsqrt()
        return molecules_ops.scaled(x, scale, self.bias - self.mean * scale, ids, Drop(), relu=relu)

    def over_all(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Mean and variance (width) of each column over all ranks, and the number of rows; collective. Kept for evaluation, too."""
        # In float64: a difference of large squares follows.
        own = torch.cat([molecules_ops.column_sums(x).flatten(), x.new_full((1,), float(len(x)), dtype=torch.float64)])
        total = self.sums.now(own, f"norm.{self.name}")
        rows = total[-1].clamp(min=1.0)
        mean = total[: x.shape[1]] / rows
        variance = (total[x.shape[1] : -1] / rows - mean * mean).clamp(min=0.0)
        unbiased = variance * (rows / (rows - 1.0).clamp(min=1.0))
        self.mean.lerp_(mean.to(self.mean.dtype), MOMENTUM)
        self.variance.lerp_(unbiased.to(self.variance.dtype), MOMENTUM)
        return mean.to(x.dtype), variance.to(x.dtype), rows
