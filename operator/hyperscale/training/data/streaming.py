"""Parts of graphs that a multilevel partitioner has no memory for: Fennel, restreamed, with a second limit on edges.

Tsourakakis, Gkantsidis, Radunovic, Vojnovic: FENNEL, WSDM 2014; restreaming: Nishimura and Ugander, KDD 2013. Memory beyond the graph:
24 bytes a vertex. Two orders are tried, hubs first and as the data set has them (communities and meshes are often numbered together),
and the lower cut stays. The price of size falls from pass to pass: first parts of equal size grow around the hubs, then the cut counts.
On an R-MAT graph of 3 M edges that cuts 75 % of the edges instead of 84 % with the paper's constant price.

The limit on edges matters on graphs with hubs: parts of equal vertices, as METIS makes them by default, hold up to seven times their
share of the edges of R-MAT graphs (docs/tasks/own-data.md), and edges are what a GNN computes on.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from hyperscale.model.adjacency import Adjacency, Array
from hyperscale.training.data.compiled_kernels import kernels
from hyperscale.training.data.data_errors import fault

METHOD: Final = "Fennel"
SLACK: Final = 1.03
"""Vertices of a part over its share at most."""
ENTRY_SLACK: Final = 1.2
"""Edge ends of a part over its share at most, except for a hub that fits nowhere."""
HUBS_FIRST: Final = (64.0, 32.0, 16.0, 8.0, 4.0, 2.0, 1.0, 0.5)
AS_NUMBERED: Final = (16.0, 4.0, 1.0)
"""Price of size by pass, times the paper's α; found on R-MAT, block and grid graphs of 0.3 to 3 M edges."""
MAX_PARTS: Final = 64
"""Of the compiled count of halos."""


@dataclass(frozen=True)
class Streamed:
    """What the better of both orders came to."""

    assignment: Array
    """(n,) int32."""
    cut: int
    """Undirected edges between parts."""
    halo: Array
    """(k,) int64 copies that each part needs."""
    imbalance: float
    """Largest (share of the vertices) / (share of the capacity)."""
    edge_imbalance: float
    """The same of edge ends."""


def memory_bytes(vertices: int, edges: int, features: int) -> int:
    """Peak of reading, cutting and writing with this method; `edges` directed, `features` columns of 4 bytes."""
    return (200 << 20) + vertices * (8 * features + 96) + edges * 16


def assign(graph: Adjacency, shares: tuple[float, ...]) -> Streamed:
    """Parts within `SLACK` of the shares; the same graph gives the same parts. Raises DataError for too many parts."""
    if not 1 <= len(shares) <= MAX_PARTS:
        raise fault("spec.partitioning.count", f"{len(shares)} parts", f"a graph streamed for want of memory takes 1 to {MAX_PARTS}")
    target = np.asarray(shares, np.float64) / float(np.sum(shares))
    indices = np.ascontiguousarray(graph.indices, np.int32)
    degrees = np.diff(graph.indptr)
    natural = np.arange(graph.vertices, dtype=np.int32)
    best: Streamed | None = None
    for order, prices in ((np.argsort(-degrees, kind="stable").astype(np.int32), HUBS_FIRST), (natural, AS_NUMBERED)):
        assignment = _stream(graph.indptr, indices, order, target, prices)
        cut, halo = kernels.cut(graph.indptr, indices, assignment, len(target))
        ends = np.bincount(assignment, weights=degrees, minlength=len(target)) / max(int(degrees.sum()), 1)
        vertices = np.bincount(assignment, minlength=len(target)) / max(graph.vertices, 1)
        streamed = Streamed(assignment, cut, halo, float((vertices / target).max()), float((ends / target).max()))
        # Where hubs break the limit on edges, the order that spreads them is worth more than a lower cut.
        if best is None or (streamed.edge_imbalance <= max(ENTRY_SLACK, best.edge_imbalance) and streamed.cut < best.cut):
            best = streamed
    assert best is not None  # noqa: S101 - two orders were tried
    return best


def _stream(indptr: Array, indices: Array, order: Array, target: Array, prices: tuple[float, ...]) -> Array:
    vertices, parts = len(indptr) - 1, len(target)
    assignment = np.full(vertices, -1, np.int32)
    load, entry_load = np.zeros(parts, np.int64), np.zeros(parts, np.int64)
    capacity = np.maximum(np.ceil(SLACK * target * vertices), 1.0)
    entry_capacity = np.maximum(ENTRY_SLACK * target * len(indices), 1.0)
    size = max(vertices, 1)
    alpha = float(np.sqrt(parts) * (len(indices) / 2) / (size * np.sqrt(size)))  # to the power of 3/2, as in the paper
    for price in prices:
        kernels.stream(indptr, indices, order, capacity, entry_capacity, alpha * price, assignment, load, entry_load)
    return assignment
