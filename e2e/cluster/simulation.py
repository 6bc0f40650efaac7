"""What the simulated hardware measures: GPU figures that follow the pods placed on each node, link figures, and wished-for faults. Pure.

A pod holds GPUs from the moment it is bound until it is gone or ended, the lowest free devices first. A Running pod loads its GPUs by
the annotation `hyperscale.dev/simulated-utilization` (percent, 90 without it); other GPUs idle at 0..2 %.
"""

from __future__ import annotations

import uuid
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from e2e.cluster.topology import Figures, LinkTable, Topology, measured_pairs

GPU: Final = "nvidia.com/gpu"
UTILIZATION_ANNOTATION: Final = "hyperscale.dev/simulated-utilization"
BUSY_PERCENT: Final = 90.0
DRIVER_VERSION: Final = "580.95.05"
FAULTS: Final = {"nan": "NaN", "infinite": "+Inf", "negative": "-1", "absent": ""}
"""Kinds of fault and what is written instead of the figure; absent writes no line."""
_RESERVED_MIB: Final = 512

METRICS: Final = (
    ("DCGM_FI_DEV_GPU_UTIL", "GPU utilization (in %)."),
    ("DCGM_FI_DEV_FB_USED", "Framebuffer memory used (in MiB)."),
    ("DCGM_FI_DEV_FB_FREE", "Framebuffer memory free (in MiB)."),
    ("DCGM_FI_DEV_FB_RESERVED", "Framebuffer memory reserved (in MiB)."),
    ("DCGM_FI_DEV_GPU_TEMP", "GPU temperature (in C)."),
    ("DCGM_FI_DEV_POWER_USAGE", "Power draw (in W)."),
    ("DCGM_FI_DEV_XID_ERRORS", "Value of the last XID error encountered."),
)
LATENCY: Final = "hyperscale_link_latency_seconds"
BANDWIDTH: Final = "hyperscale_link_bandwidth_bytes_per_second"


@dataclass(frozen=True, slots=True)
class Device:
    """One GPU as DCGM labels it."""

    node: str
    index: int
    memory_mib: int
    idle_watts: int
    busy_watts: int
    labels: str
    """Everything between the braces except the holder."""


@dataclass(frozen=True, slots=True)
class Holder:
    """A pod with its GPUs."""

    node: str
    devices: tuple[int, ...]
    percent: float
    """Load of each of its GPUs now: 0 before it runs."""
    labels: str


@dataclass(slots=True)
class Wishes:
    """What a test asked for over the control endpoints."""

    load: dict[str, float] = field(default_factory=dict)
    """Percent by node: work of others on every GPU of that node."""
    links: dict[tuple[str, str], Figures] = field(default_factory=dict)
    faults: dict[str, dict[str, str]] = field(default_factory=dict)
    """By node: metric name (or "*") to the kind of fault."""
    xids: dict[str, int] = field(default_factory=dict)
    """By node: the last XID error of its GPU 0."""


