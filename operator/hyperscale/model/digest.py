"""One name for what a plan may depend on: equal digests mean that planning again would give the same plan."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Final

import msgspec
from msgspec.structs import replace

from hyperscale.model.cluster import UNKNOWN_SAMPLE, ClusterSnapshot, Gpu, Link, MetricsState, Node, Origin, Sample

CARD_SOURCES: Final = (Origin.INFINIBAND, Origin.NODE_EXPORTER)
"""Sources of a card's speed that decide whether the table of machines counts instead, and which nodes are on one fabric."""
LINK_SOURCES: Final = (Origin.AGENT,)
"""Agents measure the pod network: between nodes of one fabric their figures do not count."""
CARDS: Final = "networkCards"

_ENCODER = msgspec.json.Encoder(order="deterministic")


def snapshot_digest(snapshot: ClusterSnapshot) -> str:
    """64 hex digits of the sha256 of the canonical JSON of `snapshot`, without what only tells its time.

    Left out: `taken_at`, age and source of every sample, the wording of the metrics state, and what no plan reads: temperature, power and
    used memory of GPUs, and why the use of network cards is unknown. Of all else values, qualities, faults and confidence count.
    Sources that decide stay: CARD_SOURCES of a card's speed, LINK_SOURCES of links, and an administrator's count of cards.
    """
    timeless = replace(
        snapshot,
        taken_at=0.0,
        nodes=tuple(_timeless_node(node) for node in snapshot.nodes),
        links=_timeless_links(snapshot.links),
        metrics=MetricsState(available=snapshot.metrics.available, reason=snapshot.metrics.reason),
    )
    text = bytearray()
    _ENCODER.encode_into(timeless, text)  # encode() of msgspec 0.22 ends the process with SIGSEGV where its buffer cannot grow
    return hashlib.sha256(text).hexdigest()


def _timeless_node(node: Node) -> Node:
    """`node` with ages and sources cleared, but for those that decide; itself when there is nothing to clear."""
    speed = _timeless(node.network_bytes_per_second, CARD_SOURCES)
    if not (node.gpus or node.sources or speed is not node.network_bytes_per_second or node.network_use_ratio.value is not None):
        return node
    return replace(
        node,
        gpus=tuple(_timeless_gpu(gpu) for gpu in node.gpus),
        network_bytes_per_second=speed,
        network_use_ratio=_timeless(node.network_use_ratio) if node.network_use_ratio.value is not None else UNKNOWN_SAMPLE,
        sources={CARDS: Origin.OVERRIDE} if node.sources.get(CARDS) == Origin.OVERRIDE else {},
    )


def _timeless_gpu(gpu: Gpu) -> Gpu:
    # By place, here and below: names double the time, and a cluster of 5,000 nodes has 75,000 links.
    return Gpu(
        gpu.uuid, _timeless(gpu.utilization_ratio), UNKNOWN_SAMPLE, _timeless(gpu.memory_total_bytes), last_xid=_timeless(gpu.last_xid)
    )


def _timeless_links(links: Sequence[Link]) -> tuple[Link, ...]:
    """`links` with `_timeless` of both figures, in one loop for the same reason."""
    timeless = []
    for link in links:
        wait, rate = link.latency_seconds, link.bandwidth_bytes_per_second
        waits = Sample(wait.value, None, wait.quality, wait.fault, wait.source if wait.source in LINK_SOURCES else "", wait.confidence)
        rates = Sample(rate.value, None, rate.quality, rate.fault, rate.source if rate.source in LINK_SOURCES else "", rate.confidence)
        timeless.append(Link(link.source, link.destination, waits, rates))
    return tuple(timeless)


def _timeless(sample: Sample, deciding: Sequence[str] = ()) -> Sample:
    """`sample` without its age, and without its source if that is not one of `deciding`."""
    source = sample.source
    if source and source not in deciding:
        source = ""
    elif sample.age_seconds is None:
        return sample
    return Sample(sample.value, None, sample.quality, sample.fault, source, sample.confidence)
