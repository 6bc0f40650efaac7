"""One planning question as arrays: candidate nodes, their speed, memory and links, and the worker counts to try. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from hyperscale.model.cluster import Node, Quality
from hyperscale.model.graph import BoolArray, ClusterGraph, FloatArray, IntArray
from hyperscale.model.job import JobSpec
from hyperscale.model.planning import PlanRequest
from hyperscale.model.policy import PolicySpec
from hyperscale.model.workload import WorkloadProfile
from hyperscale.plan.candidates import Demand, Vetting, demand_of, free_gpus, gpu_memory_bytes, vet
from hyperscale.plan.objective import Costs
from hyperscale.plan.speeds import Speed, gpu_speed

USABLE_MEMORY_RATIO: Final = 0.92
"""The driver, the CUDA context and fragmentation take the rest of a GPU."""
LEAST_IDLE_RATIO: Final = 0.02
"""A GPU that reports full use still gets a turn now and then; keeps figures finite."""


@dataclass(frozen=True)
class Problem:
    """Everything the planners see. Candidates are the suitable nodes in name order; pinned nodes are among them."""

    request: PlanRequest
    graph: ClusterGraph
    workload: WorkloadProfile
    policy: PolicySpec
    demand: Demand
    vetting: Vetting
    nodes: IntArray
    """(m,) positions in graph.nodes."""
    slots: IntArray
    """(m,) further workers that each candidate can host, pinned ranks not counted."""
    speeds: tuple[Speed, ...]
    """(m,) of one GPU, before utilisation."""
    utilization: FloatArray
    """(m,) 0..1 of the free GPUs; the median of the known where nobody measured it, 0 where nobody measured any."""
    utilization_known: BoolArray
    """(m,)"""
    pinned: tuple[tuple[int, int], ...]
    """(rank, candidate), by rank."""

    @property
    def job(self) -> JobSpec:
        """The job that is placed."""
        return self.request.job

    @cached_property
    def names(self) -> tuple[str, ...]:
        """(m,) names of the candidates."""
        return tuple(self.graph.nodes[position].name for position in self.nodes)

    @cached_property
    def flops_per_second(self) -> FloatArray:
        """(m,) of one worker with all its GPUs, others' use taken away."""
        idle = np.maximum(1.0 - self.utilization, LEAST_IDLE_RATIO)
        speed = np.array([speed.flops_per_second for speed in self.speeds])
        return speed * idle * self.demand.gpus

    @cached_property
    def memory_bytes(self) -> FloatArray:
        """(m,) usable memory of one GPU; +inf where unknown."""
        figures = [gpu_memory_bytes(self.graph.nodes[position]) for position in self.nodes]
        return np.array([np.inf if figure is None else figure * USABLE_MEMORY_RATIO for figure in figures])

    @property
    def capacity(self) -> int:
        """Workers that the candidates can host at once."""
        return int(self.slots.sum()) + len(self.pinned)

    def costs(self, members: IntArray) -> Costs:
        """Costs among some candidates (p,), which become 0..p-1."""
        links = self.graph.link_costs(self.nodes[members])
        blocked = ~links.reachable
        latency = np.where(blocked, 0.0, np.maximum(links.latency_seconds, links.latency_seconds.T))
        bandwidth = np.where(blocked, 1.0, np.minimum(links.bandwidth_bytes_per_second, links.bandwidth_bytes_per_second.T))
        weight = self.job.placement.communication_weight
        count = self.job.partitioning.count
        return Costs(
            flops_per_second=self.flops_per_second[members],
            memory_bytes=self.memory_bytes[members],
            latency_seconds=latency,
            seconds_per_byte=1.0 / bandwidth,
            blocked=blocked,
            workload=self.workload,
            gpus_per_worker=self.demand.gpus,
            balance=self.job.partitioning.balance,
            partition_count=count if isinstance(count, int) else None,
            communication_weight=self.policy.communication_weight if weight is None else weight,
        )

    def counts(self) -> tuple[int, ...]:
        """Worker counts that the job and the free slots allow, rising."""
        workers, fixed = self.job.workers, self.request.workers_fixed
        low, high = (workers.min, workers.max) if fixed is None else (fixed, fixed)
        low = max(low, 1 + max((rank for rank, _ in self.pinned), default=0))
        partitions = self.job.partitioning.count
        return tuple(
            count for count in range(low, min(high, self.capacity) + 1) if not isinstance(partitions, int) or partitions % count == 0
        )


def pose(request: PlanRequest, graph: ClusterGraph, workload: WorkloadProfile, policy: PolicySpec) -> Problem:
    """The problem behind `request`. Raises ValueError when a rank is pinned to a node that the graph does not have."""
    demand = demand_of(request, (workload.parameter_bytes + workload.step_bytes) / USABLE_MEMORY_RATIO)
    vetting = vet(graph.nodes, demand)
    for rank, name in sorted(request.pinned.items()):
        if name not in graph.index:
            raise ValueError(f"rank {rank} is pinned to node {name}, which is not in the snapshot")
    chosen = sorted({*vetting.slots, *request.pinned.values()})
    nodes = np.array([graph.index[name] for name in chosen], dtype=np.int64)
    place = {name: position for position, name in enumerate(chosen)}
    speeds = tuple(gpu_speed(graph.nodes[position], policy) for position in nodes)
    measured = [_utilization(graph.nodes[position], free_gpus(graph.nodes[position], demand)) for position in nodes]
    known = np.array([figure is not None for figure in measured], dtype=np.bool_)
    typical = float(np.median([figure for figure in measured if figure is not None])) if known.any() else 0.0
    return Problem(
        request=request,
        graph=graph,
        workload=workload,
        policy=policy,
        demand=demand,
        vetting=vetting,
        nodes=nodes,
        slots=np.array([vetting.slots.get(name, 0) for name in chosen], dtype=np.int64),
        speeds=speeds,
        utilization=np.array([typical if figure is None else figure for figure in measured]),
        utilization_known=known,
        pinned=tuple((rank, place[name]) for rank, name in sorted(request.pinned.items())),
    )


def _utilization(node: Node, free: int) -> float | None:
    """Mean use of the `free` least busy GPUs of `node`: a new worker gets those, the busy ones belong to pods that hold them.

    None where no GPU of the node has a usable sample; 0 where none is free (only our own pinned rank is there).
    """
    usable = sorted(
        gpu.utilization_ratio.value
        for gpu in node.gpus
        if gpu.utilization_ratio.value is not None and gpu.utilization_ratio.quality is not Quality.UNKNOWN
    )
    if not usable:
        return None
    idlest = usable[:free]
    return min(1.0, sum(idlest) / len(idlest)) if idlest else 0.0
