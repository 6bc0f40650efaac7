"""Nodes, pods and metrics to one `ClusterSnapshot`; the entry to this stage, also for files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from msgspec.structs import replace

from hyperscale.model.cluster import ClusterSnapshot, Gpu, Link, MetricsState, Node, Sample
from hyperscale.model.digest import snapshot_digest
from hyperscale.model.metrics import MetricsReading
from hyperscale.model.pods import PodView
from hyperscale.model.policy import PolicySpec
from hyperscale.observe import dcgm, labels, links
from hyperscale.observe.bounded import SnapshotError
from hyperscale.observe.files import read_snapshot, write_snapshot
from hyperscale.observe.identity import NodeIndex
from hyperscale.observe.kube import is_gpu_node, node_view, requested_by_node
from hyperscale.observe.quality import STALE

__all__ = ["SnapshotError", "build_snapshot", "read_snapshot", "snapshot_digest", "write_snapshot"]

MAX_MESSAGE: Final = 1024


def build_snapshot(
    nodes: Iterable[Mapping[str, Any]], pods: Iterable[PodView], reading: MetricsReading, policy: PolicySpec, now: float
) -> ClusterSnapshot:
    """The cluster at `now` (Unix seconds): its GPU nodes, their links, every figure judged. Pure; sorted, so equal input gives equal bytes.

    nodes: raw v1 Node objects, in any order; those without GPUs are left out
    pods:  all pods of the cluster: what they hold is not free
    Raises ValueError for a node whose resources are no quantities.
    """
    listed = sorted(nodes, key=lambda node: str(node["metadata"]["name"]))
    gpu_nodes = [node for node in listed if is_gpu_node(node)]
    seen_pods = tuple(pods)
    index = NodeIndex(gpu_nodes, seen_pods)
    levels = policy.topology_levels or labels.detect_levels(node["metadata"].get("labels") or {} for node in gpu_nodes)
    gpus, gpu_notes = dcgm.gpus_by_node(reading, index, policy.limits, now)
    found_links, link_notes = links.links(reading, index, policy.limits, now)
    held = requested_by_node(seen_pods)
    views = tuple(
        node_view(node, held.get(node["metadata"]["name"], {}), gpus.get(node["metadata"]["name"], ()), levels) for node in gpu_nodes
    )
    return ClusterSnapshot(
        taken_at=now,
        nodes=views,
        links=found_links,
        levels=levels,
        metrics=metrics_state(reading, views, found_links, (*gpu_notes, *link_notes)),
    )


def metrics_state(reading: MetricsReading, nodes: Iterable[Node], found: Iterable[Link], notes: tuple[str, ...]) -> MetricsState:
    """The reading's own state, completed by what judging it showed: nothing but stale figures is as good as none."""
    state = reading.state
    if not state.available:
        return state
    samples = [
        *(sample for node in nodes for gpu in node.gpus for sample in gpu_samples(gpu)),
        *(s for link in found for s in link_samples(link)),
    ]
    if not any(sample.value is not None for sample in samples):
        if any(sample.fault == STALE for sample in samples):
            return _with(
                state, "MetricsStale", ("every figure is older than the limit: are exporters scraped, is the clock right?", *notes)
            )
        return _with(state, "MetricsEmpty", ("no figure could be used", *notes))
    message = "; ".join(text for text in (state.message, *notes) if text)
    return replace(state, message=message[:MAX_MESSAGE])


def gpu_samples(gpu: Gpu) -> tuple[Sample, ...]:
    """Every sample of a GPU, in field order."""
    return (gpu.utilization_ratio, gpu.memory_used_bytes, gpu.memory_total_bytes, gpu.temperature_celsius, gpu.power_watts, gpu.last_xid)


def link_samples(link: Link) -> tuple[Sample, Sample]:
    """Both samples of a link."""
    return link.latency_seconds, link.bandwidth_bytes_per_second


def _with(state: MetricsState, reason: str, texts: tuple[str, ...]) -> MetricsState:
    return MetricsState(available=False, reason=reason, message="; ".join(texts)[:MAX_MESSAGE], failed_queries=state.failed_queries)
