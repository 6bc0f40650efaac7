"""DCGM exporter series to the GPUs of every node. Pure.

`last_xid` is sticky: the exporter repeats the last XID number until it restarts, also long after the fault was dealt with.
A harmless XID hides a fatal one before it, as 45 often does; our agent serves the fatal one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import chain
from typing import Final, NamedTuple

from hyperscale.model.api.policy import QualityLimits
from hyperscale.model.cluster import Gpu, Origin, Quality, Sample
from hyperscale.model.metrics_reading import MetricsReading, Series
from hyperscale.observe.dropped_counter import Tally
from hyperscale.observe.identity import POD_LABELS, Agents, NodeIndex
from hyperscale.observe.quality import FROZEN, MISSING, Point, judge, rules, unknown
from hyperscale.observe.series.debounce import FREEZING
from hyperscale.observe.series.recently_freed import IDLE_RATIO, PodName

GPU_FIGURES: Final = ("gpu_utilization", "memory_used", "memory_free", "memory_reserved", "temperature", "power", "xid")
UUID_LABELS: Final = ("UUID", "uuid", "gpu_uuid", "GPU_UUID")
INDEX_LABELS: Final = ("gpu", "minor_number", "device")
MIG_LABELS: Final = ("GPU_I_ID", "gpu_i_id")
MIG_FAULT: Final = "split by MIG: the figures belong to its instances"

GpuKey = tuple[str, str]
"""Node name and GPU UUID."""


def gpus_by_node(
    reading: MetricsReading, index: NodeIndex, limits: QualityLimits, now: float
) -> tuple[dict[str, tuple[Gpu, ...]], tuple[str, ...]]:
    """GPUs of every node that has series, sorted by UUID, and notes on series that belong to no GPU of ours."""
    tally, agents = Tally(), Agents(reading)
    uuids = _uuids(reading, index)
    points: dict[GpuKey, dict[str, list[Point]]] = {}
    split: set[GpuKey] = set()
    for figure in GPU_FIGURES:
        _collect(reading.series.get(figure, ()), figure, _Sorting(index, agents, uuids, tally, points, split))
    figure_rules = rules(limits)
    by_node: dict[str, list[Gpu]] = {}
    for node, uuid in sorted(points.keys() | split):
        given = points.get((node, uuid), {})
        samples = {name: judge(given.get(name, ()), figure_rules[name], now, limits.max_age_seconds) for name in GPU_FIGURES}
        if _is_frozen(given, samples):
            samples = {name: unknown(FROZEN, sample.age_seconds, sample.source) for name, sample in samples.items()}
        if not given:
            samples = dict.fromkeys(GPU_FIGURES, unknown(MIG_FAULT))
        by_node.setdefault(node, []).append(_gpu(uuid, samples))
    return {node: tuple(gpus) for node, gpus in by_node.items()}, tally.notes()


def holders_by_node(reading: MetricsReading, index: NodeIndex) -> dict[str, dict[str, PodName]]:
    """The pod that each GPU's use was read under, by node and UUID; GPUs whose series name none are absent."""
    holders: dict[str, dict[str, PodName]] = {}
    for one in reading.series.get("gpu_utilization", ()):
        name = holder(one.labels)
        node, uuid = (index.of_series(one.labels), gpu_uuid(one.labels)) if name else (None, None)
        if name and node and uuid:
            holders.setdefault(node, {})[uuid] = name
    return holders


def holder(labels: Mapping[str, str]) -> PodName | None:
    """Namespace and name of the pod that a series names: exported_… where Prometheus kept the target's own labels apart."""
    for namespace_key, pod_key in reversed(POD_LABELS):
        if labels.get(namespace_key) and labels.get(pod_key):
            return labels[namespace_key], labels[pod_key]
    return None


class _Sorting(NamedTuple):
    """What sorting series by GPU needs and fills."""

    names: NodeIndex
    agents: Agents
    uuids: Mapping[GpuKey, str]
    tally: Tally
    points: dict[GpuKey, dict[str, list[Point]]]
    split: set[GpuKey]


