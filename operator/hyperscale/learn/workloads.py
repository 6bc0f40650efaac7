"""Seeded workloads that fit a cluster of whatever origin: arithmetic, boundary data, allreduce and latency each decide in some. Pure."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hyperscale.model.workload import WorkloadProfile
from hyperscale.planner.cost.objective import Costs


class Scale(NamedTuple):
    """What a workload must be sized by: typical figures of a cluster of whatever origin."""

    nodes: int
    latency_seconds: float
    """Median of the pairs that can talk."""
    seconds_per_byte: float
    """Median of the pairs that can talk."""
    flops_per_second: float
    """Median of a worker."""
    memory_bytes: float
    """Least usable memory of one GPU; +inf where unknown."""
    gpus_per_worker: int


def scale_of(costs: Costs) -> Scale:
    """The scale of a cluster behind `costs`; its workload does not count."""
    pairs = ~costs.blocked & ~np.eye(len(costs.flops_per_second), dtype=np.bool_)
    return Scale(
        nodes=len(costs.flops_per_second),
        latency_seconds=float(np.median(costs.latency_seconds[pairs])),
        seconds_per_byte=float(np.median(costs.seconds_per_byte[pairs])),
        flops_per_second=float(np.median(costs.flops_per_second)),
        memory_bytes=float(costs.memory_bytes.min()),
        gpus_per_worker=costs.gpus_per_worker,
    )


def workload_at(scale: Scale, workers: int, seed: int) -> WorkloadProfile:
    """A job whose arithmetic, boundary data, allreduce and latency are of the same magnitude with `workers` workers.

    Every second one is sampled (many steps an epoch); in every fourth an equal share fills half of the least GPU's memory.
    """
    rng = np.random.default_rng([seed, scale.nodes, workers, 7])
    gpus = scale.gpus_per_worker
    sampled = bool(rng.random() < 0.5)
    steps = int(10 ** rng.uniform(0.5, 3.0)) if sampled else 1
    exchanges = 1 if sampled else 2 * int(rng.integers(1, 4))
    waiting = steps * (exchanges + 2 * (workers - 1)) * scale.latency_seconds
    compute = waiting * 10 ** rng.uniform(-0.7, 1.3)
    halo = compute * 10 ** rng.uniform(-1.0, 1.0) * workers / scale.seconds_per_byte
    gradient = compute * 10 ** rng.uniform(-1.0, 1.0) / (2.0 * max(1, workers - 1) / workers * scale.seconds_per_byte * steps)
    vertices, edges = 1_000_000, 20_000_000
    batch = max(1, round(vertices / (workers * gpus * steps))) if sampled else None
    flops = compute * scale.flops_per_second * workers
    shape = WorkloadProfile(vertices, edges, flops, 0.0, gradient, 0.0, batch, exchanges, 0.0, 0.0, 0.0, 0.0)
    copies = max(shape.replication(workers), 1e-9)
    fetched = halo * (1.0 + copies) / copies / (shape.steps(workers, gpus) * workers * gpus)
    tight = 0.5 * workers * gpus * scale.memory_bytes / (1.0 + copies) if np.isfinite(scale.memory_bytes) else 0.0
    return WorkloadProfile(
        vertices=vertices,
        edges=edges,
        epoch_flops=flops,
        step_overhead_seconds=0.0,
        gradient_bytes=gradient,
        parameter_bytes=0.0,
        batch_size=batch,
        exchanges_per_step=exchanges,
        halo_bytes_per_copy=0.0 if sampled else halo / (copies * vertices),
        fetch_bytes_per_step=fetched if sampled else 0.0,
        full_graph_bytes=tight if not sampled and rng.random() < 0.5 else 0.0,
        step_bytes=0.0,
    )