class Simulation:
    """The state behind /metrics."""

    def __init__(self, topology: Topology) -> None:
        self.wishes = Wishes()
        self._table = LinkTable(topology)
        self._pairs = measured_pairs(topology)
        self._devices = [device for place in range(len(topology.nodes)) for device in _devices(topology, place)]
        self._gpus = {machine.name: topology.gpus_of(machine) for machine in topology.nodes}
        self._holders: dict[str, Holder] = {}

    @property
    def nodes(self) -> frozenset[str]:
        """Names of all nodes."""
        return frozenset(self._gpus)

    def figures(self, source: str, destination: str) -> Figures:
        """Of one link as it is reported now."""
        return self.wishes.links.get((source, destination)) or self._table.figures(source, destination)

    def natural_figures(self, source: str, destination: str) -> Figures:
        """Of one link without anybody's wish."""
        return self._table.figures(source, destination)

    def replace_pods(self, pods: Iterable[dict[str, Any]]) -> None:
        """Take the result of a list: what is not in it is gone."""
        found = {pod["metadata"]["uid"]: pod for pod in pods}
        for uid in [uid for uid in self._holders if uid not in found]:
            del self._holders[uid]
        for pod in found.values():
            self.pod_changed(pod)

    def pod_changed(self, pod: dict[str, Any]) -> None:
        """Take one pod as it is now."""
        uid, node = pod["metadata"]["uid"], pod["spec"].get("nodeName", "")
        wanted = gpus_of(pod)
        if not wanted or node not in self._gpus or pod.get("status", {}).get("phase") in ("Succeeded", "Failed"):
            self._holders.pop(uid, None)
            return
        known = self._holders.get(uid)
        devices = known.devices if known else self._free(node)[:wanted]
        self._holders[uid] = Holder(node, devices, _percent(pod), _holder_labels(pod))

    def pod_gone(self, uid: str) -> None:
        """Take a deletion."""
        self._holders.pop(uid, None)

    def _free(self, node: str) -> tuple[int, ...]:
        taken = {index for holder in self._holders.values() if holder.node == node for index in holder.devices}
        return tuple(index for index in range(self._gpus[node]) if index not in taken)

    def render(self) -> str:
        """The whole exposition text."""
        held = {(holder.node, index): holder for holder in list(self._holders.values()) for index in holder.devices}
        rows = [(device, self._values(device, held.get((device.node, device.index)))) for device in self._devices]
        lines: list[str] = []
        for column, (metric, text) in enumerate(METRICS):
            lines += (f"# HELP {metric} {text}", f"# TYPE {metric} gauge")
            for device, (holder, values) in rows:
                written = self._written(metric, device.node, values[column])
                if written:
                    lines.append(f"{metric}{{{device.labels}{holder}}} {written}")
        lines += self._link_lines()
        return "\n".join(lines) + "\n"

    def _values(self, device: Device, holder: Holder | None) -> tuple[str, tuple[float, ...]]:
        percent = max(holder.percent if holder else 0.0, self.wishes.load.get(device.node, 0.0))
        if percent == 0.0:
            percent = float(zlib.crc32(f"{device.node}/{device.index}".encode()) % 3)
        share = percent / 100
        used = round(share * 0.8 * (device.memory_mib - _RESERVED_MIB)) if share > 0.02 else 4
        xid = self.wishes.xids.get(device.node, 0) if device.index == 0 else 0
        free = device.memory_mib - _RESERVED_MIB - used
        watts = device.idle_watts + share * (device.busy_watts - device.idle_watts)
        return holder.labels if holder else "", (percent, used, free, _RESERVED_MIB, round(31 + 45 * share), round(watts, 1), xid)

    def _written(self, metric: str, node: str, value: float) -> str:
        faults = self.wishes.faults.get(node)
        kind = faults and (faults.get(metric) or faults.get("*"))
        return FAULTS[kind] if kind else f"{value:g}"

    def _link_lines(self) -> Iterator[str]:
        rows = [(f'{{source="{a}",destination="{b}"}}', self.figures(a, b)) for a, b in self._pairs]
        yield f"# TYPE {LATENCY} gauge"
        yield from (f"{LATENCY}{labels} {figures.latency_seconds:.9g}" for labels, figures in rows)
        yield f"# TYPE {BANDWIDTH} gauge"
        yield from (f"{BANDWIDTH}{labels} {figures.bandwidth_bytes_per_second:.9g}" for labels, figures in rows)


def gpus_of(pod: dict[str, Any]) -> int:
    """GPUs that a pod's containers ask for."""
    return sum(int(one.get("resources", {}).get("limits", {}).get(GPU, 0)) for one in pod["spec"].get("containers", ()))


def _percent(pod: dict[str, Any]) -> float:
    if pod.get("status", {}).get("phase") != "Running":
        return 0.0
    try:
        wished = float(pod["metadata"].get("annotations", {}).get(UTILIZATION_ANNOTATION, BUSY_PERCENT))
    except ValueError:
        return BUSY_PERCENT
    return min(100.0, max(0.0, wished)) if wished == wished else BUSY_PERCENT


def _holder_labels(pod: dict[str, Any]) -> str:
    container = next((one["name"] for one in pod["spec"]["containers"] if GPU in one.get("resources", {}).get("limits", {})), "")
    return f',namespace="{pod["metadata"]["namespace"]}",pod="{pod["metadata"]["name"]}",container="{container}"'


def _devices(topology: Topology, place: int) -> Iterator[Device]:
    """GPUs of the node at that place; even places spell the label `Hostname` (before 2026-05), odd ones `hostname`."""
    machine = topology.nodes[place]
    product = topology.product_of(machine)
    spelling = "hostname" if place % 2 else "Hostname"
    for index in range(topology.gpus_of(machine)):
        identity = uuid.uuid5(uuid.NAMESPACE_DNS, f"{machine.name}/{index}")
        labels = (
            f'gpu="{index}",UUID="GPU-{identity}",pci_bus_id="00000000:{index + 16:02X}:00.0",device="nvidia{index}",'
            f'modelName="{product.product.replace("-", " ")}",{spelling}="{machine.name}",DCGM_FI_DRIVER_VERSION="{DRIVER_VERSION}"'
        )
        yield Device(machine.name, index, product.memory_mib, product.idle_watts, product.busy_watts, labels)
