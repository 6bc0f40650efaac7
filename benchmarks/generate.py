"""Seeded clusters of 50 to 5,000 GPU nodes: regions, zones, racks, mixed products, load, measured links with faults."""

from __future__ import annotations

import numpy as np
from msgspec.structs import replace

from hyperscale.model.cluster import ClusterSnapshot, Gpu, Link, MetricsState, Node, Quality, Sample

LEVELS = ("topology.kubernetes.io/region", "topology.kubernetes.io/zone", "fabric.topograph.run/tier-0")
PRODUCTS = (
    ("NVIDIA-H100-80GB-HBM3", 80, 0.15),
    ("NVIDIA-A100-SXM4-80GB", 80, 0.3),
    ("Tesla-V100-SXM2-32GB", 32, 0.3),
    ("Tesla-T4", 15, 0.25),
)
"""Product, GiB, part of the racks."""
RACK_NODES = 16
RACKS_PER_ZONE = 8
ZONES_PER_REGION = 3


def cluster(nodes: int, seed: int) -> ClusterSnapshot:
    """A cluster of `nodes` nodes with 4 or 8 GPUs each; racks are of one product.

    A tenth of the nodes has no free GPU, the others some load; links inside racks and from each rack's first node to the next rack's are
    measured, one in twenty at a tenth of its rate, one in fifty is unknown.
    """
    rng = np.random.default_rng(seed)
    racks = -(-nodes // RACK_NODES)
    product_of = rng.choice(len(PRODUCTS), size=racks, p=[part for _, _, part in PRODUCTS])
    members = [_node(rng, index, int(product_of[index // RACK_NODES])) for index in range(nodes)]
    links = measured_links(rng, [members[first : first + RACK_NODES] for first in range(0, len(members), RACK_NODES)])
    return ClusterSnapshot(
        taken_at=0.0,
        nodes=tuple(members),
        links=tuple(sorted(links, key=lambda link: (link.source, link.destination))),
        levels=LEVELS,
        metrics=MetricsState(available=True),
        source="generated",
    )


def wild(nodes: int, seed: int) -> ClusterSnapshot:
    """Nodes without labels whose links follow no structure: every pair measured, log-normal over two orders of magnitude.

    The hardest kind for a planner that grows neighbourhoods; real clusters are not like it.
    """
    rng = np.random.default_rng(seed)
    members = [replace(_node(rng, index, int(rng.integers(len(PRODUCTS)))), domains=(), labels={}) for index in range(nodes)]
    links = [
        Link(a.name, b.name, _measured(1e-4 * float(rng.lognormal(0.0, 1.0))), _measured(3e9 * float(rng.lognormal(0.0, 1.0))))
        for a in members
        for b in members
        if a is not b
    ]
    return ClusterSnapshot(taken_at=0.0, nodes=tuple(members), links=tuple(links), metrics=MetricsState(available=True), source="generated")


def _node(rng: np.random.Generator, index: int, product: int) -> Node:
    rack = index // RACK_NODES
    zone = rack // RACKS_PER_ZONE
    region = zone // ZONES_PER_REGION
    gpus = 4 if rng.random() < 0.5 else 8
    busy = gpus if rng.random() < 0.1 else int(rng.integers(0, gpus // 2 + 1))
    load = float(np.clip(rng.normal(0.15, 0.2), 0.0, 0.95))
    domains = (f"r{region}", f"r{region}/z{zone}", f"r{region}/z{zone}/s{rack}")
    name, memory, _ = PRODUCTS[product]
    return Node(
        name=f"node-{index:05d}",
        gpu_product=name,
        gpu_memory_bytes=memory * 1024**3,
        allocatable_gpus=gpus,
        requested_gpus=busy,
        labels={"kubernetes.io/hostname": f"node-{index:05d}", **dict(zip(LEVELS, domains, strict=True))},
        domains=domains,
        gpus=tuple(
            Gpu(uuid=f"GPU-{index}-{device}", utilization_ratio=_measured(1.0 if device < busy else load), last_xid=_measured(0.0))
            for device in range(gpus)
        ),
        allocatable_cpu_cores=64.0,
        allocatable_memory_bytes=512 * 1024**3,
    )


def measured_links(rng: np.random.Generator, racks: list[list[Node]]) -> list[Link]:
    """Links inside every rack, and between the first nodes of neighbouring racks, with faults."""
    links: list[Link] = []
    for rack, following in zip(racks, [*racks[1:], []], strict=True):
        links += [_link(rng, a, b, 2e-5, 12.5e9) for a in rack for b in rack if a is not b]
        links += [
            link for other in following[:1] for link in (_link(rng, rack[0], other, 1e-4, 6e9), _link(rng, other, rack[0], 1e-4, 6e9))
        ]
    return links


def _link(rng: np.random.Generator, source: Node, destination: Node, latency: float, bandwidth: float) -> Link:
    slow = 10.0 if rng.random() < 0.05 else 1.0
    unknown = rng.random() < 0.02
    noise = float(rng.lognormal(0.0, 0.1))
    return Link(
        source=source.name,
        destination=destination.name,
        latency_seconds=Sample(None, None, Quality.UNKNOWN, "no sample") if unknown else _measured(latency * noise * slow),
        bandwidth_bytes_per_second=_measured(bandwidth / noise / slow),
    )


def _measured(value: float) -> Sample:
    return Sample(value=value, age_seconds=5.0, quality=Quality.MEASURED)
