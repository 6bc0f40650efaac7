"""Clusters of production size as snapshots: Alibaba's openb and Lingjun where their data are at hand, generated ones up to 5,000 nodes.

What the data lack is assumed, by seed: openb has no network (racks of 16 in file order, pods of 8 racks) and two undisclosed models (G2 is
taken for A10, G3 for A100); Lingjun has switches but no GPU counts (8 H800 a host). Load is drawn as in `generate.cluster`: a tenth of the
nodes is full, the others up to half; links inside racks are measured, one in twenty at a tenth of its rate, one in fifty unknown; all other
links are estimated from the labels.
"""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from benchmarks import generate
from benchmarks.families import DATA
from hyperscale.model.cluster import ClusterSnapshot, Gpu, MetricsState, Node, Quality, Sample

OPENB: Final = DATA / "openb" / "nodes.csv"
LINGJUN: Final = DATA / "lingjun" / "topo.csv"
OPENB_MODELS: Final = {
    "A10": ("NVIDIA-A10", 24),
    "G2": ("NVIDIA-A10", 24),
    "G3": ("NVIDIA-A100-SXM4-80GB", 80),
    "P100": ("Tesla-P100-PCIE-16GB", 16),
    "T4": ("Tesla-T4", 15),
    "V100M16": ("Tesla-V100-SXM2-16GB", 16),
    "V100M32": ("Tesla-V100-SXM2-32GB", 32),
}
"""Product and GiB by the file's model."""
OPENB_LEVELS: Final = ("fabric.topograph.run/tier-1", "fabric.topograph.run/tier-0")
LINGJUN_LEVELS: Final = ("fabric.topograph.run/tier-1", "fabric.topograph.run/tier-0")
LINGJUN_GPUS: Final = 8
RACK_NODES: Final = 16
POD_RACKS: Final = 8


class Cluster(NamedTuple):
    """A cluster and the job that suits it."""

    name: str
    snapshot: ClusterSnapshot
    gpus_per_worker: int
    limit_seconds: float
    """Longest time for a plan."""


def openb(seed: int) -> Cluster | None:
    """1,213 GPU nodes; None without the data."""
    if not OPENB.is_file():
        return None
    rng = np.random.default_rng([seed, 1213])
    nodes = [
        _node(
            rng,
            row["sn"],
            *OPENB_MODELS[row["model"]],
            gpus=int(row["gpu"]),
            domains=(f"p{at // RACK_NODES // POD_RACKS}", f"p{at // RACK_NODES // POD_RACKS}/s{at // RACK_NODES}"),
            levels=OPENB_LEVELS,
            cores=int(row["cpu_milli"]) / 1000,
            memory=int(row["memory_mib"]) * 1024**2,
        )
        for at, row in enumerate(_rows(OPENB))
    ]
    return Cluster("openb, 1,213 nodes", _snapshot(rng, nodes, OPENB_LEVELS, "openb"), 2, 1.0)


def lingjun(seed: int) -> Cluster | None:
    """847 hosts; None without the data."""
    if not LINGJUN.is_file():
        return None
    rng = np.random.default_rng([seed, 847])
    nodes = [
        _node(
            rng,
            row["ip"][:12],
            "NVIDIA-H800",
            80,
            gpus=LINGJUN_GPUS,
            domains=(row["PSW"], f"{row['PSW']}/{row['ASW']}"),
            levels=LINGJUN_LEVELS,
            cores=96.0,
            memory=1024 * 1024**3,
        )
        for row in _rows(LINGJUN)
    ]
    return Cluster("lingjun, 847 nodes", _snapshot(rng, nodes, LINGJUN_LEVELS, "lingjun"), 4, 1.0)


def generated(nodes: int, seed: int) -> Cluster:
    """Racks, zones and regions of `generate.cluster`."""
    return Cluster(f"generated, {nodes:,} nodes", generate.cluster(nodes, seed), 4, 3.0 if nodes > 1213 else 1.0)


def _rows(file: Path) -> list[dict[str, str]]:
    with file.open(newline="") as text:
        return list(csv.DictReader(text))


def _snapshot(rng: np.random.Generator, nodes: list[Node], levels: tuple[str, ...], source: str) -> ClusterSnapshot:
    racks: dict[str, list[Node]] = {}
    for node in nodes:
        racks.setdefault(node.domains[-1], []).append(node)
    links = generate.measured_links(rng, [racks[name] for name in sorted(racks)])
    return ClusterSnapshot(
        taken_at=0.0,
        nodes=tuple(sorted(nodes, key=lambda node: node.name)),
        links=tuple(sorted(links, key=lambda link: (link.source, link.destination))),
        levels=levels,
        metrics=MetricsState(available=True),
        source=source,
    )


def _node(
    rng: np.random.Generator,
    name: str,
    product: str,
    gib: int,
    *,
    gpus: int,
    domains: tuple[str, ...],
    levels: tuple[str, ...],
    cores: float,
    memory: int,
) -> Node:
    busy = gpus if rng.random() < 0.1 else int(rng.integers(0, gpus // 2 + 1))
    load = round(float(np.clip(rng.normal(0.15, 0.2), 0.0, 0.95)), 2)
    return Node(
        name=name,
        gpu_product=product,
        gpu_memory_bytes=gib * 1024**3,
        allocatable_gpus=gpus,
        requested_gpus=busy,
        labels={"kubernetes.io/hostname": name, **dict(zip(levels, domains, strict=True))},
        domains=domains,
        gpus=tuple(
            Gpu(uuid=f"GPU-{name}-{device}", utilization_ratio=_measured(1.0 if device < busy else load), last_xid=_measured(0.0))
            for device in range(gpus)
        ),
        allocatable_cpu_cores=cores,
        allocatable_memory_bytes=memory,
        requested_cpu_cores=round(cores * 0.8 * busy / gpus, 3),
        requested_memory_bytes=int(memory * 0.8 * busy / gpus),
    )


def _measured(value: float) -> Sample:
    return Sample(value=value, age_seconds=5.0, quality=Quality.MEASURED)
