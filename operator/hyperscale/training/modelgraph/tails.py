"""How the sums of a layer end: bias, activation, dropout; in place on rows that are fresh, on any device, in blocks of rows.

Dropout keeps no mask: the backward pass draws it again. On the processor a draw follows from the seed and the row's number
(`kernels.drop`), elsewhere from torch's generator, block after block.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional

from hyperscale.model.adjacency import Array
from hyperscale.training.modelgraph import kernels
from hyperscale.training.modelgraph.kernels import ELU, NOTHING, RELU, Drop, Tail

BLOCK_FLOATS: Final = 1 << 22
"""Numbers of a block: 16 MiB, which stays in a GPU's cache and is long enough to hide the launch of a kernel."""


def fits(*tensors: Tensor) -> bool:
    """Whether the compiled kernels can take these: float32 on the CPU."""
    return all(tensor.dtype == torch.float32 and tensor.device.type == "cpu" for tensor in tensors)


def blocks(rows: int, width: int) -> Iterator[tuple[int, int]]:
    """Bounds of blocks of rows of about BLOCK_FLOATS numbers each."""
    step = max(1, BLOCK_FLOATS // max(width, 1))
    for first in range(0, rows, step):
        yield first, min(first + step, rows)


def thin_(x: Tensor, how: Drop, ids: Array | None = None) -> Tensor:
    """Dropout of contiguous x (rows, F) in place. ids: (rows,) int64 what draws count each row as on the processor, None: its place."""
    if not how.probability:
        return x
    if fits(x):
        rows = x.detach().numpy()
        kernels.drop(rows, how, torch.get_num_threads(), ids, into=rows)
        return x
    draw = drawn(how, x)
    for first, last in blocks(*x.shape):
        x[first:last].mul_(draw(last - first, x.shape[1]))
    return x


def thinned(x: Tensor, how: Drop, ids: Array | None = None) -> Tensor:
    """Dropout of x (rows, F) in fresh memory; ids as in `thin_`."""
    if not how.probability:
        return x.clone(memory_format=torch.contiguous_format)
    if fits(x):
        given: Array = np.ascontiguousarray(x.detach().numpy())
        return torch.from_numpy(kernels.drop(given, how, torch.get_num_threads(), ids))
    out, draw = torch.empty_like(x, memory_format=torch.contiguous_format), drawn(how, x)
    for first, last in blocks(*x.shape):
        torch.mul(x[first:last], draw(last - first, x.shape[1]), out=out[first:last])
    return out


def drawn(how: Drop, like: Tensor) -> Callable[[int, int], Tensor]:
    """Return a function that gives the next (rows, F) factors of a dropout: 0, or 1 / (1 - p). The same seed gives the same ones."""
    generator = torch.Generator(device=like.device).manual_seed(how.seed)

    def draw(rows: int, width: int) -> Tensor:
        factors = torch.empty((rows, width), dtype=like.dtype, device=like.device)
        return factors.bernoulli_(1.0 - how.probability, generator=generator).mul_(how.grow)

    return draw


def finish_(x: Tensor, bias: Tensor | None, tail: Tail, ids: Array | None = None) -> Tensor:
    """drop(activation(x + bias)) in place."""
    if bias is not None:
        x.add_(bias)
    if tail.activation == RELU:
        x.relu_()
    elif tail.activation == ELU:
        functional.elu_(x)
    return thin_(x, tail.drop, ids)


def finish_back(grad: Tensor, out: Tensor, tail: Tail, ids: Array | None = None) -> Tensor:
    """Gradient of the sums (n, F) from that of `finish_`, whose result was `out`; `grad` itself where the tail does nothing."""
    if tail == NOTHING:
        return grad
    inner = thinned(grad, tail.drop, ids)
    for first, last in blocks(*inner.shape) if tail.activation else ():
        results, gradient = out[first:last], inner[first:last]
        if tail.activation == RELU:
            torch.ops.aten.threshold_backward.grad_input(gradient, results, 0.0, grad_input=gradient)  # one kernel, no mask
        else:
            # What was kept has grown; the gradient of what was dropped is 0 already.
            gradient.mul_(results.clamp(max=0.0).div_(tail.drop.grow).add_(1.0))
    return inner


def finish(x: Tensor, tail: Tail, ids: Array | None = None) -> Tensor:
    """drop(activation(x)) of x (n, F), in x's own memory: the caller's operation must not need its result in its backward pass."""
    if tail == NOTHING:
        return x
    out: Tensor = _Finish.apply(x, tail, ids)
    return out


def dropout(x: Tensor, how: Drop, ids: Array | None = None) -> Tensor:
    """Dropout of x (..., F), nothing kept in between; ids as in `thin_`."""
    if not how.probability:
        return x
    out: Tensor = _Dropout.apply(x, how, ids)
    return out


class _Finish(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, tail: Tail, ids: Array | None) -> Tensor:  # noqa: ANN401 - torch's own signature
        ctx.tail, ctx.ids = tail, ids
        finish_(x, None, tail, ids)
        ctx.mark_dirty(x)
        if tail.activation:
            ctx.save_for_backward(x)
        return x

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:  # noqa: ANN401 - torch's own signature
        out = ctx.saved_tensors[0] if ctx.tail.activation else grad
        return finish_back(grad, out, ctx.tail, ctx.ids), None, None


class _Dropout(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, how: Drop, ids: Array | None) -> Tensor:  # noqa: ANN401 - torch's own signature
        ctx.how, ctx.ids = how, ids
        return _thinned(x, how, ids)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:  # noqa: ANN401 - torch's own signature
        return _thinned(grad, ctx.how, ctx.ids), None, None


def _thinned(x: Tensor, how: Drop, ids: Array | None) -> Tensor:
    return thinned(x.detach().reshape(-1, x.shape[-1]), how, ids).view(x.shape)
