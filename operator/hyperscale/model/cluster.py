"""The cluster as observed at one moment: nodes, GPUs, links, each figure with its age and quality.

`ClusterSnapshot` is what the observe stage produces, what `hyperscale snapshot` writes to a file, and what every plan is made from.
"""

from __future__ import annotations

import enum

import msgspec


class Quality(enum.StrEnum):
    """How far a figure may be trusted, best first."""

    MEASURED = "measured"
    """A fresh, finite, plausible sample."""
    ESTIMATED = "estimated"
    """Derived from labels or tables, not measured."""
    UNKNOWN = "unknown"
    """Nothing usable: missing, stale, NaN, infinite, negative or absurd. The value is None, never 0."""


class Origin(enum.StrEnum):
    """Where a figure can come from, the one that counts first; files may name others."""

    OVERRIDE = "override"
    """Written by an administrator into PlannerPolicy."""
    AGENT = "agent"
    """Measured by HyperScale's own node agent."""
    DCGM = "dcgm"
    """DCGM exporter, or another exporter with its names."""
    PROMETHEUS = "prometheus"
    """A query of the administrator's own, from any exporter."""
    INFINIBAND = "infiniband"
    """InfiniBand ports, as node-exporter reads them."""
    NODE_EXPORTER = "node-exporter"
    """Network cards, as node-exporter reads them."""
    GFD = "gfd"
    """Labels of GPU Feature Discovery."""
    LABELS = "labels"
    """Topology labels of the node; a Kueue Topology may say which of them are levels."""
    HYPERNODE = "hypernode"
    """Volcano's HyperNodes."""
    PODS = "pods"
    """Reckoned from pods: a GPU whose pod has ended is idle before an exporter says so."""


# gc=False: frozen values in values, which cannot form a cycle. A million of them would hold up every full collection.
class Sample(msgspec.Struct, frozen=True, rename="camel", gc=False, omit_defaults=True):
    """One metric figure of one thing."""

    value: float | None
    """In the unit that the holding field names; None exactly when quality is UNKNOWN."""
    age_seconds: float | None
    """Seconds between the sample's own timestamp and the snapshot; None when nothing was sampled."""
    quality: Quality
    fault: str | None = None
    """Why the figure is unknown, in words a person can act on; None when it is usable."""
    source: str = ""
    """Where the figure came from (see `Origin`); "" where it is not told. Of network cards and links it decides which figure counts."""
    confidence: float = 1.0
    """0..1: how steady the figure has been, and how directly it was taken; 0 when unknown. Low confidence widens a forecast."""


UNKNOWN_SAMPLE = Sample(value=None, age_seconds=None, quality=Quality.UNKNOWN, fault="no sample", confidence=0.0)


