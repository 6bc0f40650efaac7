"""The compiled row kernels: shapes are checked here, rows are shared out to threads. Dropout has a numpy twin where nothing was compiled.

Arrays are float32 and C-contiguous, (rows, floats) flattened where a kernel reads them. The same input gives the same bytes for the same
number of threads; `aggregate` and `drop` for any number.
"""

from __future__ import annotations

import warnings
from typing import Final, NamedTuple

import numpy as np

from hyperscale.model.adjacency import Array
from hyperscale.training.modelgraph import kernels_numpy as twin
from hyperscale.training.modelgraph.edges import Edges, Matrix
from hyperscale.training.modelgraph.row_threads import BLOCK_ROWS, LEAST_FLOATS, even, shares, spread

try:
    from hyperscale.training.modelgraph import _sparse

    COMPILED: Final = True
except ImportError:  # pragma: no cover - a machine without a compiler
    COMPILED = False  # type: ignore[misc] # one of the two
    warnings.warn("hyperscale.training.modelgraph._sparse is not compiled: layers run unfused, slower", RuntimeWarning, stacklevel=1)

LANES: Final = 16
"""Floats of the widest vector: rows of a multiple are summed up without visiting a float twice."""
NONE: Final = 0
RELU: Final = 1
ELU: Final = 2


class Drop(NamedTuple):
    """A dropout: its probability, 0 to below 1, and the seed that with a row's number decides what is dropped. 0: none."""

    probability: float = 0.0
    seed: int = 0

    @property
    def least(self) -> int:
        """Draws below it, of 2^32, are dropped."""
        return int(self.probability * 2**32)

    @property
    def grow(self) -> float:
        """What is kept is multiplied by it."""
        return 1.0 / (1.0 - self.probability)

    @property
    def figures(self) -> tuple[int, int, float]:
        """As the kernels take it: seed, least, grow."""
        return self.seed, self.least, self.grow


class Tail(NamedTuple):
    """What happens to a row's sums before they are written: activation, then dropout."""

    activation: int = NONE
    drop: Drop = Drop()


NOTHING: Final = Tail()


class AttentionRows(NamedTuple):
    """Heads, leaky ReLU and dropout of an attention layer."""

    heads: int
    slope: float
    drop: Drop = Drop()


def drop(x: Array, how: Drop, threads: int = 1, ids: Array | None = None, *, into: Array | None = None) -> Array:
    """Dropout of (rows, F); ids: (rows,) int64 what draws count each row as, None: its place. into: where to write, x itself if wanted."""
    _check_ids(ids, len(x))
    if into is not None:
        _same_shape(x, into)
    if not COMPILED:
        result = twin.dropped(x, *how.figures, ids)
        if into is not None:
            into[:] = result
        return result if into is None else into
    out = np.empty_like(x) if into is None else into
    flat, result = _flat(x), _flat(out)
    spread(lambda first, last, _: _sparse.drop(flat, ids, x.shape[1], *how.figures, first, last, result), even(len(x), threads))
    return out


def drop_some(x: Array, at: Array, how: Drop) -> Array:
    """Of one row of floats, what `drop` makes of those with the numbers `at` (count,) uint32: x (count,)."""
    if x.shape != at.shape or at.dtype != np.uint32:
        raise ValueError(f"at must be {x.shape} uint32, got {at.shape} {at.dtype}")
    if not COMPILED:
        return twin.dropped_some(x, at, *how.figures)
    out = np.empty_like(x)
    _sparse.drop_some(_flat(x), np.ascontiguousarray(at), *how.figures, _flat(out))
    return out


