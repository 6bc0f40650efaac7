"""Batch normalisation over the vertices of all ranks' batches: the same statistics, weights and gradients as one process would have.

Ioffe and Szegedy, ICML 2015. One allreduce of 2 h + 1 numbers a layer forwards, one backwards.
"""

from __future__ import annotations

import time
from typing import Any

import torch
from torch import nn

from hyperscale.worker.comm import Comm

Tensor = torch.Tensor
MOMENTUM = 0.1
EPSILON = 1e-5


class Sums:
    """Sums over ranks that gradients pass through, and how long they took."""

    def __init__(self, comm: Comm) -> None:
        self.comm = comm
        self.wait_seconds = 0.0
        """Since it was last set to 0."""

    def over_ranks(self, x: Tensor, name: str) -> Tensor:
        """The sum of all ranks' x; its gradient is the sum of all ranks' gradients. Collective."""
        if self.comm.size == 1:
            return x
        summed: Tensor = _Sum.apply(x, self, name)
        return summed

    def now(self, x: Tensor, name: str) -> Tensor:
        """Without gradient."""
        began = time.perf_counter()
        summed = self.comm.allreduce(x.contiguous(), name)
        self.wait_seconds += time.perf_counter() - began
        return summed


class _Sum(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, x: Tensor, sums: Sums, name: str) -> Tensor:  # noqa: ANN401 - torch's own signature
        context.sums, context.name = sums, name
        return sums.now(x, name)

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor, None, None]:  # noqa: ANN401 - torch's own signature
        return context.sums.now(gradient, f"{context.name}.back"), None, None


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
        self._sums, self._name = sums, name

    def forward(self, x: Tensor) -> Tensor:
        """(n, width) of x (n, width); n may be 0 on some ranks."""
        mean, variance = self._over_all(x) if self.training else (self.mean, self.variance)
        scale = self.weight * (variance + EPSILON).rsqrt()
        return torch.addcmul(self.bias - mean * scale, x, scale)

    def _over_all(self, x: Tensor) -> tuple[Tensor, Tensor]:
        # In float64: a difference of large squares follows.
        count = x.new_full((1,), float(len(x)), dtype=torch.float64)
        own = torch.cat([x.sum(0, dtype=torch.float64), (x * x).sum(0, dtype=torch.float64), count])
        total = self._sums.over_ranks(own, f"norm.{self._name}")
        rows = total[-1].detach().clamp(min=1.0)
        mean = total[: x.shape[1]] / rows
        variance = (total[x.shape[1] : -1] / rows - mean * mean).clamp(min=0.0)
        with torch.no_grad():
            unbiased = variance * (rows / (rows - 1.0).clamp(min=1.0))
            self.mean.lerp_(mean.to(self.mean.dtype), MOMENTUM)
            self.variance.lerp_(unbiased.to(self.variance.dtype), MOMENTUM)
        return mean.to(x.dtype), variance.to(x.dtype)