def _collect(series: Iterable[Series], figure: str, into: _Sorting) -> None:
    """Sort the points of one figure by GPU; what cannot be sorted is counted."""
    for one in series:
        node = into.names.of_series(one.labels)
        if node is None:
            into.tally.add("GPU series name no node of this cluster", _called(one.labels))
            continue
        uuid = gpu_uuid(one.labels)
        if uuid is None:
            into.tally.add("GPU series have neither a UUID nor a gpu label", node)
            continue
        uuid = into.uuids.get((node, uuid), uuid)
        if one.labels.get(MIG_LABELS[0]) or one.labels.get(MIG_LABELS[1]):
            into.tally.add("series of MIG instances are left out", node)
            into.split.add((node, uuid))
        else:
            source = Origin.AGENT if into.agents.exported(one.labels) else Origin.DCGM
            into.points.setdefault((node, uuid), {}).setdefault(figure, []).append(Point(one.value, one.timestamp, source, one.verdict))


def _uuids(reading: MetricsReading, index: NodeIndex) -> dict[GpuKey, str]:
    """UUID by node and name by index ("gpu-3"), from series that tell both: of two exporters of a node, one may not know UUIDs."""
    if all(uuid_label(one.labels) for figure in GPU_FIGURES for one in reading.series.get(figure, ())):
        return {}
    uuids: dict[GpuKey, str] = {}
    for one in chain.from_iterable(reading.series.get(figure, ()) for figure in GPU_FIGURES):
        uuid = uuid_label(one.labels)
        node = index.of_series(one.labels) if uuid else None
        if uuid and node and one.labels.get("gpu"):
            uuids[node, f"gpu-{one.labels['gpu']}"] = uuid
    return uuids


def _gpu(uuid: str, samples: Mapping[str, Sample]) -> Gpu:
    return Gpu(
        uuid=uuid,
        utilization_ratio=samples["gpu_utilization"],
        memory_used_bytes=samples["memory_used"],
        memory_total_bytes=_total(samples["memory_used"], samples["memory_free"], samples["memory_reserved"]),
        temperature_celsius=samples["temperature"],
        power_watts=samples["power"],
        last_xid=samples["xid"],
    )


def _is_frozen(given: Mapping[str, list[Point]], samples: Mapping[str, Sample]) -> bool:
    """Whether a GPU works, and yet its use, temperature and power have been the same for many scrapes."""
    use = samples["gpu_utilization"].value
    if use is None or use <= IDLE_RATIO or "power" not in given:
        return False
    return all(
        point.verdict is not None and point.verdict.frozen
        for figure in FREEZING
        for point in given.get(figure, ())
        if point.source == samples[figure].source
    )


def _total(used: Sample, free: Sample, reserved: Sample) -> Sample:
    """Framebuffer of the GPU: the exporter has no total by default, and older ones no reserved part (about 1 %) either."""
    for part in (used, free):
        if part.value is None:
            return unknown(part.fault or MISSING, part.age_seconds, part.source)
    parts = [used, free] if reserved.value is None else [used, free, reserved]
    total = sum(part.value for part in parts if part.value is not None)
    age = max(part.age_seconds for part in parts if part.age_seconds is not None)
    if total <= 0:
        return unknown("used and free memory are both 0", age)
    quality, confidence = (Quality.ESTIMATED, 0.9) if reserved.value is None else (Quality.MEASURED, 1.0)
    return Sample(value=total, age_seconds=age, quality=quality, source=used.source, confidence=confidence)


def gpu_uuid(labels: Mapping[str, str]) -> str | None:
    """The GPU's UUID; for exporters without one, its index on the node."""
    return uuid_label(labels) or next((f"{label}-{labels[label]}" for label in INDEX_LABELS if labels.get(label)), None)


def uuid_label(labels: Mapping[str, str]) -> str | None:
    """The UUID under whichever label the exporter writes it; None without one."""
    for label in UUID_LABELS:
        if uuid := labels.get(label):
            return uuid
    return None


def _called(labels: Mapping[str, str]) -> str:
    """What the series calls its node, for people."""
    return next((labels[key] for key in ("node", "Hostname", "hostname", "instance") if labels.get(key)), "unnamed")
