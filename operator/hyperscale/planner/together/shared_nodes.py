"""Several jobs on the nodes that are free for all of them, as arrays: candidates, resources, and the kernel of each job. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import numpy.typing as npt
from msgspec import structs

from hyperscale.model.api.job import Balance
from hyperscale.model.graph import ClusterGraph, FloatArray, IntArray
from hyperscale.model.history.corrections import Corrections
from hyperscale.planner.cost.bounds import memory_may_limit
from hyperscale.planner.cost.objective import Costs, largest_shares, objectives, volumes
from hyperscale.planner.problem.candidates import free_gpus
from hyperscale.planner.problem.node_room import ROUNDING, free_cpu, free_further, free_memory, with_held
from hyperscale.planner.problem.placement_problem import Problem
from hyperscale.planner.problem.regions import domains_of
from hyperscale.planner.search.kernels.kernel import CANNOT_WORK, own_kernel
from hyperscale.planner.search.pools import Pools

if TYPE_CHECKING:
    from hyperscale.planner.search.kernels._kernel import Kernel

Int32Array = npt.NDArray[np.int32]

MAX_SHARED_NODES: Final = 128
"""Nodes that the jobs are placed among; of a larger cluster those of the plans made one by one and of the best neighbourhoods."""
POOLS: Final = 3
"""Jobs whose best neighbourhoods are looked for in a large cluster, those with most workers."""
PARTNERS: Final = 8
"""Nearest candidates that a move prefers."""
LIMIT_ROUNDING: Final = 1.0 + 1e-9
"""A start may be at its limit, which was figured in another order of summation."""
PLENTY: Final = 1e30
"""Amount of a resource that a node does not state."""


class TogetherJob(NamedTuple):
    """One of several jobs that start together."""

    problem: Problem
    """On what is free before any of them starts."""
    order: tuple[int, ...]
    """Positions in the graph's nodes, in ring order: its placement one after the other."""
    weight: float = 1.0
    """What a second of its objective counts."""
    limit_seconds: float = math.inf
    """Most seconds of its objective; at least those of `order`."""

    @property
    def workers(self) -> int:
        """Number of workers."""
        return len(self.order)


@dataclass(frozen=True)
class JobCosts:
    """One job among the shared nodes."""

    nodes: IntArray
    """(m,) shared node of each candidate, rising."""
    costs: Costs
    """Among them, true."""
    search_costs: Costs
    """The same without a limit of memory where only that keeps the compiled kernel away; see `memory_relaxation`."""
    slots: IntArray
    """(m,) workers that each can take while no other job is there."""
    memory_limits: bool
    """Whether GPU memory may limit shares, so that only `costs` tell what a placement takes."""


@dataclass(frozen=True)
class SharedNodes:
    """J jobs on P nodes with R resources."""

    one_by_one: tuple[IntArray, ...]
    """(k,) candidates of each job's placement one after the other."""
    weights: FloatArray
    """(J,) what a second of each objective counts."""
    limits: FloatArray
    """(J,) most seconds of each objective."""
    nodes: IntArray
    """(P,) positions in the graph's nodes, rising."""
    demand: FloatArray
    """(J, R) of one worker; the first resource is GPUs."""
    free: FloatArray
    """(P, R) before any of the jobs starts."""
    most: IntArray
    """(J,) workers of one job on one node."""
    back: IntArray
    """(J, P) candidate of each node, -1 where the job cannot use it."""
    of_job: tuple[JobCosts, ...]

    @cached_property
    def workers(self) -> tuple[int, ...]:
        """Number of workers of each job."""
        return tuple(len(order) for order in self.one_by_one)

    @cached_property
    def seconds_before(self) -> FloatArray:
        """Return (J,) objective of each placement one after the other."""
        return self.seconds(self.one_by_one)

    def positions(self, index: int, order: IntArray) -> tuple[int, ...]:
        """A placement of a job as positions in the graph's nodes."""
        return tuple(int(position) for position in self.nodes[self.of_job[index].nodes[order]])

    def left(self, orders: Sequence[IntArray | None]) -> FloatArray:
        """(P, R) free beside these placements; None: the job is nowhere."""
        free = self.free.copy()
        for index, order in enumerate(orders):
            if order is not None:
                taken = np.bincount(self.of_job[index].nodes[order], minlength=len(self.nodes))
                free -= taken[:, None] * self.demand[index]
        return free

    def fits(self, orders: Sequence[IntArray]) -> bool:
        """Whether no resource of a node is given twice, and no node has more workers of a job than it may."""
        each = [
            int(np.bincount(self.of_job[index].nodes[order], minlength=1).max(initial=0)) <= self.most[index]
            for index, order in enumerate(orders)
        ]
        return all(each) and bool((self.left(orders) >= 0.0).all())

    def room(self, index: int, left: FloatArray) -> IntArray:
        """(m,) workers of a job that its candidates can take of what is `left` (P, R)."""
        wanted = self.demand[index]
        asked = wanted > 0.0
        fitting = np.floor(left[:, asked] / wanted[asked]).min(axis=1)
        slots = self.of_job[index].slots
        room: IntArray = np.clip(fitting[self.of_job[index].nodes], 0, slots).astype(np.int64)
        return room

    def seconds(self, orders: Sequence[IntArray]) -> FloatArray:
        """(J,) objective of each placement; +inf where it cannot work."""
        return np.array([float(self.seconds_of(index, order[None, :])[0]) for index, order in enumerate(orders)])

    def seconds_of(self, index: int, orders: IntArray) -> FloatArray:
        """(B,) objective of each row of `orders` (B, k) for one job: by its kernel, or by the reference where memory may limit shares."""
        if self.kernels is None or self.of_job[index].memory_limits:
            return objectives(self.of_job[index].costs, orders)
        seconds = np.empty(len(orders))
        self.kernels[index].objectives(np.ascontiguousarray(orders, dtype=np.int32), seconds)
        return np.where(seconds < CANNOT_WORK, seconds, np.inf)

    def total(self, orders: Sequence[IntArray]) -> float:
        """Weighted sum of the objectives; +inf where one cannot work or is above its limit."""
        seconds = self.seconds(orders)
        return float(self.weights @ seconds) if (seconds <= self.limits * LIMIT_ROUNDING).all() else math.inf

    @cached_property
    def kernels(self) -> list[Kernel] | None:
        """The compiled kernel of each job, whose slots change with every search; None where one is missing."""
        kernels = [own_kernel(each.search_costs, each.slots, workers) for workers, each in zip(self.workers, self.of_job, strict=True)]
        compiled = [kernel for kernel in kernels if kernel is not None]
        return compiled if len(compiled) == len(kernels) else None


