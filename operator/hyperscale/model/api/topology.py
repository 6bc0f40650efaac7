"""`ClusterTopology.status`: the cluster as last measured, for people and tools; the source of its CRD schema.

It is a bounded projection of `ClusterSnapshot`: an object of etcd has at most 1.5 MiB.
"""

from __future__ import annotations

import datetime
import enum
from typing import Annotated, Final, TypeVar
from zlib import crc32

import msgspec
from msgspec import Meta, Struct, field

from hyperscale.model.api.condition import Condition, ConditionStatus, Time
from hyperscale.model.cluster import ClusterSnapshot, Link, MetricsState, Node, Origin, Quality

MAX_NODES: Final = 5000
MAX_LINKS: Final = 20000
MAX_STATUS_BYTES: Final = 1_200_000
"""JSON of nodes and links together; leaves room in etcd's 1.5 MiB for what the API server adds."""

DIGITS: Final = 3
"""Significant digits of figures."""
METRICS_AVAILABLE: Final = "MetricsAvailable"
"""Type of the condition about the metrics source."""

_Item = TypeVar("_Item", bound=msgspec.Struct)

NodeName = Annotated[str, Meta(max_length=253)]


class LinkQuality(enum.StrEnum):
    """How far the figures of a link may be trusted."""

    MEASURED = "Measured"
    ESTIMATED = "Estimated"
    UNKNOWN = "Unknown"
    DEAD = "Dead"
    """Measured, and nothing gets through."""


class TopologySource(enum.StrEnum):
    """Where a figure came from, as `Origin` explains."""

    OVERRIDE = "Override"
    AGENT = "Agent"
    DCGM = "DCGM"
    PROMETHEUS = "Prometheus"
    INFINIBAND = "InfiniBand"
    NODE_EXPORTER = "NodeExporter"
    GFD = "GFD"
    LABELS = "Labels"
    HYPERNODE = "HyperNode"
    PODS = "Pods"


_SOURCES: Final = {origin.value: TopologySource[origin.name] for origin in Origin}
"""Snapshots and the files of them have words of their own."""
_QUALITIES: Final = {quality: LinkQuality[quality.name] for quality in Quality}


class TopologyFigures(Struct, frozen=True, rename="camel", omit_defaults=True):
    """Base of what stands in the status: what is unknown is absent, which keeps thousands of entries small."""


class TopologyNode(TopologyFigures, frozen=True):
    """One node with GPUs."""

    name: NodeName
    gpus: int
    """Allocatable GPUs."""
    free_gpus: int = field(name="freeGPUs")
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
    quality: LinkQuality
    """Dead where nothing gets through, else the worse of the qualities of the two figures."""
    latency_seconds: float | None = None
    """One way; absent when unknown."""
    bandwidth_bytes_per_second: float | None = None
    """Sustained; absent when unknown."""
    age_seconds: float | None = None
    """Age of the older figure when the snapshot was taken."""
    sources: Annotated[tuple[TopologySource, ...], Meta(max_length=2)] = ()
    """Who measured it; two where the figures differ in that."""
    confidence: float = 1.0
    """The lower of the two figures', 0..1."""


class TopologyPreview(TopologyFigures, frozen=True):
    """Where `hyperscale plan` finds what the operator's next plan depends on (docs/rbac.md says who may read it)."""

    namespace: Annotated[str, Meta(max_length=63)]
    service_name: Annotated[str, Meta(max_length=63)]
    """Its port is called `preview`."""
    secret_name: Annotated[str, Meta(max_length=253)]
    """Holds the key that every request shows, under `key`."""


