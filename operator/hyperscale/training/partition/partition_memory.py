"""Bytes that partitioning a graph takes, known before it starts."""

from __future__ import annotations

from hyperscale.model.api.choices import PartitioningMethod

BASE_BYTES = 200 << 20
"""Python, numpy, scipy and pymetis before any graph."""
EDGE_BYTES = 280
"""Of an undirected edge, both directions: METIS's int64 copies with weights and its coarser graphs, little smaller where there are hubs.

Measured on R-MAT graphs: 120 at 1 M edges, 265 at 10 M (benchmarks/partition_scale.py).
"""
KAHYPAR_EDGE_BYTES = 400
"""The same for Mt-KaHyPar: tuples of Python, its own graph, the coarser ones. Measured on an R-MAT graph of 1.9 M edges: 325."""
VERTEX_BYTES = 8 + 120
"""Row pointer and METIS's arrays by vertex over all levels."""


def edge_bytes(method: PartitioningMethod | str) -> int:
    """Of an undirected edge while the partitioner works."""
    return KAHYPAR_EDGE_BYTES if str(method) == PartitioningMethod.MT_KAHYPAR else EDGE_BYTES


def memory_bytes(vertices: int, edges: int, features: int, parts: int, method: PartitioningMethod | str = PartitioningMethod.METIS) -> int:
    """An upper estimate of the peak of `split` and of writing the parts one after the other.

    `edges` are undirected, `features` are columns of 4 bytes of each vertex; the whole graph and one part with its halo are held together.
    """
    graph = vertices * (4 * features + 24) + edges * 2 * 4
    one_part = (graph + vertices * 4 * features) // max(parts, 1) * 2
    working = vertices * VERTEX_BYTES + edges * edge_bytes(method) + vertices * parts // 8
    return BASE_BYTES + graph + max(working, one_part)
