"""The kernels in numpy: what answers where nothing was compiled, and what the compiled ones are tested against.

Slower, the same figures up to the order of sums; dropout keeps exactly the same floats.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from hyperscale.model.adjacency import Array
from hyperscale.util.splitmix import GOLDEN, WORD, mixed_words

RELU: Final = 1
ELU: Final = 2


def keys(seed: int, rows: Array) -> Array:
    """(len(rows),) uint32 key of each row for `draws`."""
    with np.errstate(over="ignore"):
        states = np.uint64(seed & WORD) + np.uint64(GOLDEN) * (rows.astype(np.uint64) + np.uint64(1))
    high_words: Array = (mixed_words(states) >> np.uint64(32)).astype(np.uint32)
    return high_words


def draws(key: Array, width: int) -> Array:
    """(rows, width) uint32 numbers in [0, 2^32)."""
    with np.errstate(over="ignore"):
        z = key[:, None] + np.arange(width, dtype=np.uint32)[None, :] * np.uint32(0x9E3779B9)
    return _mixed(z)


def _mixed(z: Array) -> Array:
    """Wellons' lowbias32."""
    with np.errstate(over="ignore"):
        z = (z ^ (z >> np.uint32(16))) * np.uint32(0x7FEB352D)
        z = (z ^ (z >> np.uint32(15))) * np.uint32(0x846CA68B)
    mixed: Array = z ^ (z >> np.uint32(16))
    return mixed


def dropped(x: Array, seed: int, least: int, grow: float, ids: Array | None = None) -> Array:
    """`x` (rows, F) where the draw is at least `least`, times `grow`; else 0. ids: what draws count each row as, None: its place."""
    if least == 0:
        return x
    kept = draws(keys(seed, np.arange(len(x)) if ids is None else ids), x.shape[1]) >= np.uint32(least)
    thinned: Array = np.where(kept, x * np.float32(grow), np.float32(0.0))
    return thinned


def dropped_some(x: Array, at: Array, seed: int, least: int, grow: float) -> Array:
    """The same of one row, of which the floats with the numbers `at` are here."""
    if least == 0:
        return x
    with np.errstate(over="ignore"):
        z = keys(seed, np.zeros(1, dtype=np.int64)) + at * np.uint32(0x9E3779B9)
    thinned: Array = np.where(_mixed(z) >= np.uint32(least), x * np.float32(grow), np.float32(0.0))
    return thinned


def finish(
    sums: Array, add: Array | None, bias: Array | None, activation: int, seed: int, least: int, grow: float, ids: Array | None = None
) -> Array:
    """drop(activation(sums + add + bias))."""
    out = sums if add is None else sums + add
    out = out if bias is None else out + bias
    if activation == RELU:
        out = np.maximum(out, np.float32(0.0))
    elif activation == ELU:
        out = np.where(out > 0, out, np.expm1(np.minimum(out, np.float32(0.0))))
    return dropped(out, seed, least, grow, ids)


def finish_back(grad: Array, out: Array, activation: int, seed: int, least: int, grow: float, ids: Array | None = None) -> Array:
    """Gradient of the sums from that of `finish`."""
    grad = dropped(grad, seed, least, grow, ids)
    if activation == RELU:
        return np.where(out > 0, grad, np.float32(0.0))
    if activation == ELU:
        return np.where(out > 0, grad, grad * (out * np.float32(1.0 / grow) + np.float32(1.0)))
    return grad


def weighted_sum(indptr: Array, indices: Array, weights: Array | None, x: Array) -> Array:
    """Σ_e weights[e] x[indices[e]] of every row."""
    import scipy.sparse as sp  # not at the top: layers for GPUs need torch and numpy alone

    values = np.ones(len(indices), dtype=np.float32) if weights is None else weights
    sums: Array = sp.csr_matrix((values, indices, indptr), shape=(len(indptr) - 1, len(x))) @ x
    return sums


def attention(
    indptr: Array,
    indices: Array,
    left: Array,
    right: Array,
    slope: float,
    seed: int,
    least: int,
    grow: float,
    offsets: Array | None = None,
) -> tuple[Array, Array, Array, Array]:
    """(e, H) softmax weights, (e, H) what dropout makes of 1, (n, H) maxima, (n, H) sums of exponentials."""
    rows = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))
    scores = left[indices] + right[rows]
    scores = np.where(scores > 0, scores, scores * np.float32(slope))
    highest = np.full(right.shape, -np.inf, dtype=np.float32)
    np.maximum.at(highest, rows, scores)
    highest = np.where(np.isfinite(highest), highest, np.float32(0.0))
    powers = np.exp(scores - highest[rows])
    total = np.zeros(right.shape, dtype=np.float32)
    np.add.at(total, rows, powers)
    total = np.where(np.diff(indptr)[:, None] > 0, total, np.float32(1.0))
    kept = np.ones_like(powers)
    if least:
        numbers = np.arange(len(indices)) if offsets is None else np.arange(len(indices)) + offsets[rows]
        drawn = draws(keys(~seed & WORD, numbers), right.shape[1])
        kept = np.where(drawn >= np.uint32(least), np.float32(grow), np.float32(0.0))
    return powers / total[rows], kept, highest, total


def attend(
    indptr: Array,
    indices: Array,
    x: Array,
    left: Array,
    right: Array,
    how: tuple[float, int, int, float],
    offsets: Array | None = None,
) -> tuple[Array, Array, Array]:
    """(n, H·D) sums, and the last two of `attention`; `how` is slope, seed, least, grow."""
    weights, kept, highest, total = attention(indptr, indices, left, right, *how, offsets)
    heads = left.shape[1]
    parts = x.reshape(len(x), heads, -1)
    by_head = [weighted_sum(indptr, indices, weights[:, head] * kept[:, head], parts[:, head]) for head in range(heads)]
    return np.stack(by_head, axis=1).reshape(len(indptr) - 1, -1), highest, total


def attend_back(
    indptr: Array,
    indices: Array,
    x: Array,
    left: Array,
    right: Array,
    how: tuple[float, int, int, float],
    inner: Array,
    dots: Array,
    offsets: Array | None = None,
) -> tuple[Array, Array, Array]:
    """Gradients of x, left and right from that of the sums, `inner`, and its products with the sums, `dots`."""
    weights, kept, _, _ = attention(indptr, indices, left, right, *how, offsets)
    rows = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))
    parts, grads = x.reshape(len(x), left.shape[1], -1), inner.reshape(len(inner), left.shape[1], -1)
    x_grad, left_grad, right_grad = np.zeros_like(parts), np.zeros_like(left), np.zeros_like(right)
    np.add.at(x_grad, indices, (weights * kept)[:, :, None] * grads[rows])
    products = (parts[indices] * grads[rows]).sum(axis=2)
    slopes = np.where(left[indices] + right[rows] > 0, np.float32(1.0), np.float32(how[0]))
    given = weights * (kept * products - dots[rows]) * slopes
    np.add.at(left_grad, indices, given)
    np.add.at(right_grad, rows, given)
    return x_grad.reshape(x.shape), left_grad, right_grad
