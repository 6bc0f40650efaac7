"""Operations of a graph-level model's layers on a batch, each one compiled pass, or torch's own operations without the compiled module.

Both ways give the same figures up to rounding and the same dropout to the bit: a draw follows from the seed, the vertex's id in the whole
data set and the column, so that it is the same on whichever rank a graph lies. What the compiled passes give for a graph, and what they
add up over graphs, does not depend on the graphs beside it (molecules_sums.h): parameters and their gradients are float64 for it, rows are
float32.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from hyperscale.training.modelgraph.kernels import Drop
from hyperscale.training.molecules.molecules_batch import MoleculeBatch
from hyperscale.util.splitmix import FIRST, GOLDEN, SECOND

try:
    from hyperscale.training.molecules import _molecules
except ImportError:  # no C compiler where the package was built
    _molecules = None  # type: ignore[assignment]

Tensor = torch.Tensor
COMPILED = _molecules is not None
_MASK_32 = 0xFFFFFFFF


def fits(*tensors: Tensor) -> bool:
    """Whether the compiled passes take these: float32 on a processor."""
    return COMPILED and all(tensor.dtype == torch.float32 and tensor.device.type == "cpu" for tensor in tensors)


def gather(x: Tensor, table: Tensor, weights: Tensor, batch: MoleculeBatch, *, relu: bool) -> Tensor:
    """(n, F) sums over each vertex's edges of weights × (x of the source + table of the edge's kind), through ReLU where asked for.

    x (n, F), table (kinds, F) float64, weights (e, H): head h weighs the h-th part of the columns.
    """
    if x.shape[0] != len(batch.indptr) - 1 or x.shape[1] % weights.shape[1] or weights.shape[0] != len(batch.sources):
        raise ValueError(f"{tuple(x.shape)} rows and {tuple(weights.shape)} weights do not fit {len(batch.sources)} edges")
    if fits(x, weights):
        summed: Tensor = _Gather.apply(x, table, weights, batch, relu)
        return summed
    messages = x[batch.sources.long()] + table.to(x.dtype)[batch.kinds.long()]
    shape = (len(batch.sources), weights.shape[1], x.shape[1] // weights.shape[1])
    messages = (messages.relu() if relu else messages).view(shape) * weights.unsqueeze(2)
    return torch.zeros_like(x).index_add(0, batch.destinations, messages.flatten(1))


def attention(ends: Tensor, table: Tensor, left: Tensor, slope: float, batch: MoleculeBatch) -> Tensor:
    """(e, H) softmax over the edges of each vertex of LeakyReLU(a_u + <t_k, l> + c_v), the product by head.

    ends (n, 2 H): a and c of each vertex, which it adds to the edges from it and to it; table (kinds, F) t and left (H, F / H) l, float64.
    """
    heads = left.shape[0]
    if ends.shape != (len(batch.indptr) - 1, 2 * heads) or table.shape[1] != left.numel():
        raise ValueError(f"{tuple(ends.shape)} scores do not fit {len(batch.indptr) - 1} vertices and {heads} heads")
    if fits(ends):
        parts: Tensor = _Attention.apply(ends, table, left, slope, batch)
        return parts
    of_kind = (table.to(ends.dtype).view(-1, *left.shape) * left.to(ends.dtype)).sum(2)
    scores = ends[batch.sources.long(), :heads] + of_kind[batch.kinds.long()] + ends[batch.destinations, heads:]
    scores = torch.nn.functional.leaky_relu(scores, slope)
    index = batch.destinations.unsqueeze(1).expand_as(scores)
    lowest = scores.new_full((len(ends), heads), -torch.inf)
    # The largest score of a vertex is a constant to the softmax: without it exponentials stay small.
    raised = (scores - lowest.scatter_reduce(0, index, scores.detach(), "amax")[batch.destinations]).exp()
    return raised / torch.zeros_like(lowest).index_add(0, batch.destinations, raised)[batch.destinations]


def column_sums(x: Tensor, offsets: Tensor) -> Tensor:
    """(2, F) float64: Σ x and Σ x² of each column. offsets (g + 1): the first row of each graph."""
    if not fits(x):
        wide = x.double()
        return torch.stack([wide.sum(0), (wide * wide).sum(0)])
    sums, out = room((2, x.shape[1]), zero=True, wide=True)
    _molecules.sums(offsets.numpy(), flat(x), x.shape[1], out)
    return sums


def scaled(x: Tensor, scale: Tensor, shift: Tensor, ids: Tensor, drop: Drop, *, relu: bool) -> Tensor:
    """Dropout of ReLU (where asked for) of x (n, F) × scale (F) + shift (F); without gradient."""
    if not fits(x):
        y = torch.addcmul(shift, x, scale)
        return kept(ids, x.shape[1], drop) * (y.relu() if relu else y)
    y, out = room(x.shape)
    _molecules.norm(flat(x), x.shape[1], flat(scale), flat(shift), relu, ids.numpy(), *drop.figures, out)
    return y


def kept(ids: Tensor, width: int, drop: Drop) -> Tensor:
    """(n, width) factors of the dropout of rows `ids`: 0, or 1 / (1 - p)."""
    at = torch.arange(width, device=ids.device, dtype=torch.int64)
    key = _key(drop.seed, ids).unsqueeze(1)
    z = (key + at * 0x9E3779B9) & _MASK_32
    z = ((z ^ (z >> 16)) * 0x7FEB352D) & _MASK_32
    z = ((z ^ (z >> 15)) * 0x846CA68B) & _MASK_32
    return (z ^ (z >> 16)).ge(drop.least).float() * drop.grow


def _key(seed: int, ids: Tensor) -> Tensor:
    """(n,) upper 32 bits of `splitmix.mixed_words`, on the tensor's device: torch has no uint64 arithmetic, int64 wraps alike."""

    def mixed(z: Tensor, shift: int) -> Tensor:
        return z ^ ((z >> shift) & ((1 << (64 - shift)) - 1))

    z = (ids + 1) * _signed(GOLDEN) + _signed(seed)
    z = mixed(z, 30) * _signed(FIRST)
    z = mixed(z, 27) * _signed(SECOND)
    return (mixed(z, 31) >> 32) & _MASK_32


