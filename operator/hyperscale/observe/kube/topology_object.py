"""A ClusterTopology as a snapshot: links as the operator measured them, nodes without their details. Pure."""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from hyperscale.model.api.topology import LinkQuality, TopologyLink, TopologyNode, TopologyStatus
from hyperscale.model.cluster import UNKNOWN_SAMPLE, ClusterSnapshot, Link, Node, Quality, Sample
from hyperscale.observe.kube.node_labels import domains
from hyperscale.util.rfc3339 import unix_seconds

SOURCE: Final = "ClusterTopology"


def with_links(snapshot: ClusterSnapshot, status: TopologyStatus) -> ClusterSnapshot:
    """The snapshot with the links of a ClusterTopology in place of its own, and the state of the metrics that they were taken from."""
    return replace(snapshot, links=links_of(status, snapshot.taken_at), metrics=status.metrics)


def snapshot_of(status: TopologyStatus, now: float) -> ClusterSnapshot:
    """The cluster by its ClusterTopology alone: without labels, taints, processors and memory of the nodes.

    now: Unix seconds
    """
    nodes = tuple(sorted((_node(node, status.levels) for node in status.nodes), key=lambda node: node.name))
    links = links_of(status, now)
    return ClusterSnapshot(taken_at=now, nodes=nodes, links=links, levels=status.levels, metrics=status.metrics, source=SOURCE)


def links_of(status: TopologyStatus, now: float) -> tuple[Link, ...]:
    """The links, sorted, with ages as of `now` (Unix seconds)."""
    waited = max(0.0, now - unix_seconds(status.snapshot_time))
    links = (
        Link(one.source, one.destination, _sample(one.latency_seconds, one, waited), _sample(one.bandwidth_bytes_per_second, one, waited))
        for one in status.links
    )
    return tuple(sorted(links, key=lambda link: (link.source, link.destination)))


def _sample(value: float | None, link: TopologyLink, waited_seconds: float) -> Sample:
    if value is None:
        return UNKNOWN_SAMPLE
    age = link.age_seconds + waited_seconds if link.age_seconds is not None else None
    measured = link.quality in (LinkQuality.MEASURED, LinkQuality.DEAD)
    quality = Quality.MEASURED if measured else Quality.ESTIMATED
    return Sample(value=value, age_seconds=age, quality=quality, source=SOURCE, confidence=link.confidence)


def _node(node: TopologyNode, levels: tuple[str, ...]) -> Node:
    labels = {level: domain for level, domain in zip(levels, node.domains, strict=False) if domain}
    usable = node.ready and node.schedulable
    return Node(
        name=node.name,
        gpu_product=node.product,
        gpu_memory_bytes=None,
        allocatable_gpus=node.gpus,
        requested_gpus=max(0, node.gpus - node.free_gpus) if usable else 0,
        ready=node.ready,
        schedulable=node.schedulable,
        labels=labels,
        domains=domains(labels, levels),
    )
