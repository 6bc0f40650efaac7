"""What a snapshot says of its nodes as arrays, made once for all jobs that are planned on it. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from hyperscale.model.cluster import Node, Quality
from hyperscale.model.graph import BoolArray, ClusterGraph, FloatArray, IntArray

PERCENT_DIGITS: Final = 2
"""DCGM gives whole percents; less is noise, and would make a new problem of every reading."""


@dataclass(frozen=True)
class NodeFigures:
    """Of all n nodes, in name order."""

    names: tuple[str, ...]
    free_gpus: IntArray
    """(n,) as observed; a request may know better."""
    allocatable_gpus: IntArray
    """(n,)"""
    memory_bytes: FloatArray
    """(n,) memory of one GPU; +inf where unknown."""
    use: FloatArray
    """(n, g) use of the sampled GPUs, rising; +inf beyond them."""

    def utilization(self, positions: IntArray, taken: IntArray, free: IntArray) -> tuple[FloatArray, BoolArray]:
        """Use, in whole percents, of the busiest GPU that workers on the nodes at `positions` (p,) may get; whether it is known.

        taken: (p,) GPUs that they need · free: (p,) GPUs that no pod holds, of which they get any
        The free ones are the least busy: the others belong to pods that hold them. A free one that something outside Kubernetes keeps busy
        may be given however few are taken. Ranks divide a worker's share evenly, so that the slowest GPU sets its pace. One without a
        sample is as busy as those of the median node that is known, or idle where nothing is known.
        0 where none is taken (only our own pinned rank is there).
        """
        use = self.use[positions]
        sampled = np.isfinite(use).sum(axis=1)
        taken = np.where(taken > 0, np.maximum(taken, np.minimum(free, sampled)), 0)
        reported = np.minimum(taken, sampled)
        busiest: FloatArray = np.where(reported > 0, np.clip(_at(use, reported - 1), 0.0, 1.0), 0.0)
        complete = (sampled > 0) & (taken <= sampled)
        counted = (taken > 0) & (complete if (complete & (taken > 0)).any() else sampled > 0)
        typical = float(np.median(busiest[counted])) if counted.any() else 0.0
        figures: FloatArray = np.where(taken > sampled, np.maximum(busiest, typical), busiest)
        percents: FloatArray = figures.round(PERCENT_DIGITS)
        return percents, complete


def _at(use: FloatArray, place: IntArray) -> FloatArray:
    """(p,) figure at `place` (p,) of each row; a place outside the row counts as the nearest in it."""
    if not use.size:
        return np.zeros(len(use))
    figures: FloatArray = use[np.arange(len(use)), np.clip(place, 0, use.shape[1] - 1)]
    return figures


def figures_of(graph: ClusterGraph) -> NodeFigures:
    """Return the figures of the nodes of `graph`; the graph keeps them, since hundreds of jobs are planned on one."""
    figures: NodeFigures = graph.results.get(_figures, lambda: _figures(graph.nodes))
    return figures


def gpu_memory_bytes(node: Node) -> int | None:
    """Memory of one GPU: the label, else the smallest figure sampled; None when neither is known."""
    if node.gpu_memory_bytes is not None:
        return node.gpu_memory_bytes
    sampled = [gpu.memory_total_bytes.value for gpu in node.gpus if gpu.memory_total_bytes.value is not None]
    return int(min(sampled)) if sampled else None


def _figures(nodes: tuple[Node, ...]) -> NodeFigures:
    samples = [_samples(node) for node in nodes]
    use = np.full((len(nodes), max((len(figures) for figures in samples), default=0)), np.inf)
    for row, figures in enumerate(samples):
        use[row, : len(figures)] = figures
    memory = [gpu_memory_bytes(node) for node in nodes]
    return NodeFigures(
        names=tuple(node.name for node in nodes),
        free_gpus=np.array([node.free_gpus for node in nodes], dtype=np.int64),
        allocatable_gpus=np.array([node.allocatable_gpus for node in nodes], dtype=np.int64),
        memory_bytes=np.array([np.inf if figure is None else float(figure) for figure in memory]),
        use=use,
    )


def _samples(node: Node) -> list[float]:
    """Usable figures of the use of its GPUs, rising."""
    # Lists, not generators: of a cluster of 5,000 nodes the first plan waits for this.
    samples = [gpu.utilization_ratio for gpu in node.gpus]
    return sorted([sample.value for sample in samples if sample.value is not None and sample.quality is not Quality.UNKNOWN])
