"""`ClusterTopology.status`: the cluster as last measured, for people and tools; the source of its CRD schema.

It is a bounded projection of `ClusterSnapshot`: an object of etcd has at most 1.5 MiB.
"""

from __future__ import annotations

import datetime
from collections.abc import Set
from typing import Annotated, Final, TypeVar
from zlib import crc32

import msgspec
from msgspec import Meta, Struct, field
from msgspec.structs import replace

from hyperscale.model.cluster import ClusterSnapshot, Link, Node, Quality

MAX_NODES: Final = 5000
MAX_LINKS: Final = 20000
MAX_STATUS_BYTES: Final = 1_200_000
"""JSON of nodes and links together; leaves room in etcd's 1.5 MiB for what the API server adds."""

DIGITS: Final = 3
"""Significant digits of figures."""
NOISE_RATIO: Final = 1.2
"""A link's figure is written again when the larger of the new and the written one exceeds the smaller by this factor."""
CONFIDENCE_NOISE: Final = 0.15
ALL_PAIRS_NODES: Final = 45
"""Up to this number of nodes agents always measure the same pairs; there a pair that comes or goes is worth a write."""

_Item = TypeVar("_Item", bound=msgspec.Struct)

NodeName = Annotated[str, Meta(max_length=253)]


class TopologyFigures(Struct, frozen=True, rename="camel", omit_defaults=True):
    """Base of what stands in the status: what is unknown is absent, which keeps thousands of entries small."""


class TopologyNode(TopologyFigures, frozen=True):
    """One node with GPUs."""

    name: NodeName
    gpus: int
    """Allocatable GPUs."""
    free_gpus: int
    """GPUs that a new pod could get; 0 on a node that takes no pods."""
    ready: bool = True
    schedulable: bool = True
    """False when cordoned."""
    product: Annotated[str, Meta(max_length=63)] | None = None
    """Product of its GPUs; absent when unlabelled."""
    domains: Annotated[tuple[Annotated[str, Meta(max_length=63)], ...], Meta(max_length=15)] = ()
    """Topology domains, aligned with `levels`."""


class TopologyLink(TopologyFigures, frozen=True):
    """A directed network path that was measured."""

    source: NodeName
    destination: NodeName
    quality: Quality
    """The worse of the qualities of the two figures."""
    latency_seconds: float | None = None
    """One way; absent when unknown."""
    bandwidth_bytes_per_second: float | None = None
    """Sustained; absent when unknown."""
    age_seconds: float | None = None
    """Age of the older figure when the snapshot was taken."""
    origin: Annotated[str, Meta(max_length=32)] = ""
    """Who measured it: agent, dcgm, prometheus and so on; two where the figures differ in that."""
    confidence: float = 1.0
    """The lower of the two figures', 0..1."""


class TopologyMetrics(TopologyFigures, frozen=True):
    """State of the metrics source."""

    available: bool
    reason: Annotated[str, Meta(max_length=64)]
    """CamelCase, e.g. MetricsAvailable or PrometheusTimeout."""
    message: Annotated[str, Meta(max_length=1024)] = ""
    failed_queries: Annotated[tuple[Annotated[str, Meta(max_length=64)], ...], Meta(max_length=32)] = field(default_factory=tuple)
    """Figures whose query failed."""


class TopologyPreview(TopologyFigures, frozen=True):
    """Where `hyperscale plan` finds what the operator's next plan depends on (docs/rbac.md says who may read it)."""

    namespace: Annotated[str, Meta(max_length=63)]
    service: Annotated[str, Meta(max_length=63)]
    """Its port is called `preview`."""
    secret: Annotated[str, Meta(max_length=253)]
    """Holds the key that every request shows, under `key`."""


class TopologyStatus(TopologyFigures, frozen=True):
    """What was seen, when, and how far it may be trusted."""

    taken_at: Annotated[str, Meta(max_length=32)]
    """RFC 3339, UTC."""
    metrics: TopologyMetrics
    node_count: int
    """Nodes with GPUs, listed or not."""
    link_count: int
    """Measured links, listed or not."""
    gpu_count: int
    """Allocatable GPUs of all nodes."""
    free_gpu_count: int
    levels: Annotated[tuple[Annotated[str, Meta(max_length=317)], ...], Meta(max_length=15)] = ()
    """Topology label keys, widest first."""
    nodes: Annotated[tuple[TopologyNode, ...], Meta(max_length=MAX_NODES)] = ()
    """Sorted by name; the first ones where not all fit."""
    links: Annotated[tuple[TopologyLink, ...], Meta(max_length=MAX_LINKS)] = ()
    """Sorted by source and destination; where not all fit a sample of the pairs that keeps to the same ones, both ways of each."""
    preview: TopologyPreview | None = None
    """Absent where the operator serves none."""


def topology_status(snapshot: ClusterSnapshot, max_bytes: int = MAX_STATUS_BYTES) -> TopologyStatus:
    """The snapshot as status: every node that fits, then as many measured links as still fit into `max_bytes` of JSON."""
    nodes, left = _fitting([_node(node) for node in snapshot.nodes[:MAX_NODES]], max_bytes)
    links, _ = _fitting([_link(link) for link in _drawn(snapshot.links)], left)
    state = snapshot.metrics
    return TopologyStatus(
        taken_at=datetime.datetime.fromtimestamp(snapshot.taken_at, datetime.UTC).isoformat(timespec="seconds").replace("+00:00", "Z"),
        metrics=TopologyMetrics(
            available=state.available,
            reason=state.reason[:64],
            message=state.message[:1024],
            failed_queries=tuple(name[:64] for name in state.failed_queries[:32]),
        ),
        node_count=len(snapshot.nodes),
        link_count=len(snapshot.links),
        gpu_count=sum(node.allocatable_gpus for node in snapshot.nodes),
        free_gpu_count=sum(node.free_gpus for node in snapshot.nodes),
        levels=snapshot.levels,
        nodes=tuple(nodes),
        links=tuple(sorted(links, key=lambda link: (link.source, link.destination))),
    )