def _factors(corrections: Corrections | None) -> Corrections | None:
    """What of corrections costs depend on: how wide ranges are does not change them."""
    return structs.replace(corrections, spread=0.0) if corrections is not None else None


def shared_nodes(jobs: Sequence[TogetherJob]) -> SharedNodes:
    """The jobs on one pool of nodes. All are posed on the same graph with the same free GPUs and reserved amounts."""
    graph = jobs[0].problem.graph
    usable = [_usable(job) for job in jobs]
    nodes = _pool(jobs, usable)
    demand, free = _resources(jobs, graph, nodes)
    whole: dict[tuple[bool, Corrections | None], Costs] = {}
    of_job: list[JobCosts] = []
    back = np.full((len(jobs), len(nodes)), -1, dtype=np.int64)
    for index, (job, candidates) in enumerate(zip(jobs, usable, strict=True)):
        chosen = candidates[np.isin(job.problem.nodes[candidates], nodes)]
        at = np.searchsorted(nodes, job.problem.nodes[chosen])
        back[index, at] = np.arange(len(at))
        # Reading links takes longest: jobs with all nodes, the same network and the same factors share them.
        links = (job.problem.fabric_graph is None, _factors(job.problem.request.corrections))
        costs = job.problem.costs(chosen, whole.get(links) if len(at) == len(nodes) else None)
        if len(at) == len(nodes):
            whole.setdefault(links, costs)
        of_job.append(job_costs(job.workers, at, costs, job.problem.slots[chosen]))
    return SharedNodes(
        one_by_one=tuple(back[index, np.searchsorted(nodes, np.array(job.order, dtype=np.int64))] for index, job in enumerate(jobs)),
        weights=np.array([job.weight for job in jobs]),
        limits=np.array([job.limit_seconds for job in jobs]),
        nodes=nodes,
        demand=demand,
        free=free,
        most=np.array([1 if job.problem.demand.apart else job.workers for job in jobs], dtype=np.int64),
        back=back,
        of_job=tuple(of_job),
    )


def job_costs(workers: int, nodes: IntArray, costs: Costs, slots: IntArray) -> JobCosts:
    """A job of `workers` workers among its candidates on `nodes` (m,), which have `slots` (m,).

    Equal shares are fixed in advance: a node that cannot hold one has no slot; else memory is judged at the end.
    """
    limits = largest_shares(costs, workers)
    if costs.balance is Balance.EQUAL:
        slots = np.where(limits >= 1.0 / workers, slots, 0)
    if not memory_may_limit(costs, np.flatnonzero(slots > 0), workers):
        return JobCosts(nodes, costs, costs, slots, memory_limits=False)
    return JobCosts(nodes, costs, replace(costs, memory_bytes=np.full(len(slots), np.inf)), slots, memory_limits=True)