def _signed(value: int) -> int:
    return value - 2**64 if value >= 2**63 else value


def flat(x: Tensor) -> Any:  # noqa: ANN401 - a numpy array of torch's choice
    """All figures in a row, to read."""
    return x.detach().contiguous().view(-1).numpy()


def room(shape: Sequence[int], *, zero: bool = False, wide: bool = False) -> tuple[Tensor, Any]:
    """A new tensor, float64 where wide, and its numbers in a row to write to; zeros where it is added to."""
    rows = (torch.zeros if zero else torch.empty)(shape, dtype=torch.float64 if wide else torch.float32)
    return rows, rows.view(-1).numpy()


class _Gather(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, x: Tensor, table: Tensor, weights: Tensor, batch: MoleculeBatch, relu: bool) -> Tensor:  # noqa: ANN401 - torch's own signature
        context.batch, context.relu, context.kept = batch, relu, table.dtype
        table, heads = table.float(), weights.shape[1]
        context.save_for_backward(x, table, weights)
        out, sums = room(x.shape)
        _molecules.gather(*_edges(batch), flat(weights), flat(x), flat(table), heads, x.shape[1] // heads, relu, sums)
        return out

    @staticmethod
    def backward(context: Any, grad: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401 - torch's own signature
        x, table, weights = context.saved_tensors
        heads = weights.shape[1]
        (x_grad, to_x), (table_grad, to_table) = room(x.shape, zero=True), room(table.shape, zero=True, wide=True)
        weights_grad, to_weights = room(weights.shape) if context.needs_input_grad[2] else (None, None)
        _molecules.gather_back(
            context.batch.offsets.numpy(), *_edges(context.batch), flat(weights), flat(x), flat(table), flat(grad), heads,
            x.shape[1] // heads, context.relu, to_x, to_table, to_weights,
        )  # fmt: skip
        return x_grad, table_grad.to(context.kept), weights_grad, None, None


def _edges(batch: MoleculeBatch) -> tuple[Any, Any, Any]:
    return batch.indptr.numpy(), batch.sources.numpy(), batch.kinds.numpy()


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, ends: Tensor, table: Tensor, left: Tensor, slope: float, batch: MoleculeBatch) -> Tensor:  # noqa: ANN401 - torch's own signature
        context.batch, context.slope, context.kept = batch, slope, table.dtype
        table, left = table.float(), left.float()
        heads, depth = left.shape
        (of_kind, scores), (parts, out) = room((len(table), heads)), room((len(batch.sources), heads))
        _molecules.scores(flat(table), flat(left), heads, depth, scores)
        _molecules.attend(*_edges(batch), flat(ends), scores, heads, slope, out)
        context.save_for_backward(ends, of_kind, parts, table, left)
        return parts

    @staticmethod
    def backward(context: Any, grad: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401 - torch's own signature
        ends, of_kind, parts, table, left = context.saved_tensors
        heads, depth = left.shape
        ends_grad, to_ends = room(ends.shape, zero=True)
        (table_grad, to_table), (left_grad, to_left) = (room(tensor.shape, zero=True, wide=True) for tensor in (table, left))
        _molecules.attend_back(
            context.batch.offsets.numpy(), *_edges(context.batch), flat(ends), flat(of_kind), flat(parts), flat(grad), flat(table),
            flat(left), heads, depth, context.slope, to_ends, to_table, to_left,
        )  # fmt: skip
        return ends_grad, table_grad.to(context.kept), left_grad.to(context.kept), None, None


def inner_gradient(
    grad: Tensor, x: Tensor, scale: Tensor, shift: Tensor, mean: Tensor, ids: Tensor, offsets: Tensor, drop: Drop, *, relu: bool
) -> tuple[Tensor, Tensor]:
    """Of `scaled`: the gradient (n, F) of x × scale + shift, and (2, F) float64 the column sums of gradient and gradient × (x - mean)."""
    if not fits(grad, x):
        inner = grad * kept(ids, x.shape[1], drop)
        if relu:
            inner = inner * (torch.addcmul(shift, x, scale) > 0)
        return inner, torch.stack([inner.sum(0, dtype=torch.float64), (inner * (x - mean)).sum(0, dtype=torch.float64)])
    (inner, to_inner), (sums, to_sums) = room(x.shape), room((2, x.shape[1]), zero=True, wide=True)
    _molecules.norm_inner(
        offsets.numpy(), flat(grad), flat(x), x.shape[1], flat(scale), flat(shift), flat(mean), relu, ids.numpy(), *drop.figures, to_inner,
        to_sums,
    )  # fmt: skip
    return inner, sums


def outer_gradient(inner: Tensor, x: Tensor, scale: Tensor, mean: Tensor, first: Tensor, second: Tensor) -> Tensor:
    """The gradient of x: scale × (inner - first - (x - mean) × second), in the place of inner; the last four are (F)."""
    if not fits(inner, x):
        return scale * (inner - first - (x - mean) * second)
    _molecules.norm_outer(inner.view(-1).numpy(), flat(x), x.shape[1], flat(scale), flat(mean), flat(first), flat(second))
    return inner
