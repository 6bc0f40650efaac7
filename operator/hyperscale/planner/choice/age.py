"""How old the figures are that a plan rests on. Pure."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator

from msgspec.structs import replace

from hyperscale.model.cluster import ClusterSnapshot, Link, Node, Sample
from hyperscale.model.plan import Plan, PlanFigures


def with_figures(plan: Plan, snapshot: ClusterSnapshot, source: str, elapsed_seconds: float, missing: tuple[str, ...] = ()) -> Plan:
    """The plan with what is to be said of the figures it was made from.

    elapsed_seconds: since the snapshot was taken
    """
    ages = [sample.age_seconds for sample in _samples(plan, snapshot) if sample.age_seconds is not None and sample.value is not None]
    oldest = round(max(ages) + elapsed_seconds, 1) if ages else None
    return replace(plan, figures=PlanFigures(source, oldest, missing))


def _samples(plan: Plan, snapshot: ClusterSnapshot) -> Iterator[Sample]:
    """Of the planned nodes, and of the links from each rank to the next."""
    for name in dict.fromkeys(worker.node for worker in plan.workers):
        node = _node(snapshot, name)
        if node is not None:
            yield from (node.network_bytes_per_second, node.network_use_ratio)
            yield from (gpu.utilization_ratio for gpu in node.gpus)
    following = (*plan.workers[1:], *plan.workers[:1])
    for first, second in dict.fromkeys((one.node, other.node) for one, other in zip(plan.workers, following, strict=True)):
        link = _link(snapshot, first, second)
        if link is not None:
            yield from (link.latency_seconds, link.bandwidth_bytes_per_second)


def _node(snapshot: ClusterSnapshot, name: str) -> Node | None:
    at = bisect_left(snapshot.nodes, name, key=lambda node: node.name)
    return snapshot.nodes[at] if at < len(snapshot.nodes) and snapshot.nodes[at].name == name else None


def _link(snapshot: ClusterSnapshot, source: str, destination: str) -> Link | None:
    at = bisect_left(snapshot.links, (source, destination), key=_ends)
    return snapshot.links[at] if at < len(snapshot.links) and _ends(snapshot.links[at]) == (source, destination) else None


def _ends(link: Link) -> tuple[str, str]:
    return link.source, link.destination
