"""Parts of graphs that a multilevel partitioner has no memory for: Fennel, restreamed, with a second limit on edges.

Tsourakakis, Gkantsidis, Radunovic, Vojnovic: FENNEL, WSDM 2014; restreaming: Nishimura and Ugander, KDD 2013. Memory beyond the graph:
24 bytes a vertex. Two orders are tried, hubs first and as the data set has them (communities and meshes are often numbered together),
and the lower cut stays. The price of size falls from pass to pass: first parts of equal size grow around the hubs, then the cut counts.
On an R-MAT graph of 3 M edges that cuts 75 % of the edges instead of 84 % with the paper's constant price.

The limit on edges matters on graphs with hubs: parts of equal vertices, as METIS makes them by default, hold up to seven times their
share of the edges of R-MAT graphs (docs/tasks/own-data.md), and edges are what a GNN computes on.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from hyperscale.model.adjacency import Adjacency, Array
from hyperscale.training.partition.compiled_search import COMPILED, seeds
from hyperscale.training.partition.measures import measure
from hyperscale.training.partition.partition_result import Measures

FENNEL: Final = "Fennel"
SLACK: Final = 1.03
"""Vertices of a part over its share at most."""
ENTRY_SLACK: Final = 1.2
"""Edge ends of a part over its share at most, except for a hub that fits nowhere."""
HUBS_FIRST: Final = (64.0, 32.0, 16.0, 8.0, 4.0, 2.0, 1.0, 0.5)
AS_NUMBERED: Final = (16.0, 4.0, 1.0)
"""Price of size by pass, times the paper's α; found on R-MAT, block and grid graphs of 0.3 to 3 M edges."""


def streaming_bytes(vertices: int, edges: int, features: int) -> int:
    """Peak of reading, cutting and writing with this method; `edges` directed, `features` columns of 4 bytes."""
    return (200 << 20) + vertices * (8 * features + 96) + edges * 16


def fennel(adjacency: Adjacency, target: Array) -> Array:
    """(n,) int32 parts within `SLACK` of the shares `target`, (k,) with sum 1; the same graph gives the same parts."""
    degrees = np.diff(adjacency.indptr)
    natural = np.arange(adjacency.vertices, dtype=np.int32)
    best: tuple[Array, Measures] | None = None
    for order, prices in ((np.argsort(-degrees, kind="stable").astype(np.int32), HUBS_FIRST), (natural, AS_NUMBERED)):
        assignment = _stream(adjacency, order, target, prices)
        figures = measure(adjacency, assignment, tuple(target))
        # Where hubs break the limit on edges, the order that spreads them is worth more than a lower cut.
        if best is None or (figures.edge_imbalance <= max(ENTRY_SLACK, best[1].edge_imbalance) and figures.cut < best[1].cut):
            best = assignment, figures
    assert best is not None  # noqa: S101 - two orders were tried
    return best[0]


def _stream(adjacency: Adjacency, order: Array, target: Array, prices: tuple[float, ...]) -> Array:
    indptr, indices = adjacency.indptr, np.ascontiguousarray(adjacency.indices, np.int32)
    vertices, parts = adjacency.vertices, len(target)
    assignment = np.full(vertices, -1, np.int32)
    load, entry_load = np.zeros(parts, np.int64), np.zeros(parts, np.int64)
    capacity = np.maximum(np.ceil(SLACK * target * vertices), 1.0)
    entry_capacity = np.maximum(ENTRY_SLACK * target * len(indices), 1.0)
    size = max(vertices, 1)
    alpha = float(np.sqrt(parts) * (len(indices) / 2) / (size * np.sqrt(size)))  # to the power of 3/2, as in the paper
    stream = seeds.stream if COMPILED else plain_stream
    for price in prices:
        stream(indptr, indices, order, capacity, entry_capacity, alpha * price, assignment, load, entry_load)
    return assignment


def plain_stream(
    indptr: Array,
    indices: Array,
    order: Array,
    capacity: Array,
    entry_capacity: Array,
    alpha: float,
    assignment: Array,
    load: Array,
    entry_load: Array,
) -> int:
    """One pass of Fennel in place, vertex by vertex, without compiled code; returns how many vertices changed their part."""
    parts, moved = len(capacity), 0
    share = np.cumsum(capacity / parts)[-1]
    share = capacity / share
    for vertex in order.tolist():
        row = indices[indptr[vertex] : indptr[vertex + 1]]
        old, degree = int(assignment[vertex]), len(row)
        if old >= 0:
            load[old] -= 1
            entry_load[old] -= degree
        placed = assignment[row]
        near = np.bincount(placed[placed >= 0], minlength=parts)
        price = (alpha * 1.5 * np.sqrt(load / share)).tolist()
        best = _best(near, price, (load + 1 <= capacity) & (entry_load + degree <= entry_capacity), old)
        if best < 0:
            best = old if old >= 0 else int(np.argmin(load / capacity))
        assignment[vertex] = best
        load[best] += 1
        entry_load[best] += degree
        moved += best != old
    return moved


def _best(near: Array, price: list[float], open_parts: Array, old: int) -> int:
    """The open part with the highest score, the old one of equals, else the first; -1 where none is open."""
    best, best_score = -1, 0.0
    for part in np.flatnonzero(open_parts).tolist():
        score = float(near[part]) - price[part]
        if best < 0 or score > best_score or (score == best_score and part == old):
            best, best_score = part, score
    return best