def finish_back(
    grad: Array,
    out: Array,
    tail: Tail,
    *,
    bias: bool,
    sums: Array | None = None,
    heads: int = 1,
    threads: int = 1,
    ids: Array | None = None,
) -> tuple[Array, Array | None, Array | None]:
    """Gradient of the sums (n, F); of the bias (F,) where asked for; (n, heads) products of gradient and sums where those are given."""
    rows, width = _same_shape(grad, out)
    _check_ids(ids, rows)
    bounds = even(rows, threads if rows * width >= LEAST_FLOATS else 1)
    inner = np.empty_like(grad)
    bias_grads = np.zeros((-(-rows // BLOCK_ROWS), width), dtype=np.float32)
    sums_to = _flat(bias_grads) if bias else None
    dots = None if sums is None else np.empty((rows, heads), dtype=np.float32)
    fixed = (_flat(grad), _flat(out), None if sums is None else _flat(sums), ids, heads, width // heads)
    ends = (_flat(inner), None if dots is None else _flat(dots))
    shape = (tail.activation, *tail.drop.figures)

    spread(lambda first, last, _: _sparse.finish_back(*fixed, *shape, first, last, ends[0], sums_to, ends[1]), bounds)
    return inner, bias_grads.sum(axis=0, dtype=np.float64).astype(np.float32) if bias else None, dots


def aggregate(
    matrix: Matrix,
    x: Array,
    add: Array | None = None,
    bias: Array | None = None,
    tail: Tail = NOTHING,
    threads: int = 1,
    *,
    over: bool = False,
) -> Array:
    """out[v] = drop(activation(Σ_e weights[e] x[indices[e]] + add[v] + bias)): x (m, F), add (n, F), bias (F,) -> (n, F).

    over: the caller needs `add` no more; the result takes its memory where rows are whole vectors.
    """
    edges, weights = matrix.edges, matrix.weights
    width = _width(x, edges.sources, "x")
    if add is not None and add.shape != (edges.destinations, width):
        raise ValueError(f"add must be ({edges.destinations}, {width}), got {add.shape}")
    _check_bias(bias, width)
    out = add if over and add is not None and width % LANES == 0 else np.empty((edges.destinations, width), dtype=np.float32)
    fixed = (edges.indptr, edges.indices, edges.ids, weights, _flat(x), None if add is None else _flat(add), bias)
    shape = (tail.activation, *tail.drop.figures, width)
    result = _flat(out)
    spread(lambda first, last, _: _sparse.aggregate(*fixed, *shape, first, last, result), shares(edges, width, threads))
    return out


def scores(x: Array, a: Array, b: Array, threads: int = 1) -> tuple[Array, Array]:
    """Products (m, H) of x (m, H·D) with a and with b, both (H, D)."""
    heads, depth = a.shape
    rows = len(x)
    if x.shape[1] != heads * depth or b.shape != a.shape:
        raise ValueError(f"x must have {heads * depth} columns and b be {a.shape}, got {x.shape} and {b.shape}")
    left, right = np.empty((rows, heads), dtype=np.float32), np.empty((rows, heads), dtype=np.float32)
    fixed = (_flat(x), _flat(a), _flat(b), heads, depth)
    ends = (_flat(left), _flat(right))
    spread(lambda first, last, _: _sparse.scores(*fixed, first, last, *ends), even(rows, threads))
    return left, right


def scores_back(x: Array, a: Array, b: Array, left_grad: Array, right_grad: Array, x_grad: Array, threads: int = 1) -> tuple[Array, Array]:
    """Adds what the scores' gradients give to x_grad (m, H·D) in place; returns the gradients of a and b."""
    heads, depth = a.shape
    rows = len(x)
    if x.shape != (rows, heads * depth) or x_grad.shape != x.shape or left_grad.shape != (rows, heads) or right_grad.shape != (rows, heads):
        raise ValueError("x and x_grad must be (m, H·D), the scores' gradients (m, H)")
    grads = np.zeros((2, -(-rows // BLOCK_ROWS), heads * depth), dtype=np.float32)
    sums_to = (_flat(grads[0]), _flat(grads[1]))
    fixed = (_flat(x), _flat(a), _flat(b), _flat(left_grad), _flat(right_grad), heads, depth)
    gradient = _flat(x_grad)
    spread(lambda first, last, _: _sparse.scores_back(*fixed, first, last, gradient, *sums_to), even(rows, threads))
    total: Array = grads.sum(axis=1, dtype=np.float64).astype(np.float32).reshape(2, heads, depth)
    return total[0], total[1]


class Attended(NamedTuple):
    """What the backward pass of attention needs besides its inputs."""

    out: Array
    """(n, H·D)."""
    sums: Array
    """(n, H·D) before bias and activation; `out` itself where there is neither."""
    highest: Array
    """(n, H)."""
    total: Array
    """(n, H)."""


def attend(
    edges: Edges, x: Array, left: Array, right: Array, how: AttentionRows, bias: Array | None = None, tail: Tail = NOTHING, threads: int = 1
) -> Attended:
    """Σ_e softmax_e(leaky(left[u] + right[v])) x[u] by head: x (m, H·D), left (m, H), right (n, H)."""
    width = _width(x, edges.sources, "x")
    rows, heads = edges.destinations, how.heads
    if width % heads or left.shape != (edges.sources, heads) or right.shape != (rows, heads):
        raise ValueError(f"left must be ({edges.sources}, {heads}), right ({rows}, {heads}), x a multiple of {heads} wide")
    _check_bias(bias, width)
    sums = np.empty((rows, width), dtype=np.float32)
    out = np.empty_like(sums) if bias is not None or tail.activation or tail.drop.probability else sums
    highest, total = np.empty((rows, heads), dtype=np.float32), np.empty((rows, heads), dtype=np.float32)
    where = (edges.indptr, edges.indices, edges.ids, edges.offsets)
    fixed = (*where, _flat(left), _flat(right), _flat(x), heads, width // heads, how.slope, *how.drop.figures)
    shape = (bias, tail.activation, *tail.drop.figures, edges.largest_degree)
    ends = (_flat(highest), _flat(total), _flat(sums), _flat(out))
    spread(lambda first, last, _: _sparse.attend(*fixed, *shape, first, last, *ends), shares(edges, width, threads))
    return Attended(out, sums, highest, total)


def attend_back(
    edges: Edges, x: Array, left: Array, right: Array, how: AttentionRows, done: Attended, inner: Array, dots: Array, threads: int = 1
) -> tuple[Array, Array, Array]:
    """Gradients of x, left and right from `inner` (n, H·D), that of the sums, and `dots` (n, H), its products with them."""
    turned, origins = edges.turned[0], edges.turned_numbers
    heads = how.heads
    width = x.shape[1]
    _same_shape(inner, done.sums)
    bounds = shares(turned, width, threads)
    x_grad, left_grad = np.empty_like(x), np.empty_like(left)
    right_grads = np.zeros((len(bounds) - 1, right.size))
    by_row = np.stack((right, done.highest, np.float32(1.0) / done.total, dots), axis=2)
    given = (_flat(left), _flat(by_row), _flat(x), _flat(inner))
    ends = (_flat(x_grad), _flat(left_grad))
    fixed = (turned.indptr, turned.indices, origins, *given, heads, width // heads, how.slope, *how.drop.figures, turned.largest_degree)
    spread(lambda first, last, at: _sparse.attend_back(*fixed, first, last, *ends, right_grads[at]), bounds)
    return x_grad, left_grad, right_grads.sum(axis=0).astype(np.float32).reshape(right.shape)


def _flat(values: Array) -> Array:
    """The same memory in one dimension; a copy would lose what is written."""
    if values.dtype != np.float32 or not values.flags.c_contiguous:
        raise TypeError("kernels read and write contiguous float32")
    return values.reshape(-1)


def _check_ids(ids: Array | None, rows: int) -> None:
    if ids is not None and (ids.shape != (rows,) or ids.dtype != np.int64 or not ids.flags.c_contiguous):
        raise ValueError(f"ids must be ({rows},) contiguous int64, got {ids.shape} {ids.dtype}")


def _width(x: Array, rows: int, name: str) -> int:
    if x.ndim != 2 or len(x) != rows:
        raise ValueError(f"{name} must have {rows} rows in two dimensions, got {x.shape}")
    if x.dtype != np.float32:
        raise TypeError(f"{name} must be float32, got {x.dtype}")
    return int(x.shape[1])


def _same_shape(first: Array, second: Array) -> tuple[int, int]:
    if first.ndim != 2 or first.shape != second.shape:
        raise ValueError(f"shapes must be equal and two-dimensional, got {first.shape} and {second.shape}")
    return first.shape[0], first.shape[1]


def _check_bias(bias: Array | None, width: int) -> None:
    if bias is not None and (bias.shape != (width,) or bias.dtype != np.float32 or not bias.flags.c_contiguous):
        raise ValueError(f"bias must be ({width},) contiguous float32, got {bias.shape}")
