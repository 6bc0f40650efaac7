"""Meshes that partitioners are tried on."""

from __future__ import annotations

import numpy as np

from hyperscale.model.adjacency import Adjacency


def grid(side: int) -> Adjacency:
    """A square mesh."""
    ids = np.arange(side * side)
    x, y = ids % side, ids // side
    pairs = [(x > 0, -1), (x < side - 1, 1), (y > 0, -side), (y < side - 1, side)]
    row = np.concatenate([ids[there] for there, _ in pairs])
    column = np.concatenate([ids[there] + step for there, step in pairs])
    order = np.lexsort((column, row))
    return Adjacency(np.concatenate([[0], np.cumsum(np.bincount(row))]).astype(np.int64), column[order].astype(np.int32))
