"""Figures of all algorithms of an allreduce by the number of nodes, and which of them may be the fastest. Pure."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

import numpy as np

from hyperscale.model.graph import BoolArray, FloatArray
from hyperscale.planner.cost.collectives import allreduce

NEVER: Final = (0.0, 0.0, 0.0, 0.0, np.inf)
"""An algorithm that takes forever."""

AT_ONCE: Final = 4
"""Algorithms that compiled searches look at together."""


TABLES: Final = 256
"""Tables that are kept: every cost model of a job with a number of workers has the same."""


@lru_cache(maxsize=TABLES)
def collective_table(ranks: int, workers: int, sharp_efficiencies: tuple[float, ...]) -> FloatArray:
    """Return (classes, workers + 1, algorithms, 5) of `collectives.allreduce` by class and number of nodes: a read-only table.

    sharp_efficiencies: of each class, see `Costs.sharp_efficiencies` · Row 0 of a class is its row 1.
    """
    classes = [[allreduce(ranks, nodes, efficiency) for nodes in range(1, workers + 1)] for efficiency in sharp_efficiencies]
    most = max(len(ways) for by_nodes in classes for ways in by_nodes)
    # Without SHARP there is one way less: the last one stands twice.
    filled = [[(*ways, *ways[-1:] * (most - len(ways))) for ways in (by_nodes[0], *by_nodes)] for by_nodes in classes]
    table = np.array(filled, dtype=np.float64)
    table.flags.writeable = False
    return table


def winners(table: FloatArray, hops: FloatArray) -> BoolArray:
    """(rows, algorithms) False where another of the row is never slower, whatever the hops are; of two alike the first is left.

    table: (rows, algorithms, 5) by number of nodes · hops: (2, 4) least and most of each figure, see `Costs.hop_range`
    """
    figures = np.ascontiguousarray(table.transpose(2, 0, 1))
    more = figures[:, :, :, None] - figures[:, :, None, :]
    most = np.maximum(more[:4] * hops[0][:, None, None, None], more[:4] * hops[1][:, None, None, None])
    # max(a, b) - max(c, d) is no more than max(a - c, b - d).
    transfer = np.maximum(np.maximum(most[2], most[3]), 0.0)
    never_worse = more[4] + (most[0] + most[1]) + transfer <= 0.0
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
