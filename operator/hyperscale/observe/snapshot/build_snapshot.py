"""Nodes, pods and metrics to one `ClusterSnapshot`: the entry to this stage. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Any, Final, NamedTuple

from msgspec.structs import replace

from hyperscale.model.api.policy import Overrides, PolicySpec, QualityLimits
from hyperscale.model.cluster import ClusterSnapshot, Gpu, GpuPaths, Link, MetricsState, Node, Sample
from hyperscale.model.metrics_reading import MetricsReading
from hyperscale.model.pods import PodView
from hyperscale.observe.identity import NodeIndex
from hyperscale.observe.kube.demand import Amounts
from hyperscale.observe.kube.fabric import Fabric
from hyperscale.observe.kube.fields import node_view
from hyperscale.observe.kube.overrides import MAX_MESSAGE, spoken_for
from hyperscale.observe.quality import FROZEN, STALE
from hyperscale.observe.series import dcgm, links
from hyperscale.observe.series.links import paths_by_node
from hyperscale.observe.series.network_cards import NO_NETWORK, NodeNetwork, bounded, networks
from hyperscale.observe.series.recently_freed import Holders, PodName, Release, Tenancy, settled
from hyperscale.observe.snapshot.snapshot_cache import Memory

NO_FABRIC: Final = Fabric()
WARM_STEP: Final = 100
GPU_SAMPLES: Final = tuple(field for field in Gpu.__struct_fields__ if field != "uuid")


def build_snapshot(
    nodes: Iterable[Mapping[str, Any]],
    pods: Iterable[PodView],
    reading: MetricsReading,
    policy: PolicySpec,
    now: float,
    releases: Mapping[str, tuple[Release, ...]] | None = None,
    memory: Memory | None = None,
    fabric: Fabric = NO_FABRIC,
) -> ClusterSnapshot:
    """The cluster at `now` (Unix seconds): its GPU nodes, their links, every figure judged. Pure; sorted, so equal input gives equal bytes.

    nodes: raw v1 Node objects, in any order; those without GPUs are left out
    pods:  all pods of the cluster: what they hold is not free
    releases: GPUs that pods gave back lately, by node
    memory: of the snapshot before, which makes this one cheap; changed
    fabric: topology that other operators describe
    Raises ValueError for a node whose resources are no quantities.
    """
    memory = memory if memory is not None else Memory()
    memory.laid = (policy.overrides, fabric)
    index = memory.see(nodes, pods)
    levels = memory.levels(policy.topology_levels)
    stale = now - reading.taken_at > policy.limits.max_age_seconds
    if (figures := memory.figures(reading, policy.limits, stale)) is None:
        figures = judged(reading, index, policy.limits, now)
        memory.judged = None if stale else figures
    given_back = releases if releases is not None else {}
    views = memory.views(levels, figures, given_back, _view)
    snapshot = ClusterSnapshot(taken_at=now, nodes=views, links=figures.links, levels=levels, metrics=figures.state)
    return _overridden(snapshot, memory.gpu_nodes, policy.overrides) if policy.overrides != NO_OVERRIDES else snapshot


NO_OVERRIDES: Final = Overrides()


def _overridden(snapshot: ClusterSnapshot, nodes: Iterable[Mapping[str, Any]], overrides: Overrides) -> ClusterSnapshot:
    """The snapshot as the administrator knows it."""
    return spoken_for(snapshot, {node["metadata"]["name"]: node["metadata"].get("labels") or {} for node in nodes}, overrides)[0]


def warm(memory: Memory, policy: PolicySpec, figures: SnapshotFigures, releases: Mapping[str, tuple[Release, ...]]) -> Iterator[None]:
    """Make the views of all nodes for figures that are about to be published, a hundred nodes a step: the snapshot then finds them made."""
    levels = memory.levels(policy.topology_levels)
    for at, node in enumerate(memory.gpu_nodes):
        memory.view(node, levels, figures, releases.get(node["metadata"]["name"], ()), _view)
        if at % WARM_STEP == 0:
            yield


def _view(
    node: Mapping[str, Any],
    requested: Amounts,
    levels: tuple[str, ...],
    figures: SnapshotFigures,
    tenants: Mapping[PodName, bool],
    releases: tuple[Release, ...],
) -> Node:
    """One node, its GPUs without what was read of pods that have ended."""
    name = node["metadata"]["name"]
    view = node_view(node, requested, figures.gpus.get(name, ()), levels, figures.networks.get(name, NO_NETWORK), figures.paths.get(name))
    if not view.gpus:
        return view

    def holds(pod: PodName) -> bool | None:
        """Whether that pod has GPUs; None for one without, such as the exporter's own."""
        return None if tenants.get(pod) is False else pod in tenants

    tenancy = Tenancy(view.allocatable_gpus - view.requested_gpus, figures.holders.get(name, {}), holds, releases)
    gpus = settled(view.gpus, tenancy, figures.moment, figures.limits.release_grace_seconds)
    return view if gpus is view.gpus else replace(view, gpus=gpus)


