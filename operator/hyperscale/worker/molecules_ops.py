"""What the layers of a graph-level model do to a batch, in one compiled pass each; torch's own operations where these are not to be had.

Both ways give the same figures up to rounding and the same dropout to the bit: a draw follows from the seed, the vertex's id in the whole
data set and the column, so that it is the same on whichever rank a graph lies.
"""

from __future__ import annotations

from typing import Any

import torch

from hyperscale.modelgraph.kernels import Drop
from hyperscale.worker.molecules_batch import Batch

try:
    from hyperscale.worker import _molecules
except ImportError:  # no C compiler where the package was built
    _molecules = None  # type: ignore[assignment]

Tensor = torch.Tensor
COMPILED = _molecules is not None
_MASK_32 = 0xFFFFFFFF


def fits(*tensors: Tensor) -> bool:
    """Whether the compiled passes take these: float32 on a processor."""
    return COMPILED and all(tensor.dtype == torch.float32 and tensor.device.type == "cpu" for tensor in tensors)


def gather(x: Tensor, table: Tensor, weights: Tensor, batch: Batch, *, relu: bool) -> Tensor:
    """(n, F) sums over each vertex's edges of weights × (x of the source + table of the edge's kind), through ReLU where asked for.

    x (n, F), table (kinds, F), weights (e, H): head h weighs the h-th part of the columns.
    """
    if x.shape[0] != len(batch.indptr) - 1 or x.shape[1] % weights.shape[1] or weights.shape[0] != len(batch.sources):
        raise ValueError(f"{tuple(x.shape)} rows and {tuple(weights.shape)} weights do not fit {len(batch.sources)} edges")
    if fits(x, table, weights):
        summed: Tensor = _Gather.apply(x, table, weights, batch, relu)
        return summed
    messages = x[batch.sources.long()] + table[batch.kinds.long()]
    shape = (len(batch.sources), weights.shape[1], x.shape[1] // weights.shape[1])
    messages = (messages.relu() if relu else messages).view(shape) * weights.unsqueeze(2)
    return torch.zeros_like(x).index_add(0, batch.destinations, messages.flatten(1))


def attention(ends: Tensor, of_kind: Tensor, slope: float, batch: Batch) -> Tensor:
    """(e, H) softmax over the edges of each vertex of LeakyReLU(a_u + b_k + c_v).

    ends (n, 2 H): a and c of each vertex, which it adds to the edges from it and to it; of_kind (kinds, H): b.
    """
    heads = of_kind.shape[1]
    if ends.shape != (len(batch.indptr) - 1, 2 * heads):
        raise ValueError(f"{tuple(ends.shape)} scores do not fit {len(batch.indptr) - 1} vertices and {heads} heads")
    if fits(ends, of_kind):
        parts: Tensor = _Attention.apply(ends, of_kind, slope, batch)
        return parts
    scores = ends[batch.sources.long(), :heads] + of_kind[batch.kinds.long()] + ends[batch.destinations, heads:]
    scores = torch.nn.functional.leaky_relu(scores, slope)
    index = batch.destinations.unsqueeze(1).expand_as(scores)
    lowest = scores.new_full((len(ends), heads), -torch.inf)
    # The largest score of a vertex is a constant to the softmax: without it exponentials stay small.
    raised = (scores - lowest.scatter_reduce(0, index, scores.detach(), "amax")[batch.destinations]).exp()
    return raised / torch.zeros_like(lowest).index_add(0, batch.destinations, raised)[batch.destinations]


def column_sums(x: Tensor) -> Tensor:
    """(2, F) float64: Σ x and Σ x² of each column."""
    if not fits(x):
        return torch.stack([x.sum(0, dtype=torch.float64), (x * x).sum(0, dtype=torch.float64)])
    out = torch.zeros((2, x.shape[1]), dtype=torch.float64)
    _molecules.sums(_flat(x), x.shape[1], out.view(-1).numpy())
    return out


def scaled(x: Tensor, scale: Tensor, shift: Tensor, ids: Tensor, drop: Drop, *, relu: bool) -> Tensor:
    """Dropout of ReLU (where asked for) of x (n, F) × scale (F) + shift (F); without gradient."""
    if not fits(x):
        y = torch.addcmul(shift, x, scale)
        return kept(ids, x.shape[1], drop) * (y.relu() if relu else y)
    out = torch.empty_like(x)
    _molecules.norm(_flat(x), x.shape[1], _flat(scale), _flat(shift), relu, ids.numpy(), *drop.figures, out.view(-1).numpy())
    return out


def kept(ids: Tensor, width: int, drop: Drop) -> Tensor:
    """(n, width) factors of the dropout of rows `ids`: 0, or 1 / (1 - p)."""
    at = torch.arange(width, device=ids.device, dtype=torch.int64)
    key = _key(drop.seed, ids).unsqueeze(1)
    z = (key + at * 0x9E3779B9) & _MASK_32
    z = ((z ^ (z >> 16)) * 0x7FEB352D) & _MASK_32
    z = ((z ^ (z >> 15)) * 0x846CA68B) & _MASK_32
    return (z ^ (z >> 16)).ge(drop.least).float() * drop.grow


def _key(seed: int, ids: Tensor) -> Tensor:
    """(n,) 32 bits of SplitMix64; int64 wraps as the C code's uint64 does."""

    def mixed(z: Tensor, shift: int) -> Tensor:
        return z ^ ((z >> shift) & ((1 << (64 - shift)) - 1))

    z = (ids + 1) * _signed(0x9E3779B97F4A7C15) + _signed(seed)
    z = mixed(z, 30) * _signed(0xBF58476D1CE4E5B9)
    z = mixed(z, 27) * _signed(0x94D049BB133111EB)
    return (mixed(z, 31) >> 32) & _MASK_32


def _signed(value: int) -> int:
    return value - 2**64 if value >= 2**63 else value


def _flat(x: Tensor) -> Any:  # noqa: ANN401 - a numpy array of torch's choice
    return x.detach().contiguous().view(-1).numpy()


class _Gather(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, x: Tensor, table: Tensor, weights: Tensor, batch: Batch, relu: bool) -> Tensor:  # noqa: ANN401 - torch's own signature
        context.batch, context.relu = batch, relu
        context.save_for_backward(x, table, weights)
        out = torch.empty_like(x)
        heads = weights.shape[1]
        _molecules.gather(*_edges(batch), _flat(weights), _flat(x), _flat(table), heads, x.shape[1] // heads, relu, out.view(-1).numpy())
        return out

    @staticmethod
    def backward(context: Any, grad: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401 - torch's own signature
        x, table, weights = context.saved_tensors
        heads = weights.shape[1]
        x_grad, table_grad = torch.zeros_like(x), torch.zeros_like(table, dtype=torch.float64)
        weights_grad = torch.empty_like(weights) if context.needs_input_grad[2] else None
        _molecules.gather_back(
            *_edges(context.batch), _flat(weights), _flat(x), _flat(table), _flat(grad), heads, x.shape[1] // heads, context.relu,
            x_grad.view(-1).numpy(), table_grad.view(-1).numpy(), weights_grad.view(-1).numpy() if weights_grad is not None else None,
        )  # fmt: skip
        return x_grad, table_grad.to(table.dtype), weights_grad, None, None


def _edges(batch: Batch) -> tuple[Any, Any, Any]:
    return batch.indptr.numpy(), batch.sources.numpy(), batch.kinds.numpy()


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, ends: Tensor, of_kind: Tensor, slope: float, batch: Batch) -> Tensor:  # noqa: ANN401 - torch's own signature
        parts = ends.new_empty((len(batch.sources), of_kind.shape[1]))
        _molecules.attend(*_edges(batch), _flat(ends), _flat(of_kind), of_kind.shape[1], slope, parts.view(-1).numpy())
        context.batch, context.slope = batch, slope
        context.save_for_backward(ends, of_kind, parts)
        return parts

    @staticmethod
    def backward(context: Any, grad: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401 - torch's own signature
        ends, of_kind, parts = context.saved_tensors
        ends_grad, kind_grad = torch.zeros_like(ends), torch.zeros_like(of_kind, dtype=torch.float64)
        _molecules.attend_back(
            *_edges(context.batch), _flat(ends), _flat(of_kind), _flat(parts), _flat(grad), of_kind.shape[1], context.slope,
            ends_grad.view(-1).numpy(), kind_grad.view(-1).numpy(),
        )  # fmt: skip
        return ends_grad, kind_grad.to(of_kind.dtype), None, None


def inner_gradient(
    grad: Tensor, x: Tensor, scale: Tensor, shift: Tensor, mean: Tensor, ids: Tensor, drop: Drop, *, relu: bool
) -> tuple[Tensor, Tensor]:
    """Of `scaled`: the gradient (n, F) of x × scale + shift, and (2, F) float64 the column sums of it and of it × (x - mean)."""
    if not fits(grad, x):
        inner = grad * kept(ids, x.shape[1], drop)
        if relu:
            inner = inner * (torch.addcmul(shift, x, scale) > 0)
        return inner, torch.stack([inner.sum(0, dtype=torch.float64), (inner * (x - mean)).sum(0, dtype=torch.float64)])
    inner, sums = torch.empty_like(x), torch.zeros((2, x.shape[1]), dtype=torch.float64)
    _molecules.norm_inner(
        _flat(grad), _flat(x), x.shape[1], _flat(scale), _flat(shift), _flat(mean), relu, ids.numpy(), *drop.figures,
        inner.view(-1).numpy(), sums.view(-1).numpy(),
    )  # fmt: skip
    return inner, sums


def outer_gradient(inner: Tensor, x: Tensor, scale: Tensor, mean: Tensor, first: Tensor, second: Tensor) -> Tensor:
    """The gradient of x: scale × (inner - first - (x - mean) × second), in the place of inner; the last four are (F)."""
    if not fits(inner, x):
        return scale * (inner - first - (x - mean) * second)
    _molecules.norm_outer(inner.view(-1).numpy(), _flat(x), x.shape[1], _flat(scale), _flat(mean), _flat(first), _flat(second))
    return inner
