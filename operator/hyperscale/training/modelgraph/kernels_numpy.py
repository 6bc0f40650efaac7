"""Dropout in numpy, where nothing was compiled: slower, and exactly the same floats are kept."""

from __future__ import annotations

import numpy as np

from hyperscale.model.adjacency import Array
from hyperscale.util.splitmix import GOLDEN, WORD, mixed_words


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
