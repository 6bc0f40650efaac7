"""Draws some of each vertex's in-neighbours, without replacement, all vertices at once.

The draw follows from a key and the vertex's global id alone (a counter hashed by splitmix64, Steele, Lea and Flood, OOPSLA 2014): whichever
rank draws for a vertex, and however many ranks there are, gets the same neighbours.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from hyperscale.model.adjacency import Array
from hyperscale.util.splitmix import GOLDEN, WORD, mixed_words

_STEP: Final = np.uint64(GOLDEN)


def key_of(*numbers: int) -> int:
    """One 64-bit key from several numbers: seed, epoch, step, layer."""
    state = np.zeros(1, dtype=np.uint64)
    for number in numbers:
        state = _mixed(state ^ np.uint64(number & WORD))
    return int(state[0])


def draw(indptr: Array, rows: Array, ids: Array, fanout: int | None, key: int) -> tuple[Array, Array]:
    """Of each row at most `fanout` different entries, every subset equally likely; all of them for None.

    rows (r,) of a CSR with `indptr`, ids (r,) their vertices' global ids. Returns the number of entries of each row (r,) and their places
    in `indices`, ascending in each row.
    """
    starts, degrees = indptr[rows].astype(np.int64), (indptr[rows + 1] - indptr[rows]).astype(np.int64)
    if fanout is None or not len(rows) or int(degrees.max()) <= fanout:
        return degrees, _ranges(starts, degrees)
    counts = np.minimum(degrees, fanout)
    chosen = np.full((len(rows), fanout), -1, dtype=np.int64)
    many = np.flatnonzero(degrees > fanout)
    few = np.flatnonzero(degrees <= fanout)
    inside = np.arange(fanout) < degrees[few, None]
    chosen[few] = np.where(inside, np.arange(fanout), -1)
    chosen[many] = np.sort(_subsets(degrees[many], ids[many], fanout, key), axis=1)
    kept = chosen >= 0
    places: Array = (chosen + starts[:, None])[kept]
    return counts, places


def _subsets(degrees: Array, ids: Array, count: int, key: int) -> Array:
    """(r, count) different numbers below each degree by Floyd's algorithm (Bentley, CACM 1987): `count` draws, none in vain."""
    taken = np.empty((len(degrees), count), dtype=np.int64)
    base = _mixed(ids.astype(np.uint64) * _STEP ^ np.uint64(key))
    for turn in range(count):
        last = degrees - count + turn
        number = (_mixed(base + np.uint64((turn + 1) * GOLDEN & WORD)) % (last + 1).astype(np.uint64)).astype(np.int64)
        repeated = (taken[:, :turn] == number[:, None]).any(axis=1)
        taken[:, turn] = np.where(repeated, last, number)
    return taken


def _mixed(state: Array) -> Array:
    """The first number drawn from each state."""
    with np.errstate(over="ignore"):
        return mixed_words(state + _STEP)


def _ranges(starts: Array, sizes: Array) -> Array:
    before = np.concatenate([[0], np.cumsum(sizes)])
    places: Array = np.arange(before[-1], dtype=np.int64) + np.repeat(starts - before[:-1], sizes)
    return places
