"""Mt-KaHyPar, where it is installed: a partitioner beside METIS that takes several times as long.

Gottesbüren, Heuer, Maas, Sanders and Schlag, ACM Transactions on Algorithms 2024; its deterministic preset, since only that gives the same
parts for the same arguments.
"""

from __future__ import annotations

import functools
from typing import Any, Final

import numpy as np

from hyperscale.model.adjacency import Array
from hyperscale.training.partition.levels import Level
from hyperscale.training.partition.partition_result import PartitionError
from hyperscale.training.partition.refine import TOLERANCE

MOST_EDGES: Final = 20_000_000
"""Undirected; they go over as tuples of Python, so that more take minutes before anything begins."""


def kahypar(level: Level, limits: Array, *, seed: int) -> Array:
    """(n,) int32 parts of a small cut whose first weights keep to `limits` (k, c), or nearly so.

    Raises PartitionError where mtkahypar is not installed, or the graph is too large for it.
    """
    parts = len(limits)
    if parts == 1 or level.vertices == 0:
        return np.zeros(level.vertices, dtype=np.int32)
    library = _started()
    edges = len(level.indices) // 2
    if edges > MOST_EDGES:
        raise PartitionError(
            f"spec.partitioning.method: MtKaHyPar takes at most {MOST_EDGES:,} edges and the graph has {edges:,}; write METIS"
        )
    row = np.repeat(np.arange(level.vertices, dtype=np.int32), np.diff(level.indptr))
    once = row < level.indices
    pairs = list(zip(row[once].tolist(), level.indices[once].tolist(), strict=True))
    _module().set_seed(seed % (1 << 31))
    context = library.context_from_preset(_module().PresetType.DETERMINISTIC)
    context.set_partitioning_parameters(parts, TOLERANCE - 1.0, _module().Objective.CUT)
    context.set_individual_target_block_weights(limits[:, 0].tolist())
    context.logging = False
    graph = library.create_graph(context, level.vertices, len(pairs), pairs, level.weights[:, 0].tolist(), [1] * len(pairs))
    return np.asarray(graph.partition(context).get_partition(), dtype=np.int32)


def _module() -> Any:  # noqa: ANN401 - the library has no types
    """Not at the top: most images are without it."""
    try:
        import mtkahypar
    except ImportError:
        raise PartitionError(
            "spec.partitioning.method: MtKaHyPar is not installed here; add the Python package mtkahypar to the image, or write METIS"
        ) from None
    return mtkahypar


@functools.cache
def _started() -> Any:  # noqa: ANN401
    """It may be started once in a process; on one thread, as everything that partitions."""
    return _module().initialize(1, False)
