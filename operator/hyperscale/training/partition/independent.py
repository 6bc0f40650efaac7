"""Independent sets: no two of their vertices are neighbours. The hybrid partitioner takes them as seeds of its first groups."""

from __future__ import annotations

import numpy as np

from hyperscale.model.adjacency import Adjacency, Array
from hyperscale.training.partition.compiled_search import COMPILED, seeds

KICKS_PER_VERTEX = 20
MOST_KICKS = 200_000
LEAST_KICKS = 12_000
SPARSE_DEGREE = 20.0
"""Mean degree above which a kick costs more and fewer are needed: sets are smaller there."""


def independent_set(adjacency: Adjacency, *, seed: int = 0, kicks: int | None = None) -> Array:
    """(n,) bool, a maximal independent set that is as large as greedy choice, swaps and `kicks` tries make it.

    By default some tries for each vertex, mostly enough for the optimum on graphs of some hundred vertices; 0 for a quick one.
    """
    n = adjacency.vertices
    if kicks is None:
        crowded = max(len(adjacency.indices) / max(n, 1) / SPARSE_DEGREE, 1.0)
        kicks = int(min(max(LEAST_KICKS, KICKS_PER_VERTEX * n), MOST_KICKS) / crowded**2)
    indptr, indices = np.ascontiguousarray(adjacency.indptr, dtype=np.int64), np.ascontiguousarray(adjacency.indices, dtype=np.int32)
    if not COMPILED:  # pragma: no cover - a machine without a C compiler
        return plain_greedy(indptr, indices)
    chosen = np.zeros(n, dtype=np.uint8)
    seeds.greedy(indptr, indices, chosen)
    seeds.improve(indptr, indices, chosen, seed, kicks)
    return chosen.astype(bool)


def plain_greedy(indptr: Array, indices: Array) -> Array:
    """(n,) bool, the greedy set without compiled code; of equal degrees the vertex that was last to reach its own."""
    n = len(indptr) - 1
    degree = np.diff(indptr).tolist()
    buckets: list[dict[int, None]] = [{} for _ in range(max(degree, default=0) + 1)]
    for vertex in range(n - 1, -1, -1):
        buckets[degree[vertex]][vertex] = None
    chosen = np.zeros(n, dtype=bool)
    undecided = np.ones(n, dtype=bool)
    lowest = 0
    while lowest < len(buckets):
        if not buckets[lowest]:
            lowest += 1
            continue
        vertex = buckets[lowest].popitem()[0]
        chosen[vertex], undecided[vertex] = True, False
        for other in indices[indptr[vertex] : indptr[vertex + 1]].tolist():
            if not undecided[other]:
                continue
            undecided[other] = False
            del buckets[degree[other]][other]
            for third in indices[indptr[other] : indptr[other + 1]].tolist():
                if undecided[third]:
                    del buckets[degree[third]][third]
                    degree[third] -= 1
                    buckets[degree[third]][third] = None
                    lowest = min(lowest, degree[third])
    return chosen
