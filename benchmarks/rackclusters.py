"""Clusters of racks with shared uplinks, by seed, and a job for each: what the suite `racks` plans."""

from __future__ import annotations

from typing import Final, NamedTuple

import msgspec
import numpy as np

from benchmarks.productsjob import products_job
from hyperscale.model.api.job import JobSpec
from hyperscale.model.api.policy import Overrides, PolicySpec, UplinkOverride
from hyperscale.model.cluster import ClusterSnapshot, Gpu, MetricsState, Node, Origin, Quality, Sample

LEVELS: Final = ("topology.kubernetes.io/region", "topology.kubernetes.io/zone", "cloud.provider.com/topology-rack")
PRODUCTS: Final = ("NVIDIA-H100-80GB-HBM3", "NVIDIA-A100-SXM4-80GB", "NVIDIA-A10", "Tesla-T4")
COUNTS: Final = (2, 4, 8, 16, 32, 64, 12, 24, 48)
"""Ranks of most jobs: numbers that divide well. The others have any number."""
MODELS: Final = (
    {"architecture": "GraphSAGE", "layers": 3, "hiddenSize": 256},
    {"architecture": "GraphSAGE", "layers": 3, "hiddenSize": 256, "fanouts": [5, 10, 15], "batchSize": 1024},
    {"architecture": "Custom", "parameters": 100_000_000},
    {"architecture": "GCN", "layers": 2, "hiddenSize": 64},
)


class RackCluster(NamedTuple):
    """A cluster with racks, and one job."""

    name: str
    snapshot: ClusterSnapshot
    policy: PolicySpec
    job: JobSpec
    workers: int


def rack_cluster(seed: int) -> RackCluster:
    """Return the cluster and the job of a seed.

    2 to 8 racks of 2 to 16 nodes with 1 to 8 GPUs; oversubscription 1 to 8; 2 to 64 ranks. Half have a card for each GPU (rails), a third
    has GPUs in use or of two products.
    """
    rng = np.random.default_rng([seed, 2063])
    racks, gpus = int(rng.integers(2, 9)), int(rng.integers(1, 9))
    sizes = rng.integers(2, 17, racks) if rng.random() < 0.5 else np.full(racks, rng.integers(2, 17))
    over = float(np.round(rng.uniform(1.0, 8.0), 2))
    rails, uneven = bool(rng.random() < 0.5), bool(rng.random() < 1 / 3)
    card = float(rng.choice([1.25e9, 3.125e9, 12.5e9, 25e9, 50e9]))
    products = [PRODUCTS[int(rng.integers(len(PRODUCTS)))] for _ in range(2 if uneven else 1)]
    nodes = tuple(
        _node(f"r{rack}-n{at:02d}", f"z/r{rack}", gpus, int(rng.integers(0, gpus + 1)) if uneven and rng.random() < 0.5 else gpus,
              products[int(rng.integers(len(products)))], card, gpus if rails else 1)
        for rack, size in enumerate(sizes)
        for at in range(size)
    )  # fmt: skip
    room = sum(node.allocatable_gpus - node.requested_gpus for node in nodes)
    workers = min(room, int(rng.integers(2, 65)))
    if rng.random() < 0.7:
        workers = min(2 ** int(np.log2(max(room, 2))), int(rng.choice(COUNTS)))
    cards = f"{gpus if rails else 1} x {card / 1e9:g} GB/s"
    name = f"{racks} racks, {len(nodes)} nodes x {gpus} {products[0]}, 1:{over}, cards {cards}, {workers} ranks"
    return RackCluster(
        name,
        ClusterSnapshot(taken_at=0.0, nodes=nodes, links=(), levels=LEVELS, metrics=MetricsState(available=True), source="racks"),
        PolicySpec(tolerance_percent=0, overrides=Overrides(uplinks=(UplinkOverride(level=LEVELS[2], oversubscription=over),))),
        _job(MODELS[int(rng.integers(len(MODELS)))], workers, str(rng.choice(["Capacity", "Equal"]))),
        workers,
    )


def _node(name: str, domain: str, gpus: int, free: int, product: str, card: float, cards: int) -> Node:
    zone, rack = domain.split("/")
    return Node(
        name=name,
        gpu_product=product,
        gpu_memory_bytes=80 * 2**30,
        allocatable_gpus=gpus,
        requested_gpus=gpus - free,
        labels={"kubernetes.io/hostname": name, LEVELS[0]: "eu", LEVELS[1]: zone, LEVELS[2]: rack},
        domains=("eu", f"eu/{zone}", f"eu/{zone}/{rack}"),
        gpus=tuple(Gpu(uuid=f"GPU-{name}-{at}", utilization_ratio=_sample(0.0)) for at in range(free)),
        network_bytes_per_second=_sample(card),
        network_cards=cards,
    )


def _sample(value: float) -> Sample:
    return Sample(value=value, age_seconds=1.0, quality=Quality.MEASURED, source=Origin.INFINIBAND)


def _job(model: dict[str, object], workers: int, balance: str) -> JobSpec:
    job = products_job(model, (workers, workers), 1, partitioning={"balance": balance})
    job["workers"]["resources"]["limits"]["rdma/ib"] = "1"  # a pod without one would take the pod network
    return msgspec.convert(job, JobSpec)