def _usable(job: TogetherJob) -> IntArray:
    """(m,) candidates of the job with a slot; those of its domain where it asks for one topology domain."""
    problem = job.problem
    candidates = np.flatnonzero(problem.slots > 0)
    topology = problem.job.placement.topology
    if (key := topology.required or topology.preferred) is None:
        return candidates
    domains = domains_of(problem, key)
    used = {domains[candidate] for candidate in np.flatnonzero(np.isin(problem.nodes, job.order))}
    if len(used) > 1 or "" in used:
        return candidates
    return np.array([candidate for candidate in candidates if domains[candidate] in used], dtype=np.int64)


def _pool(jobs: Sequence[TogetherJob], usable: Sequence[IntArray]) -> IntArray:
    """Positions of the shared nodes, rising: all that any job can use, or of too many those that are most worth a look."""
    lists = [job.problem.nodes[candidates] for job, candidates in zip(jobs, usable, strict=True)]
    every = np.unique(np.concatenate(lists))
    if len(every) <= MAX_SHARED_NODES:
        return every
    chosen = dict.fromkeys(position for job in jobs for position in job.order)
    # Scoring the neighbourhoods of a large cluster takes some ten milliseconds a job.
    asked = sorted(range(len(jobs)), key=lambda index: (-jobs[index].workers, index))[:POOLS]
    pools = [_nearby(jobs[index], usable[index]) for index in asked]
    limit = max(MAX_SHARED_NODES, len(chosen))
    for rank in range(max(len(pool) for pool in pools)):
        for pool in pools:
            if rank < len(pool) and len(chosen) < limit:
                chosen.setdefault(int(pool[rank]))
    return np.array(sorted(chosen), dtype=np.int64)


def _nearby(job: TogetherJob, usable: IntArray) -> IntArray:
    """Positions of the nodes of a job's pool, those first that are nearest to its placement."""
    problem = job.problem
    pool = problem.nodes[Pools(problem, usable).pool(job.workers)]
    own = np.unique(np.array(job.order, dtype=np.int64))
    links = problem.graph.link_costs_between(pool, own)
    volume = volumes(problem.costs(usable[:1]), job.workers)
    with np.errstate(divide="ignore"):
        per_byte = np.where(links.bandwidth_bytes_per_second > 0, 1.0 / links.bandwidth_bytes_per_second, np.inf)
    partners = max(1, job.workers - 1)
    seconds = (volume.rounds + volume.ring_latency_factor) * links.latency_seconds
    seconds = seconds + (volume.halo_bytes / (job.workers * partners) + volume.ring_byte_factor) * per_byte
    ranked: IntArray = pool[np.argsort(seconds.mean(axis=1), kind="stable")]
    return ranked


def _resources(jobs: Sequence[TogetherJob], graph: ClusterGraph, nodes: IntArray) -> tuple[FloatArray, FloatArray]:
    """Demand of a worker (J, R) and what is free (P, R)."""
    demands = [job.problem.demand for job in jobs]
    further = sorted({name for demand in demands for name, _ in demand.further})
    demand = np.array(
        [[one.gpus, one.cpu_cores, one.memory_bytes, *(dict(one.further).get(name, 0.0) for name in further)] for one in demands],
        dtype=np.float64,
    )
    gpus = free_gpus(graph, demands[0])[nodes]
    free = np.empty((len(nodes), 3 + len(further)))
    for row, position in enumerate(nodes.tolist()):
        node = graph.nodes[position]
        if (amounts := demands[0].reserved.get(node.name)) is not None:
            node = with_held(node, amounts)
        others = (free_cpu(node), free_memory(node), *(free_further(node, name) for name in further))
        free[row] = (float(gpus[row]), *(min(PLENTY, max(0.0, amount) + ROUNDING) for amount in others))
    # What is free but that no job asks for must not look taken.
    free[:, 1:] = np.where((demand[:, 1:] > 0.0).any(axis=0), free[:, 1:], PLENTY)
    return demand, free


def partner_lists(costs: Costs, workers: int, count: int = PARTNERS) -> Int32Array:
    """(m, count) candidates nearest to each by the seconds that a pair adds, in no order; itself where there are too few."""
    volume = volumes(costs, workers)
    partners = max(1, workers - 1)
    seconds = (volume.rounds + volume.ring_latency_factor) * costs.reach_seconds
    seconds = seconds + (volume.halo_bytes / (workers * partners) + volume.ring_byte_factor) * costs.seconds_per_byte
    compute = costs.workload.epoch_flops / (workers * costs.flops_per_second)
    seconds = seconds + np.maximum(compute[:, None], compute[None, :])
    np.fill_diagonal(seconds, np.inf)
    if len(seconds) > count:
        nearest = np.argpartition(seconds, count - 1, axis=1)[:, :count].astype(np.int32)
    else:
        nearest = np.argsort(seconds, axis=1, kind="stable").astype(np.int32)
        nearest = np.concatenate((nearest, np.repeat(np.arange(len(seconds), dtype=np.int32)[:, None], count - nearest.shape[1], 1)), 1)
    return np.ascontiguousarray(nearest)