class Gpu(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """One GPU as DCGM describes it."""

    uuid: str
    utilization_ratio: Sample = UNKNOWN_SAMPLE
    """0..1 (DCGM_FI_DEV_GPU_UTIL / 100)."""
    memory_used_bytes: Sample = UNKNOWN_SAMPLE
    """DCGM_FI_DEV_FB_USED, converted from MiB."""
    memory_total_bytes: Sample = UNKNOWN_SAMPLE
    """FB_USED + FB_FREE + FB_RESERVED, converted from MiB."""
    temperature_celsius: Sample = UNKNOWN_SAMPLE
    power_watts: Sample = UNKNOWN_SAMPLE
    last_xid: Sample = UNKNOWN_SAMPLE
    """DCGM_FI_DEV_XID_ERRORS: number of the last XID error; 0 is "none so far"."""


class Taint(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """A node taint, as in the core API."""

    key: str
    value: str = ""
    effect: str = "NoSchedule"


NVLINK = "NVLink"
PATH_KINDS = (NVLINK, "PcieSwitch", "PcieBridge", "Socket", "System")
"""Ways between two GPUs of a node, widest first."""


class GpuPaths(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """How the GPUs of a node reach each other, as its agent reads it from the driver."""

    kind: str
    """Of the narrowest way between two of them, see PATH_KINDS."""
    nvlinks: int = 0
    """NVLinks of the pair with the fewest; 0 where `kind` is another."""


class Node(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """One Kubernetes node that has, or had, GPUs."""

    name: str
    gpu_product: str | None
    """GPU Feature Discovery product with sharing suffixes stripped, e.g. NVIDIA-A100-SXM4-80GB; None when unlabelled."""
    gpu_memory_bytes: int | None
    """Memory of one GPU (label nvidia.com/gpu.memory, MiB there); None when unlabelled."""
    allocatable_gpus: int
    requested_gpus: int
    """GPUs held by pods on this node, Terminating ones included: their devices are not free yet."""
    ready: bool = True
    schedulable: bool = True
    """False when cordoned."""
    taints: tuple[Taint, ...] = ()
    labels: dict[str, str] = {}
    domains: tuple[str, ...] = ()
    """Topology domains from widest to narrowest, aligned with `ClusterSnapshot.levels`; "" where the node has no such label."""
    gpus: tuple[Gpu, ...] = ()
    allocatable_cpu_cores: float | None = None
    allocatable_memory_bytes: int | None = None
    requested_cpu_cores: float = 0.0
    requested_memory_bytes: int = 0
    allocatable: dict[str, float] = {}
    """Further resources by name: pods, ephemeral-storage (bytes), hugepages, and devices other than nvidia.com/gpu. A name that is not
    there is not offered; an empty map tells nothing."""
    requested: dict[str, float] = {}
    """What pods hold of those."""
    network_bytes_per_second: Sample = UNKNOWN_SAMPLE
    """What one of its fastest network cards or InfiniBand ports carries, one way."""
    network_cards: int | None = None
    """Cards or ports of that speed; all together carry the product. None where nothing tells: one counts."""
    network_use_ratio: Sample = UNKNOWN_SAMPLE
    """0..1: use of those cards in the busier direction."""
    gpu_paths: GpuPaths | None = None
    """None where no agent tells them."""
    sources: dict[str, str] = {}
    """Where gpuProduct, gpuMemoryBytes, networkCards and domains came from (see `Origin`); absent where nothing tells them."""

    @property
    def free_gpus(self) -> int:
        """GPUs that a new pod could get now; 0 on a node that takes no pods."""
        if not (self.ready and self.schedulable):
            return 0
        return max(0, self.allocatable_gpus - self.requested_gpus)


class Link(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """A directed network path between two nodes, as last measured."""

    source: str
    destination: str
    latency_seconds: Sample = UNKNOWN_SAMPLE
    """Half the median round trip of a small message (Hulk §3: edge weight)."""
    bandwidth_bytes_per_second: Sample = UNKNOWN_SAMPLE
    """Sustained one-way rate."""


class AbsentLink(enum.StrEnum):
    """What it means that a pair of nodes has no `Link`."""

    ESTIMATE = "estimate"
    """It was not measured: estimate from the topology labels (a live cluster)."""
    UNREACHABLE = "unreachable"
    """The source lists every link there is: the pair cannot talk (Hulk's graph)."""


class MetricsState(msgspec.Struct, frozen=True, rename="camel"):
    """What the metrics source gave, for the Degraded condition."""

    available: bool
    reason: str = "MetricsAvailable"
    """CamelCase: MetricsAvailable, PrometheusUnreachable, PrometheusTimeout, MetricsStale, MetricsEmpty, MetricsNotConfigured."""
    message: str = ""
    failed_queries: tuple[str, ...] = ()


class ClusterSnapshot(msgspec.Struct, frozen=True, rename="camel"):
    """Everything a plan may depend on, frozen at one moment."""

    taken_at: float
    """Unix seconds; taken from the caller's clock."""
    nodes: tuple[Node, ...]
    """Sorted by name."""
    links: tuple[Link, ...] = ()
    """Sorted by (source, destination); at most one per ordered pair."""
    levels: tuple[str, ...] = ()
    """Topology label keys, widest first, hostname excluded; empty when none is known."""
    absent_links: AbsentLink = AbsentLink.ESTIMATE
    metrics: MetricsState = MetricsState(available=False, reason="MetricsNotConfigured")
    source: str = "cluster"
    """Where the snapshot came from: cluster, or the name of the file format that was read."""
    schema_version: int = 1
