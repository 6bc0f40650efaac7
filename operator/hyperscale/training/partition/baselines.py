"""Partitioners to compare with: vertices by chance, and by degree as AGPCS describes its baseline."""

from __future__ import annotations

import numpy as np

from hyperscale.model.adjacency import Adjacency, Array
from hyperscale.training.partition.partition_result import weight_columns


def random_parts(adjacency: Adjacency, target: Array, *, seed: int) -> Array:
    """(n,) int32: vertices in a drawn order, cut where the running weight passes the shares."""
    order = np.random.default_rng(seed).permutation(adjacency.vertices)
    return along(order, weight_columns(adjacency)[:, 0], target)


def degree_parts(adjacency: Adjacency, target: Array) -> Array:
    """(n,) int32: vertices by falling degree, each to the part with the most capacity left for degrees (longest processing time first).

    AGPCS calls its baseline "a simple degree heuristic" that "divides the graph based on the number of connections of each node", no more;
    this is its balanced reading.
    """
    degree = np.diff(adjacency.indptr)
    order = np.argsort(-degree, kind="stable")
    assignment = np.empty(adjacency.vertices, dtype=np.int32)
    # Vertices of one degree go round in proportion, so that sorting by virtual finish time replaces a heap of n steps.
    start = np.zeros(len(target))
    ordered = degree[order]
    bounds = np.flatnonzero(np.diff(ordered)) + 1
    for first, last in zip(np.concatenate([[0], bounds]), np.concatenate([bounds, [len(order)]]), strict=True):
        if first == last:
            continue
        weight = max(int(ordered[first]), 1)
        here = _shared_out(int(last - first), weight, start, target)
        assignment[order[first:last]] = here
        start += weight * np.bincount(here, minlength=len(target))
    return assignment


def along(order: Array, weights: Array, target: Array) -> Array:
    """(n,) int32: vertices in `order`, cut where the running weight passes the shares; every part gets a vertex where there are enough."""
    n, parts = len(order), len(target)
    running = np.cumsum(weights[order], dtype=np.float64)
    total = running[-1] if n else 0.0
    middle = running - weights[order] / 2
    bounds = np.searchsorted(middle, np.cumsum(target)[:-1] * total)
    # At least one vertex each: bound i lies in i+1 .. n-(parts-1-i).
    steps = np.arange(1, parts)
    if n >= parts:
        bounds = np.clip(np.maximum.accumulate(np.maximum(bounds - steps, 0)) + steps, steps, n - parts + steps)
    assignment = np.empty(n, dtype=np.int32)
    assignment[order] = np.searchsorted(bounds, np.arange(n), side="right").astype(np.int32)
    return assignment


def _shared_out(count: int, weight: int, start: Array, target: Array) -> Array:
    """(count,) parts of equal items: each to the part whose (load + weight) / share is least."""
    fill = float((start / target).max())
    each = np.ceil(np.maximum((fill + weight * count / target.sum()) * target - start, 0) / weight).astype(np.int64) + 1
    each = np.minimum(each, count)
    part = np.repeat(np.arange(len(target), dtype=np.int32), each)
    turn = np.arange(len(part)) - np.repeat(np.cumsum(each) - each, each) + 1
    finish = (start[part] + turn * weight) / target[part]
    return part[np.lexsort((part, finish))[:count]]
