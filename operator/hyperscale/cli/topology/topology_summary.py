"""What a cluster graph looks like in numbers: the schema of `hyperscale topology -o json`. Pure."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from statistics import fmean
from typing import Final

import msgspec

from hyperscale.cli.topology.domains import DomainPair, by_level, domain_pairs, widest
from hyperscale.model.cluster import Link, MetricsState, Node, Quality, Sample
from hyperscale.model.graph import ClusterGraph, Machine
from hyperscale.planner.graph.machine_resources import cards_of

WORST_LINKS: Final = 5
MAX_DOMAINS: Final = 16
"""Domains between which figures are listed: 136 pairs."""


class NodeRow(msgspec.Struct, frozen=True, rename="camel"):
    """One node."""

    name: str
    product: str | None
    gpu_memory_bytes: int | None
    allocatable_gpus: int
    free_gpus: int
    utilization_ratio: float | None
    """Mean of the GPUs whose figure is known, 0..1."""
    hottest_celsius: float | None
    domains: tuple[str, ...]
    state: str
    """Ready, NotReady, Cordoned or Tainted."""
    network_bytes_per_second: float | None = None
    """What one of its network cards carries, by the best source."""
    network_cards: int | None = None
    network_rails: int = 1
    """GPUs that must send at once to fill the cards."""
    network_use_ratio: float | None = None
    sources: dict[str, str] = {}
    """Where each figure above came from, by its name; several of them with a blank between where GPUs differ."""


class LevelSummary(msgspec.Struct, frozen=True, rename="camel"):
    """One topology level."""

    label: str
    domains: int
    unlabelled_nodes: int


class KnownShare(msgspec.Struct, frozen=True, rename="camel"):
    """How many figures of one kind are of which quality."""

    measured: int
    estimated: int
    unknown: int
    sources: dict[str, int] = {}
    """Usable figures by where they came from; those of files that do not tell are left out."""
    confidence: float | None = None
    """Mean of the usable ones, 0..1."""


class LinkRow(msgspec.Struct, frozen=True, rename="camel"):
    """One directed link."""

    source: str
    destination: str
    latency_seconds: float | None
    bandwidth_bytes_per_second: float | None
    sources: dict[str, str] = {}
    """Where each of the two came from, by its name."""
    confidence: float | None = None
    """Of the less sure one that is known, 0..1."""


class UplinkRow(msgspec.Struct, frozen=True, rename="camel"):
    """Uplinks of one topology domain that the policy limits."""

    name: str
    """Such as rack/r7."""
    nodes: int
    bytes_per_second: float
    """One way, all uplinks together."""
    left_bytes_per_second: float
    """What running traffic leaves of that."""


class Summary(msgspec.Struct, frozen=True, rename="camel"):
    """The whole answer."""

    source: str
    taken_at: float
    digest: str
    metrics: MetricsState
    allocatable_gpus: int
    free_gpus: int
    products: dict[str, int]
    """Allocatable GPUs by product."""
    levels: tuple[LevelSummary, ...]
    links: int
    unlisted_pairs: int
    """Ordered pairs of nodes without a link in the snapshot."""
    absent_links: str
    """What such a pair means: estimate or unreachable."""
    quality: dict[str, KnownShare]
    domain_pairs: tuple[DomainPair, ...]
    slowest_links: tuple[LinkRow, ...]
    """Highest latency first."""
    narrowest_links: tuple[LinkRow, ...]
    """Lowest bandwidth first."""
    nodes: tuple[NodeRow, ...]
    uplinks: tuple[UplinkRow, ...] = ()


def summarize(graph: ClusterGraph) -> Summary:
    """Everything that `topology` shows of a graph."""
    snapshot = graph.snapshot
    products: Counter[str] = Counter()
    for node in graph.nodes:
        products[node.gpu_product or "unknown"] += node.allocatable_gpus
    count = len(graph.nodes)
    return Summary(
        source=snapshot.source,
        taken_at=snapshot.taken_at,
        digest=graph.digest,
        metrics=snapshot.metrics,
        allocatable_gpus=sum(node.allocatable_gpus for node in graph.nodes),
        free_gpus=sum(node.free_gpus for node in graph.nodes),
        products=dict(sorted(products.items())),
        levels=tuple(_level(graph, level, label) for level, label in enumerate(snapshot.levels)),
        links=len(snapshot.links),
        unlisted_pairs=max(0, count * (count - 1) - len(graph.links.key)),
        absent_links=snapshot.absent_links.value,
        quality=_quality(graph),
        domain_pairs=domain_pairs(graph, widest(graph, MAX_DOMAINS)),
        slowest_links=_worst(snapshot.links, lambda link: link.latency_seconds, -1.0),
        narrowest_links=_worst(snapshot.links, lambda link: link.bandwidth_bytes_per_second, 1.0),
        nodes=tuple(_node_row(node, int(rails)) for node, rails in zip(graph.nodes, graph.machine.rails, strict=True)),
        uplinks=tuple(_uplinks(graph.machine)),
    )


def _uplinks(machine: Machine) -> Iterator[UplinkRow]:
    """Uplinks of all domains that have a limit."""
    capacity = machine.uplink_capacity_bytes_per_second
    left = machine.uplink_bytes_per_second
    for level, names in enumerate(machine.uplink_names):
        for domain, name in enumerate(names):
            if math.isfinite(left[level, domain]):
                whole = left if capacity is None else capacity
                nodes = int((machine.uplink_domains[level] == domain).sum())
                yield UplinkRow(name, nodes, float(whole[level, domain]), float(left[level, domain]))


def state_of(node: Node) -> str:
    """One word that says whether a pod can go there."""
    if not node.ready:
        return "NotReady"
    if not node.schedulable:
        return "Cordoned"
    return "Tainted" if any(taint.effect in ("NoSchedule", "NoExecute") for taint in node.taints) else "Ready"


def _node_row(node: Node, rails: int) -> NodeRow:
    cards = cards_of(node)
    used = [gpu.utilization_ratio.value for gpu in node.gpus if gpu.utilization_ratio.value is not None]
    warm = [gpu.temperature_celsius.value for gpu in node.gpus if gpu.temperature_celsius.value is not None]
    return NodeRow(
        name=node.name,
        product=node.gpu_product,
        gpu_memory_bytes=node.gpu_memory_bytes,
        allocatable_gpus=node.allocatable_gpus,
        free_gpus=node.free_gpus,
        utilization_ratio=fmean(used) if used else None,
        hottest_celsius=max(warm, default=None),
        domains=node.domains,
        state=state_of(node),
        network_bytes_per_second=cards.bytes_per_second,
        network_cards=cards.number,
        network_rails=rails,
        network_use_ratio=node.network_use_ratio.value,
        sources={**_sources(node), **({"networkBytesPerSecond": cards.source} if cards.source else {})},
    )


def _sources(node: Node) -> dict[str, str]:
    """Where the figures of a row came from."""
    samples = {
        "utilizationRatio": [gpu.utilization_ratio for gpu in node.gpus],
        "hottestCelsius": [gpu.temperature_celsius for gpu in node.gpus],
        "networkBytesPerSecond": [node.network_bytes_per_second],
        "networkUseRatio": [node.network_use_ratio],
    }
    sources_by_figure = {
        name: sorted({sample.source for sample in several if sample.source and sample.value is not None})
        for name, several in samples.items()
    }
    return {**node.sources, **{name: " ".join(sources) for name, sources in sources_by_figure.items() if sources}}


def _level(graph: ClusterGraph, level: int, label: str) -> LevelSummary:
    unlabelled = sum(1 for node in graph.nodes if level >= len(node.domains) or not node.domains[level])
    return LevelSummary(label=label, domains=len(by_level(graph, level)) - (1 if unlabelled else 0), unlabelled_nodes=unlabelled)


def _quality(graph: ClusterGraph) -> dict[str, KnownShare]:
    gpus = [gpu for node in graph.nodes for gpu in node.gpus]
    links = graph.snapshot.links
    return {
        "linkLatency": _known(link.latency_seconds for link in links),
        "linkBandwidth": _known(link.bandwidth_bytes_per_second for link in links),
        "gpuUtilization": _known(gpu.utilization_ratio for gpu in gpus),
        "gpuMemory": _known(gpu.memory_used_bytes for gpu in gpus),
        "gpuTemperature": _known(gpu.temperature_celsius for gpu in gpus),
        "network": _known(node.network_bytes_per_second for node in graph.nodes),
    }


def _known(samples: Iterable[Sample]) -> KnownShare:
    listed = list(samples)
    counted = Counter(sample.quality for sample in listed)
    usable = [sample for sample in listed if sample.value is not None]
    return KnownShare(
        measured=counted[Quality.MEASURED],
        estimated=counted[Quality.ESTIMATED],
        unknown=counted[Quality.UNKNOWN],
        sources=dict(sorted(Counter(sample.source for sample in usable if sample.source).items())),
        confidence=round(fmean(sample.confidence for sample in usable), 3) if usable else None,
    )


def _worst(links: tuple[Link, ...], figure: Callable[[Link], Sample], sign: float) -> tuple[LinkRow, ...]:
    """The links with the smallest `sign` × figure, among those whose figure is known."""
    signed = [(sign * value, link) for link in links if (value := figure(link).value) is not None]
    chosen = sorted(signed, key=lambda entry: (entry[0], entry[1].source, entry[1].destination))[:WORST_LINKS]
    return tuple(
        LinkRow(
            source=link.source,
            destination=link.destination,
            latency_seconds=link.latency_seconds.value,
            bandwidth_bytes_per_second=link.bandwidth_bytes_per_second.value,
            sources={name: sample.source for name, sample in _named(link) if sample.source},
            confidence=min((sample.confidence for _, sample in _named(link) if sample.value is not None), default=None),
        )
        for _, link in chosen
    )


def _named(link: Link) -> tuple[tuple[str, Sample], tuple[str, Sample]]:
    return ("latencySeconds", link.latency_seconds), ("bandwidthBytesPerSecond", link.bandwidth_bytes_per_second)
