"""How steady the figures behind a placement have been: doubt widens its forecast and keeps running jobs where they are. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

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
    links = {
        (graph.index[link.source], graph.index[link.destination]): sure
        for link in graph.snapshot.links
        # Two comparisons for most: of a thousand nodes there are a million links, and a plan waits for this.
        if (link.latency_seconds.confidence != 1.0 or link.bandwidth_bytes_per_second.confidence != 1.0)
        and (sure := _surely(link.latency_seconds.confidence, link.bandwidth_bytes_per_second.confidence)) < 1.0
        and link.source in graph.index
        and link.destination in graph.index
    }
    unsure = [position for position, node in enumerate(graph.nodes) for gpu in node.gpus if gpu.utilization_ratio.confidence != 1.0]
    use = {position: sure for position in dict.fromkeys(unsure) if (sure := _of_use(graph.nodes[position])) < 1.0}
    return Doubts(links, use)


def _surely(latency: float, bandwidth: float) -> float:
    """The lesser of two confidences; an unknown figure has none, and its estimate is a fallback that is accounted for already."""
    return min((sure for sure in (latency, bandwidth) if sure > 0.0), default=1.0)


def _of_use(node: Node) -> float:
    """Mean over its GPUs whose use is known."""
    sampled = [gpu.utilization_ratio.confidence for gpu in node.gpus if gpu.utilization_ratio.value is not None]
    return sum_in_order(sampled) / len(sampled) if sampled else 1.0