class SnapshotFigures(NamedTuple):
    """All figures of one reading, judged."""

    reading: MetricsReading
    limits: QualityLimits
    names: NodeIndex
    """The names by which series were assigned to nodes."""
    gpus: dict[str, tuple[Gpu, ...]]
    links: tuple[Link, ...]
    state: MetricsState
    moment: float
    """Unix seconds from which ages count."""
    holders: Mapping[str, Holders]
    """The pods under which GPUs were read, by node."""
    networks: Mapping[str, NodeNetwork] = {}
    """The fastest cards of every node that tells them."""
    paths: Mapping[str, GpuPaths] = {}
    """The narrowest way between two GPUs of every node that tells one."""


def judged(reading: MetricsReading, index: NodeIndex, limits: QualityLimits, now: float) -> SnapshotFigures:
    """Every series of `reading` as a sample of a node's GPU or of a link, judged at the moment of the reading.

    A reading that is itself older than the limit at `now` counts as stale as a whole: the reader has stopped.
    """
    moment = now if now - reading.taken_at > limits.max_age_seconds else reading.taken_at
    gpus, gpu_notes = dcgm.gpus_by_node(reading, index, limits, moment)
    judged_links, link_notes = links.links(reading, index, limits, moment)
    holders = dcgm.holders_by_node(reading, index)
    series = SnapshotFigures(reading, limits, index, gpus, judged_links, reading.state, moment, holders)
    return completed(series, (*gpu_notes, *link_notes))


def completed(series: SnapshotFigures, notes: tuple[str, ...], before: Mapping[str, NodeNetwork] | None = None) -> SnapshotFigures:
    """Add figures of cards, which no link outdoes, ways between GPUs, and the state of all figures to those of GPUs and links.

    notes: on series that lead to no GPU or link; before: cards of the last reading, whose objects stay where they are equal
    """
    reading, index, limits, moment = series.reading, series.names, series.limits, series.moment
    cards = networks(reading, index, limits, moment, before)
    believed = bounded(links.believed(series.links), {name: card.together for name, card in cards.items()})
    state, paths = state_of(reading, series.gpus, believed, notes), paths_by_node(reading, index, limits, moment)
    return series._replace(links=believed, state=state, networks=cards, paths=paths)


def state_of(
    reading: MetricsReading, gpus: Mapping[str, tuple[Gpu, ...]], judged_links: Iterable[Link], notes: tuple[str, ...]
) -> MetricsState:
    """The reading's own state, completed by what judging it showed: nothing but stale figures is as good as none."""
    state = reading.state
    if not state.available:
        return state

    def samples() -> Iterator[Sample]:
        return chain(
            (sample for several in gpus.values() for gpu in several for sample in gpu_samples(gpu)),
            (sample for link in judged_links for sample in link_samples(link)),
        )

    if not any(sample.value is not None for sample in samples()):
        if any(sample.fault in (STALE, FROZEN) for sample in samples()):
            return _with(
                state,
                "MetricsStale",
                ("every figure is too old or frozen: are exporters scraped, is the clock right?", *notes),
            )
        return _with(state, "MetricsEmpty", ("no figure could be used", *notes))
    message = "; ".join(text for text in (state.message, *notes) if text)
    return replace(state, message=message[:MAX_MESSAGE])


def gpu_samples(gpu: Gpu) -> tuple[Sample, ...]:
    """Every sample of a GPU, in field order."""
    return tuple(getattr(gpu, field) for field in GPU_SAMPLES)


def link_samples(link: Link) -> tuple[Sample, Sample]:
    """Both samples of a link."""
    return link.latency_seconds, link.bandwidth_bytes_per_second


def _with(state: MetricsState, reason: str, texts: tuple[str, ...]) -> MetricsState:
    return MetricsState(available=False, reason=reason, message="; ".join(texts)[:MAX_MESSAGE], failed_queries=state.failed_queries)
