"""Figures of all algorithms of an allreduce by the number of nodes, and which of them may be the fastest. Pure."""

from __future__ import annotations

from typing import Final

import numpy as np

from hyperscale.model.graph import BoolArray, FloatArray
from hyperscale.planner.cost.collectives import allreduce

NEVER: Final = (0.0, 0.0, 0.0, 0.0, np.inf)
"""An algorithm that takes forever."""

AT_ONCE: Final = 4
"""Algorithms that compiled searches look at together."""


def collective_table(ranks: int, workers: int, sharp_efficiency: float) -> FloatArray:
    """(workers + 1, algorithms, 5) of `collectives.allreduce` by number of nodes; row 0 is row 1."""
    by_nodes = [allreduce(ranks, nodes, sharp_efficiency) for nodes in range(1, workers + 1)]
    return np.array([by_nodes[0], *by_nodes], dtype=np.float64)


def winners(table: FloatArray, hops: FloatArray) -> BoolArray:
    """(rows, algorithms) False where another of the row is never slower, whatever the hops are; of two alike the first is left.

    table: (rows, algorithms, 5) by number of nodes · hops: (2, 4) least and most of each figure, see `Costs.hop_range`
    """
    more = table[:, :, None, :] - table[:, None, :, :]
    most = np.maximum(more[..., :4] * hops[0], more[..., :4] * hops[1])
    # max(a, b) - max(c, d) is no more than max(a - c, b - d).
    transfer = np.maximum(most[..., 2:].max(axis=-1), 0.0)
    never_worse = more[..., 4] + most[..., :2].sum(axis=-1) + transfer <= 0.0
    first = np.triu(np.ones(never_worse.shape[1:], dtype=np.bool_), 1)
    beaten: BoolArray = (never_worse & (first | ~never_worse.swapaxes(1, 2))).any(axis=1)
    return ~beaten


def winners_first(table: FloatArray, kept: BoolArray) -> FloatArray:
    """(rows, most kept, 5) of a table (rows, algorithms, 5) those that are kept (rows, algorithms), filled up with NEVER."""
    first = np.argsort(~kept, axis=1, kind="stable")[:, : kept.sum(axis=1).max()]
    rows = np.arange(len(table))[:, None]
    return np.ascontiguousarray(np.where(kept[rows, first][..., None], table[rows, first], NEVER))


def fours_of(algorithms: int) -> int:
    """How many fours that number of algorithms fills."""
    return -(-algorithms // AT_ONCE)


def by_fours(table: FloatArray, fours: int) -> FloatArray:
    """(rows, fours, 5, 4) of a table (rows, algorithms, 5), filled up with NEVER."""
    rows, algorithms, figures = table.shape
    filled = np.empty((rows, fours * AT_ONCE, figures))
    filled[:, :algorithms], filled[:, algorithms:] = table, NEVER
    return np.ascontiguousarray(filled.reshape(rows, fours, AT_ONCE, figures).swapaxes(2, 3))