def _drawn(links: tuple[Link, ...]) -> list[Link]:
    """At most MAX_LINKS in an order that no node's name decides; else only the first nodes would show links.

    The order is the same both ways of a pair, and whatever other links there are.
    """
    pairs = ((one.source, one.destination) for one in links)
    lots = [crc32((first + second if first < second else second + first).encode()) for first, second in pairs]
    return [links[at] for at in sorted(range(len(links)), key=lots.__getitem__)[:MAX_LINKS]]


def _node(node: Node) -> TopologyNode:
    return TopologyNode(
        name=node.name,
        gpus=node.allocatable_gpus,
        free_gpus=node.free_gpus,
        ready=node.ready,
        schedulable=node.schedulable,
        product=node.gpu_product[:63] if node.gpu_product is not None else None,
        domains=tuple(domain.rpartition("/")[2][:63] for domain in node.domains),  # own label value; wider ones stand beside it
    )


def settled(status: TopologyStatus, written: TopologyStatus) -> TopologyStatus:
    """`status` with the figures that `written` gives wherever they differ by noise only, so that noise is no reason to write.

    A figure is kept as long as it stays within NOISE_RATIO of the one written, whatever it does in between.
    """
    by_pair = {(link.source, link.destination): link for link in written.links}
    return replace(status, links=tuple(_settled(link, by_pair.get((link.source, link.destination))) for link in status.links))


def tells_the_same(status: TopologyStatus, written: TopologyStatus) -> bool:
    """Whether there is nothing in `status` worth writing: times, ages and the wording of the metrics' state do not count.

    Nor does it that other pairs were measured than before: agents of large clusters draw new ones every minute, for ever.
    """
    now, then = _by_pair(status), _by_pair(written)
    if any(then.get(pair, link) != link for pair, link in now.items()):
        return False
    if now.keys() != then.keys() and not _drawn_again(now.keys(), then.keys(), cut=status.link_count > len(status.links)):
        return False
    less, more = sorted((status.link_count, written.link_count))
    return more <= NOISE_RATIO * less and _timeless(status) == _timeless(written)


_Pair = tuple[str, str]


def _by_pair(status: TopologyStatus) -> dict[_Pair, TopologyLink]:
    return {(link.source, link.destination): replace(link, age_seconds=None) for link in status.links}


def _drawn_again(now: Set[_Pair], then: Set[_Pair], cut: bool) -> bool:
    """Whether the pairs are another sample of the same nodes, half of the pairs unchanged.

    cut: not all pairs are shown, so that nodes may be missing.
    """
    nodes, before = ({name for pair in pairs for name in pair} for pairs in (now, then))
    same_nodes = cut or (nodes == before and len(nodes) > ALL_PAIRS_NODES)
    return same_nodes and 2 * len(then - now) <= len(then) and 2 * len(now - then) <= len(now)


def _settled(link: TopologyLink, before: TopologyLink | None) -> TopologyLink:
    if before is None:
        return link
    return replace(
        link,
        latency_seconds=_kept(link.latency_seconds, before.latency_seconds),
        bandwidth_bytes_per_second=_kept(link.bandwidth_bytes_per_second, before.bandwidth_bytes_per_second),
        confidence=before.confidence if abs(link.confidence - before.confidence) <= CONFIDENCE_NOISE else link.confidence,
    )


def _kept(figure: float | None, before: float | None) -> float | None:
    if figure is None or before is None or before <= 0:
        return figure
    return before if before / NOISE_RATIO <= figure <= before * NOISE_RATIO else figure


def _timeless(status: TopologyStatus) -> TopologyStatus:
    """Without links, which are compared by themselves."""
    return replace(status, taken_at="", metrics=replace(status.metrics, message=""), links=(), link_count=0)


def _rounded(figure: float | None) -> float | None:
    return None if figure is None else float(f"{figure:.{DIGITS}g}")


def _link(link: Link) -> TopologyLink:
    figures = (link.latency_seconds, link.bandwidth_bytes_per_second)
    origins = sorted({str(figure.source) for figure in figures if figure.source and figure.value is not None})
    ages = [figure.age_seconds for figure in figures if figure.age_seconds is not None]
    worst_first = (Quality.UNKNOWN, Quality.ESTIMATED, Quality.MEASURED)
    return TopologyLink(
        source=link.source,
        destination=link.destination,
        quality=min((figure.quality for figure in figures), key=worst_first.index),
        latency_seconds=_rounded(link.latency_seconds.value),
        bandwidth_bytes_per_second=_rounded(link.bandwidth_bytes_per_second.value),
        age_seconds=round(max(ages), 1) if ages else None,
        origin="+".join(origins)[:32],
        confidence=round(min(figure.confidence for figure in figures), 2),
    )


def _fitting(items: list[_Item], max_bytes: int) -> tuple[list[_Item], int]:
    """The longest prefix of `items` within `max_bytes` of JSON, and what is left of those."""
    for index, item in enumerate(items):
        size = len(msgspec.json.encode(item)) + 1
        if size > max_bytes:
            return items[:index], max_bytes
        max_bytes -= size
    return items, max_bytes
