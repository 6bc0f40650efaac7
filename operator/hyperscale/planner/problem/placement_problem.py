"""One planning question as arrays: candidate nodes, their speed, memory and links, and the worker counts to try. Pure."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

import msgspec
import numpy as np
from msgspec import structs

from hyperscale.model.api.job import JobSpec
from hyperscale.model.api.policy import PolicySpec
from hyperscale.model.graph import BoolArray, ClusterGraph, FloatArray, IntArray, Machine
from hyperscale.model.planning import PlanRequest
from hyperscale.model.workload import WorkloadProfile
from hyperscale.planner.cost.objective import Costs
from hyperscale.planner.graph.cluster_graph import on_pod_network
from hyperscale.planner.graph.machine_resources import without_own_traffic
from hyperscale.planner.problem.candidates import Vetting, vet
from hyperscale.planner.problem.corrections import compute_factors, exploration, link_factors
from hyperscale.planner.problem.figures import figures_of
from hyperscale.planner.problem.machine_costs import MachineCosts, machine_costs, machine_identity
from hyperscale.planner.problem.speeds import Speed, gpu_speeds
from hyperscale.planner.problem.worker_demand import WorkerDemand, demand_of

USABLE_MEMORY_RATIO: Final = 0.92
"""The driver, the CUDA context and fragmentation take the rest of a GPU."""
LEAST_IDLE_RATIO: Final = 0.02
"""A GPU that reports full use still gets a turn now and then; keeps figures finite."""


_ENCODER: Final = msgspec.msgpack.Encoder()


@dataclass(frozen=True)
class Problem:
    """Everything the planners see. Candidates are the suitable nodes in name order; pinned nodes are among them."""

    request: PlanRequest
    graph: ClusterGraph
    """With links as the job's pods have them."""
    fabric_graph: ClusterGraph | None
    """The same nodes with their fast network, where the pods ask for none of its devices; else None."""
    workload: WorkloadProfile
    policy: PolicySpec
    demand: WorkerDemand
    vetting: Vetting
    nodes: IntArray
    """(m,) positions in graph.nodes."""
    slots: IntArray
    """(m,) further workers that each candidate can host, pinned ranks not counted, no more than the job may have."""
    speeds: tuple[Speed, ...]
    """(m,) of one GPU, before utilisation."""
    utilization: FloatArray
    """(m,) 0..1 of the busiest GPU that workers in the slots would get, see `Figures.utilization`."""
    utilization_known: BoolArray
    """(m,) True where samples tell it."""
    pinned: tuple[tuple[int, int], ...]
    """(worker, candidate), by worker."""

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
        """(m,) of one worker with all its GPUs, others' use taken away, corrected by finished runs."""
        nodes = [self.graph.nodes[position] for position in self.nodes]
        return self.stated_flops_per_second / compute_factors(self.request.corrections, nodes, self.speeds, self.policy)

    @cached_property
    def stated_flops_per_second(self) -> FloatArray:
        """(m,) the same by tables and policy alone."""
        return self._gpu_flops_per_second * (1.0 - self.host_ratio) * self.demand.gpus

    @cached_property
    def host_ratio(self) -> FloatArray:
        """(m,) 0..1 of a rank's compute that is work on its host, which grows with its share as arithmetic does."""
        arithmetic = self.workload.epoch_flops / self._gpu_flops_per_second
        return self.workload.host_seconds / (self.workload.host_seconds + arithmetic)

    @cached_property
    def _gpu_flops_per_second(self) -> FloatArray:
        idle = np.maximum(1.0 - self.utilization, LEAST_IDLE_RATIO)
        return np.array([speed.flops_per_second for speed in self.speeds]) * idle

    @cached_property
    def memory_bytes(self) -> FloatArray:
        """(m,) usable memory of one GPU; +inf where unknown."""
        return figures_of(self.graph).memory_bytes[self.nodes] * USABLE_MEMORY_RATIO

    @cached_property
    def machine(self) -> Machine:
        """What the nodes share; workers that run already do not compete with themselves."""
        if not self.pinned:
            return self.graph.machine
        return without_own_traffic(self.graph.machine, self.nodes[sorted({candidate for _, candidate in self.pinned})])

    @cached_property
    def sharp_efficiency(self) -> FloatArray:
        """(m,) of NVLink SHARP; empty where no candidate's switches add up."""
        efficiency: FloatArray = self.graph.inside.sharp_efficiency[self.nodes]
        return efficiency if (efficiency > 0.0).any() else efficiency[:0]

    @property
    def capacity(self) -> int:
        """Workers that the candidates can host at once, also beyond what the job may have."""
        return sum(self.vetting.slots.values()) + len(self.pinned)

    @cached_property
    def identity(self) -> tuple[Hashable, ...]:
        """Everything that a search may depend on; problems with the same identity have the same solutions."""
        arrays = (self.nodes, self.slots, self.flops_per_second, self.memory_bytes, self.sharp_efficiency)
        job = self.job
        return (
            self.graph.digest,
            _ENCODER.encode((self.policy, job.placement, job.partitioning, self.counts(), self.request.corrections)),
            self.workload,
            self.demand.gpus,
            self.request.seed,
            self.pinned,
            machine_identity(self.machine),
            *(array.tobytes() for array in arrays),
        )

    def costs(self, members: IntArray, links_of: Costs | None = None) -> Costs:
        """Costs among some candidates (p,), which become 0..p-1.

        links_of: costs of another job, with the same corrections, among the same nodes in the same order; its links are taken over
        """
        weight, machine = self.job.placement.communication_weight, machine_costs(self.machine, self.nodes[members])
        latency, per_byte, blocked = self._links(members, machine) if links_of is None else links_of.links
        return Costs(
            flops_per_second=self.flops_per_second[members],
            memory_bytes=self.memory_bytes[members],
            latency_seconds=latency,
            seconds_per_byte=per_byte,
            blocked=blocked,
            workload=self.workload,
            gpus_per_worker=self.demand.gpus,
            balance=self.job.partitioning.balance,
            communication_weight=self.policy.communication_weight if weight is None else weight,
            rails=machine.rails,
            uplink_domains=machine.uplink_domains,
            uplink_seconds_per_byte=machine.uplink_seconds_per_byte,
            sharp_efficiency=self.sharp_efficiency[members] if len(self.sharp_efficiency) else self.sharp_efficiency,
        )

    def _links(self, members: IntArray, machine: MachineCosts) -> tuple[FloatArray, FloatArray, BoolArray]:
        """(p, p) latency, seconds per byte, and True where two nodes cannot talk."""
        links = self.graph.link_costs(self.nodes[members])
        blocked = ~links.reachable
        latency = np.where(blocked, 0.0, np.maximum(links.latency_seconds, links.latency_seconds.T))
        bandwidth = np.where(blocked, 1.0, np.minimum(links.bandwidth_bytes_per_second, links.bandwidth_bytes_per_second.T))
        factors = link_factors(self.request.corrections, self.graph, self.nodes[members], links.measured, self.policy)
        return latency * factors, machine.slowed(factors / bandwidth), blocked

    def uncorrected(self) -> Problem:
        """The same question by tables and measurements alone; itself where nothing corrects it."""
        return self if self.request.corrections is None else replace(self, request=structs.replace(self.request, corrections=None))

    def expected(self) -> Problem:
        """The same question without hope for what was not tried; itself where there is none."""
        corrections = self.request.corrections
        if corrections is None or not exploration(corrections, self.policy):
            return self
        return replace(self, request=structs.replace(self.request, corrections=structs.replace(corrections, explores=False)))

    def partitions(self, workers: int) -> int:
        """Parts of the training graph for that number of workers."""
        count = self.job.partitioning.count
        return count if count is not None else workers * self.demand.gpus

    def counts(self) -> tuple[int, ...]:
        """Worker counts that the job and the free slots allow, rising; their ranks divide a stated number of partitions."""
        workers, fixed = self.job.workers, self.request.workers_fixed
        low, high = (workers.min_replicas, workers.max_replicas) if fixed is None else (fixed, fixed)
        low = max(low, 1 + max((rank for rank, _ in self.pinned), default=0))
        partitions = self.job.partitioning.count
        return tuple(
            count
            for count in range(low, min(high, self.capacity) + 1)
            if partitions is None or partitions % (count * self.demand.gpus) == 0
        )