class TopologyStatus(TopologyFigures, frozen=True):
    """What was seen, when, and how far it may be trusted."""

    snapshot_time: Time
    """RFC 3339, UTC: when the figures were read."""
    conditions: Annotated[tuple[Condition, ...], Meta(max_length=4)]
    """MetricsAvailable: state of the metrics source, with a reason such as MetricsAvailable or PrometheusTimeout.
    PredictionsCalibrated: whether predictions of finished runs hold as often as they say; absent where no history is kept."""
    node_count: int
    """Nodes with GPUs, listed or not."""
    link_count: int
    """Measured links, listed or not."""
    gpu_count: int
    """Allocatable GPUs of all nodes."""
    free_gpu_count: int = field(name="freeGPUCount")
    """Of all nodes."""
    failed_queries: Annotated[tuple[Annotated[str, Meta(max_length=64)], ...], Meta(max_length=32)] = ()
    """Figures whose query failed."""
    levels: Annotated[tuple[Annotated[str, Meta(max_length=317)], ...], Meta(max_length=15)] = ()
    """Topology label keys, widest first."""
    nodes: Annotated[tuple[TopologyNode, ...], Meta(max_length=MAX_NODES)] = ()
    """Sorted by name; the first ones where not all fit."""
    links: Annotated[tuple[TopologyLink, ...], Meta(max_length=MAX_LINKS)] = ()
    """Sorted by source and destination; where not all fit a sample of the pairs that keeps to the same ones, both ways of each."""
    preview: TopologyPreview | None = None
    """Absent where the operator serves none."""

    @property
    def metrics(self) -> MetricsState:
        """State of the metrics, as the snapshot had it."""
        for condition in self.conditions:
            if condition.type == METRICS_AVAILABLE:
                return MetricsState(condition.status == "True", condition.reason, condition.message, self.failed_queries)
        return MetricsState(available=False, reason="MetricsNotConfigured")


def topology_status(snapshot: ClusterSnapshot, max_bytes: int = MAX_STATUS_BYTES) -> TopologyStatus:
    """The snapshot as status: every node that fits, then as many measured links as still fit into `max_bytes` of JSON."""
    nodes, left = _fitting([_node(node) for node in snapshot.nodes[:MAX_NODES]], max_bytes)
    links, _ = _fitting([_link(link) for link in _drawn(snapshot.links)], left)
    time = datetime.datetime.fromtimestamp(snapshot.taken_at, datetime.UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    return TopologyStatus(
        snapshot_time=time,
        conditions=(_metrics_condition(snapshot.metrics, time),),
        failed_queries=tuple(name[:64] for name in snapshot.metrics.failed_queries[:32]),
        node_count=len(snapshot.nodes),
        link_count=len(snapshot.links),
        gpu_count=sum(node.allocatable_gpus for node in snapshot.nodes),
        free_gpu_count=sum(node.free_gpus for node in snapshot.nodes),
        levels=snapshot.levels,
        nodes=tuple(nodes),
        links=tuple(sorted(links, key=lambda link: (link.source, link.destination))),
    )


def _metrics_condition(state: MetricsState, time: str) -> Condition:
    status: ConditionStatus = "True" if state.available else "False"
    return Condition(METRICS_AVAILABLE, status, state.reason[:128], state.message[:1024], last_transition_time=time)


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


def _rounded(figure: float | None) -> float | None:
    return None if figure is None else float(f"{figure:.{DIGITS}g}")


def _link(link: Link) -> TopologyLink:
    figures = (link.latency_seconds, link.bandwidth_bytes_per_second)
    sources = {_SOURCES[figure.source] for figure in figures if figure.source in _SOURCES and figure.value is not None}
    ages = [figure.age_seconds for figure in figures if figure.age_seconds is not None]
    return TopologyLink(
        source=link.source,
        destination=link.destination,
        quality=_quality(link),
        latency_seconds=_rounded(link.latency_seconds.value),
        bandwidth_bytes_per_second=_rounded(link.bandwidth_bytes_per_second.value),
        age_seconds=round(max(ages), 1) if ages else None,
        sources=tuple(sorted(sources)),
        confidence=round(min(figure.confidence for figure in figures), 2),
    )


def _quality(link: Link) -> LinkQuality:
    if link.bandwidth_bytes_per_second.value == 0.0:
        return LinkQuality.DEAD
    worst_first = (Quality.UNKNOWN, Quality.ESTIMATED, Quality.MEASURED)
    figures = (link.latency_seconds, link.bandwidth_bytes_per_second)
    return _QUALITIES[min((figure.quality for figure in figures), key=worst_first.index)]


def _fitting(items: list[_Item], max_bytes: int) -> tuple[list[_Item], int]:
    """The longest prefix of `items` within `max_bytes` of JSON, and what is left of those."""
    for index, item in enumerate(items):
        size = len(msgspec.json.encode(item)) + 1
        if size > max_bytes:
            return items[:index], max_bytes
        max_bytes -= size
    return items, max_bytes
