"""What a snapshot says of its nodes as arrays, made once for all jobs that are planned on it. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from hyperscale.model.cluster import Node, Quality
from hyperscale.model.graph import BoolArray, ClusterGraph, FloatArray, IntArray
from hyperscale.plan.memo import Memo

KEPT_SNAPSHOTS: Final = 4
"""Hundreds of jobs are planned on one snapshot, and few snapshots are in use at a time."""
PERCENT_DIGITS: Final = 2
"""DCGM gives whole percents; less is noise, and would make a new problem of every reading."""


@dataclass(frozen=True)
class Figures:
    """Of all n nodes, in name order."""

    names: tuple[str, ...]
    free_gpus: IntArray
    """(n,) as observed; a request may know better."""
    allocatable_gpus: IntArray
    """(n,)"""
    memory_bytes: FloatArray
    """(n,) memory of one GPU; +inf where unknown."""
    sampled: IntArray
    """(n,) GPUs with a usable sample of their use."""
    use: FloatArray
    """(n, g + 1) summed use of the least busy 0, 1, .. g sampled GPUs."""

    def utilization(self, positions: IntArray, free: IntArray) -> tuple[FloatArray, BoolArray]:
        """Mean use, in whole percents, of the `free` (p,) least busy GPUs of the nodes at `positions` (p,), and whether it is known.

        A new worker gets those, the busy ones belong to pods that hold them. 0 where none is free (only our own pinned rank is there).
        """
        taken = np.minimum(free, self.sampled[positions])
        mean: FloatArray = np.clip(self.use[positions, taken] / np.maximum(taken, 1), 0.0, 1.0)
        percents: FloatArray = np.round(mean, PERCENT_DIGITS)
        return percents, self.sampled[positions] > 0


_FIGURES: Final[Memo[Figures]] = Memo(KEPT_SNAPSHOTS)


def figures_of(graph: ClusterGraph) -> Figures:
    """The figures of the snapshot behind `graph`."""
    return _FIGURES.get(graph.digest, lambda: _figures(graph.nodes))


def gpu_memory_bytes(node: Node) -> int | None:
    """Memory of one GPU: the label, else the smallest figure sampled; None when neither is known."""
    if node.gpu_memory_bytes is not None:
        return node.gpu_memory_bytes
    sampled = [gpu.memory_total_bytes.value for gpu in node.gpus if gpu.memory_total_bytes.value is not None]
    return int(min(sampled)) if sampled else None


def _figures(nodes: tuple[Node, ...]) -> Figures:
    samples = [_samples(node) for node in nodes]
    use = np.zeros((len(nodes), 1 + max((len(figures) for figures in samples), default=0)))
    for row, figures in enumerate(samples):
        use[row, 1 : len(figures) + 1] = np.cumsum(figures)
    memory = [gpu_memory_bytes(node) for node in nodes]
    return Figures(
        names=tuple(node.name for node in nodes),
        free_gpus=np.array([node.free_gpus for node in nodes], dtype=np.int64),
        allocatable_gpus=np.array([node.allocatable_gpus for node in nodes], dtype=np.int64),
        memory_bytes=np.array([np.inf if figure is None else float(figure) for figure in memory]),
        sampled=np.array([len(figures) for figures in samples], dtype=np.int64),
        use=use,
    )


def _samples(node: Node) -> list[float]:
    """Usable figures of the use of its GPUs, rising."""
    return sorted(
        gpu.utilization_ratio.value
        for gpu in node.gpus
        if gpu.utilization_ratio.value is not None and gpu.utilization_ratio.quality is not Quality.UNKNOWN
    )
