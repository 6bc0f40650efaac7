"""How steady the figures behind a placement have been: doubt widens its forecast and keeps running jobs where they are. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from hyperscale.model.cluster import Node
from hyperscale.model.graph import ClusterGraph
from hyperscale.util.float_sums import sum_in_order


@dataclass(frozen=True)
class Doubts:
    """What of a snapshot is known less than surely; empty in a quiet cluster."""

    links: dict[tuple[int, int], float]
    """Confidence by positions of source and destination, where it is below 1."""
    use: dict[int, float]
    """Confidence in a node's use of its GPUs, by position, where it is below 1."""


def doubts_of(graph: ClusterGraph) -> Doubts:
    """Return the doubts about the snapshot behind `graph`; the graph keeps them."""
    doubts: Doubts = graph.results.get(_doubts, lambda: _doubts(graph))
    return doubts


def link_confidence(graph: ClusterGraph, positions: Iterable[int]) -> float:
    """Least confidence in a measured link among the nodes at these positions, 0..1."""
    chosen = set(positions)
    return min((sure for (a, b), sure in doubts_of(graph).links.items() if a in chosen and b in chosen), default=1.0)


def use_confidence(graph: ClusterGraph, positions: Iterable[int]) -> float:
    """Least confidence in how busy the GPUs of one of these nodes are, 0..1."""
    certainty = doubts_of(graph).use
    return min((certainty.get(position, 1.0) for position in positions), default=1.0)


def _doubts(graph: ClusterGraph) -> Doubts:
    unsteady = np.flatnonzero(graph.links.confidence < 1.0)
    # Of a pair that is listed twice, against the rule, the least counts: it comes last.
    unsteady = unsteady[np.argsort(-graph.links.confidence[unsteady], kind="stable")]
    ends = (part.tolist() for part in np.divmod(graph.links.key[unsteady], max(1, len(graph.nodes))))
    links = dict(zip(zip(*ends, strict=True), graph.links.confidence[unsteady].tolist(), strict=True))
    unsure = [position for position, node in enumerate(graph.nodes) for gpu in node.gpus if gpu.utilization_ratio.confidence != 1.0]
    use = {position: sure for position in dict.fromkeys(unsure) if (sure := _of_use(graph.nodes[position])) < 1.0}
    return Doubts(links, use)


def _of_use(node: Node) -> float:
    """Mean over its GPUs whose use is known."""
    sampled = [gpu.utilization_ratio.confidence for gpu in node.gpus if gpu.utilization_ratio.value is not None]
    return sum_in_order(sampled) / len(sampled) if sampled else 1.0
