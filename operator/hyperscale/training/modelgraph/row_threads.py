"""Rows shared out to threads, for kernels that release the interpreter's lock."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import Final

import numpy as np

from hyperscale.training.modelgraph.edges import Edges

BLOCK_ROWS: Final = 1024
"""HS_BLOCK of sparse_kernels.h."""
LEAST_FLOATS: Final = 1 << 16
"""Floats that a call must move before a second thread pays."""


def even(rows: int, threads: int) -> list[int]:
    """Bounds of about equal numbers of rows, whole blocks each."""
    blocks = -(-rows // BLOCK_ROWS)
    return [min(rows, BLOCK_ROWS * (blocks * at // threads)) for at in range(threads + 1)]


def shares(edges: Edges, width: int, threads: int) -> list[int]:
    """Bounds of about equal numbers of edges and rows."""
    if threads == 1 or edges.count * width < LEAST_FLOATS:
        return [0, edges.destinations]
    work = edges.indptr + np.arange(edges.destinations + 1)
    inside = np.searchsorted(work, work[-1] * np.arange(1, threads) / threads)
    return [0, *(int(at) for at in inside), edges.destinations]


@lru_cache(maxsize=1)
def _pool(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, thread_name_prefix="hyperscale-rows")


def spread(work: Callable[[int, int, int], None], bounds: list[int]) -> None:
    """Run `work(first, last, which)` for each range, side by side."""
    if len(bounds) == 2:
        work(bounds[0], bounds[1], 0)
        return
    list(_pool(len(bounds) - 1).map(work, bounds[:-1], bounds[1:], range(len(bounds) - 1)))