def pose(request: PlanRequest, graph: ClusterGraph, workload: WorkloadProfile, policy: PolicySpec) -> Problem:
    """The problem behind `request`. Raises ValueError when a rank is pinned to a node that the graph does not have."""
    demand = demand_of(request, (workload.parameter_bytes + workload.step_bytes) / USABLE_MEMORY_RATIO)
    fabric_graph = None if demand.has_devices or not graph.has_fabric else graph
    graph = graph if fabric_graph is None else on_pod_network(graph, policy)
    vetting = vet(graph, demand)
    for rank, name in sorted(request.pinned.items()):
        if name not in graph.index:
            raise ValueError(f"rank {rank} is pinned to node {name}, which is not in the snapshot")
    chosen = sorted({*vetting.slots, *request.pinned.values()})
    nodes = np.array([graph.index[name] for name in chosen], dtype=np.int64)
    place = {name: position for position, name in enumerate(chosen)}
    speeds = gpu_speeds([graph.nodes[position] for position in nodes], policy)
    most = request.workers_fixed or request.job.workers.max_replicas
    slots = np.array([min(most, vetting.slots.get(name, 0)) for name in chosen], dtype=np.int64)
    use, use_known = figures_of(graph).utilization(nodes, slots * demand.gpus, free_gpus(request, graph, nodes))
    return Problem(
        request=request,
        graph=graph,
        fabric_graph=fabric_graph,
        workload=workload,
        policy=policy,
        demand=demand,
        vetting=vetting,
        nodes=nodes,
        slots=slots,
        speeds=speeds,
        utilization=use,
        utilization_known=use_known,
        pinned=tuple((rank, place[name]) for rank, name in sorted(request.pinned.items())),
    )


def free_gpus(request: PlanRequest, graph: ClusterGraph, nodes: IntArray) -> IntArray:
    """(m,) GPUs that no pod holds of the nodes at positions `nodes` (m,), as far as the request knows."""
    observed = zip((graph.nodes[position].name for position in nodes), figures_of(graph).free_gpus[nodes].tolist(), strict=True)
    return np.array([request.free_gpus.get(name, count) for name, count in observed], dtype=np.int64)
