"""Bytes that partitioning a graph takes, known before it starts."""

from __future__ import annotations

BASE_BYTES = 200 << 20
"""Python, numpy, scipy and pymetis before any graph."""
EDGE_BYTES = 280
"""Of an undirected edge, both directions: METIS's int64 copies with weights and its coarser graphs, little smaller where there are hubs.

Measured on an R-MAT graph of 7.7 M edges: 245.
"""
VERTEX_BYTES = 8 + 120
"""Row pointer and METIS's arrays by vertex over all levels."""


def memory_bytes(vertices: int, edges: int, features: int, parts: int) -> int:
    """An upper estimate of the peak of `split` and of writing the parts one after the other.

    `edges` are undirected, `features` are columns of 4 bytes of each vertex; the whole graph and one part with its halo are held together.
    """
    graph = vertices * (4 * features + 24) + edges * 2 * 4
    one_part = (graph + vertices * 4 * features) // max(parts, 1) * 2
    working = vertices * VERTEX_BYTES + edges * EDGE_BYTES + vertices * parts // 8
    return BASE_BYTES + graph + max(working, one_part)
