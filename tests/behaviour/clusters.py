"""Clusters as JSON values, drawn from seeds without any code of the product: the inputs of the recorded plans."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from typing import Any, Final

Json = dict[str, Any]

GIB: Final = 2**30
REGION, ZONE, RACK = "topology.kubernetes.io/region", "topology.kubernetes.io/zone", "example.com/rack"
MEMORY: Final = {
    "NVIDIA-A100-SXM4-80GB": 80,
    "NVIDIA-H100-80GB-HBM3": 80,
    "NVIDIA-A100-PCIE-40GB": 40,
    "Tesla-V100-SXM2-32GB": 32,
    "NVIDIA-A10": 24,
    "Tesla-T4": 16,
}
A100, H100, A100_PCIE, V100, A10, T4 = MEMORY
ZONES: Final = ("eu/eu-a", "eu/eu-b", "us/us-a", "us/us-b")


def measured(value: float, age_seconds: float = 3.0) -> Json:
    return {"value": figure(value), "ageSeconds": age_seconds, "quality": "measured"}


def estimated(value: float) -> Json:
    return {"value": figure(value), "ageSeconds": None, "quality": "estimated", "confidence": 0.5}


def unknown(fault: str = "no sample") -> Json:
    return {"value": None, "ageSeconds": None, "quality": "unknown", "fault": fault, "confidence": 0.0}


def figure(value: float) -> float:
    """Six digits: what a generator of another Python version may change is beyond them."""
    return float(f"{value:.6g}")


def node(name: str, product: str | None = A100, *, gpus: int = 1, load: float | None = 0.0, zone: str = ZONES[0], **fields: Any) -> Json:
    """A node of `gpus` GPUs, all at `load`; None: no figure of them is known."""
    region = zone.partition("/")[0]
    base: Json = {
        "name": name,
        "gpuProduct": product,
        "gpuMemoryBytes": MEMORY.get(product or "", 40) * GIB,
        "allocatableGpus": gpus,
        "requestedGpus": 0,
        "labels": {"kubernetes.io/hostname": name, REGION: region, ZONE: zone.partition("/")[2]},
        "domains": [region, zone],
        "gpus": [] if load is None else [{"uuid": f"GPU-{name}-{index}", "utilizationRatio": measured(load)} for index in range(gpus)],
        "allocatableCpuCores": 64.0,
        "allocatableMemoryBytes": 512 * GIB,
    }
    return base | fields


def link(source: str, destination: str, latency_seconds: float, bandwidth_bytes_per_second: float) -> Json:
    return {
        "source": source,
        "destination": destination,
        "latencySeconds": measured(latency_seconds),
        "bandwidthBytesPerSecond": measured(bandwidth_bytes_per_second),
    }


def cluster(nodes: Iterable[Json], links: Iterable[Json] = (), *, absent: str = "estimate", **fields: Any) -> Json:
    """The whole snapshot; `absent` says what a pair without a link means: estimate or unreachable."""
    base: Json = {
        "takenAt": 1000.0,
        "nodes": sorted(nodes, key=lambda entry: str(entry["name"])),
        "links": sorted(links, key=lambda entry: (entry["source"], entry["destination"])),
        "levels": [REGION, ZONE],
        "absentLinks": absent,
        "metrics": {"available": True},
    }
    return base | fields


def mesh(nodes: list[Json], figures: Callable[[Json, Json], tuple[float, float] | None]) -> list[Json]:
    """Links both ways between all pairs for which `figures` gives latency and bandwidth."""
    links = []
    for index, one in enumerate(nodes):
        for other in nodes[index + 1 :]:
            if (found := figures(one, other)) is not None:
                links += [link(one["name"], other["name"], *found), link(other["name"], one["name"], *found)]
    return links


def drawn(
    seed: int, count: int, *, most_gpus: int = 1, products: tuple[str, ...] = (A100, V100, T4, H100), busy: float = 0.8
) -> list[Json]:
    """Nodes of mixed products and loads in four zones."""
    rng = random.Random(seed)  # noqa: S311 - input of a test
    return [
        node(
            f"n{index:03d}",
            rng.choice(products),
            gpus=rng.randint(1, most_gpus),
            load=figure(rng.uniform(0.0, busy)),
            zone=rng.choice(ZONES),
        )
        for index in range(count)
    ]


def spread(seed: int, *, missing: float = 0.0) -> Callable[[Json, Json], tuple[float, float] | None]:
    """Figures of links, log-normal around those of the pair's nearest common domain; `missing` is the part of pairs without any."""
    rng = random.Random(seed)  # noqa: S311 - input of a test

    def figures(one: Json, other: Json) -> tuple[float, float] | None:
        if rng.random() < missing:
            return None
        near = one["domains"][-1] == other["domains"][-1]
        latency = (1e-4 if near else 5e-3) * rng.lognormvariate(0.0, 0.7)
        return latency, (5e9 if near else 5e8) * rng.lognormvariate(0.0, 0.7)

    return figures


def mixed(seed: int, count: int, *, missing: float = 0.0, absent: str = "estimate", most_gpus: int = 1, **fields: Any) -> Json:
    """A drawn cluster with its links measured."""
    nodes = drawn(seed, count, most_gpus=most_gpus)
    return cluster(nodes, mesh(nodes, spread(seed + 1, missing=missing)), absent=absent, **fields)


def labelled(seed: int, count: int, *, most_gpus: int = 1, **fields: Any) -> Json:
    """A drawn cluster without any measured link."""
    return cluster(drawn(seed, count, most_gpus=most_gpus), **fields)


def racks(zones: int, per_zone: int, per_rack: int, *, product: str = A100, gpus: int = 8) -> Json:
    """Equal nodes in three levels; latency and bandwidth are those of the nearest common level."""
    nodes = []
    for zone in range(zones):
        for rack in range(per_zone):
            for number in range(per_rack):
                name, rack_name = f"z{zone}-r{rack}-{number:02d}", f"eu/z{zone}/r{rack}"
                labels = {"kubernetes.io/hostname": name, REGION: "eu", ZONE: f"z{zone}", RACK: f"r{rack}"}
                nodes.append(node(name, product, gpus=gpus, labels=labels, domains=["eu", f"eu/z{zone}", rack_name]))

    def figures(one: Json, other: Json) -> tuple[float, float]:
        shared = sum(a == b for a, b in zip(one["domains"], other["domains"], strict=True))
        return ((2e-3, 1e9), (2e-4, 5e9), (2e-5, 2e10))[shared - 1]

    return cluster(nodes, mesh(nodes, figures), levels=[REGION, ZONE, RACK])
