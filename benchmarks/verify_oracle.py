"""An oracle by brute force, written apart from the checkers: it starts the plan on a toy cluster and runs one step.

Pods are bound one by one and take devices off their node; ranks start; a token walks the ring; every rank loads its partitions; every
gradient tensor is reduced. The plan is sound where nothing goes wrong. It shares no code with the checkers or `planner.check`.
"""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

from benchmarks.verify_mutants import Mutant
from hyperscale.model.cluster import AbsentLink, Node
from hyperscale.model.plan import WorkerPlacement
from hyperscale.model.planning import PlanRequest
from hyperscale.util.quantity import parse_number


class _RefusedError(Exception):
    """The toy cluster cannot run the plan."""


def runs(mutant: Mutant) -> bool:
    """Whether the plan starts and completes a step."""
    try:
        _bind_pods(mutant)
        _start_ranks(mutant)
        _walk_ring(mutant)
        _load_partitions(mutant)
        _reduce(mutant)
    except _RefusedError:
        return False
    return True


def _demand(holds: bool) -> None:
    if not holds:
        raise _RefusedError


def _bind_pods(mutant: Mutant) -> None:
    case, request = mutant.case, mutant.case.request
    nodes = {node.name: node for node in case.snapshot.nodes}
    devices = {name: list(range(_free_devices(node, request))) for name, node in nodes.items()}
    room = {name: _room(node, request) for name, node in nodes.items()}
    namespace = 10**9 if case.quota_gpus is None else case.quota_gpus
    occupied: set[str] = set()
    arrived: set[str] = set()
    for worker, placed in zip(case.plan.workers, mutant.facts.workers, strict=True):
        _demand(worker.node in nodes)
        _demand(not (request.apart and worker.node in occupied))
        occupied.add(worker.node)
        if worker.index in request.pinned and request.pinned[worker.index] == worker.node:
            continue
        node = nodes[worker.node]
        arrived.add(worker.node)
        _admit(node, request)
        _demand(node.gpu_memory_bytes is None or placed.rank_bytes <= node.gpu_memory_bytes)
        for _ in range(worker.gpus):
            _demand(bool(devices[worker.node]))
            devices[worker.node].pop()
            namespace -= 1
        for name, amount in _pod_requests(request).items():
            room[worker.node][name] -= amount
            _demand(room[worker.node][name] >= 0)
    _demand(namespace >= 0)
    _check_network(mutant, occupied, arrived)
    _check_domain(mutant, occupied, nodes)


def _free_devices(node: Node, request: PlanRequest) -> int:
    free = request.free_gpus[node.name] if node.name in request.free_gpus else node.allocatable_gpus - node.requested_gpus
    return max(0, min(free, node.allocatable_gpus))


def _pod_requests(request: PlanRequest) -> dict[str, Decimal]:
    if request.resources:
        asked = {name: Decimal(str(amount)) for name, amount in request.resources.items()}
    else:
        stated = {**request.job.workers.resources.limits, **request.job.workers.resources.requests}
        asked = {name: Decimal(str(parse_number(text))) for name, text in stated.items() if name != "nvidia.com/gpu"}
    return {**asked, "pods": Decimal(1)}


def _room(node: Node, request: PlanRequest) -> dict[str, Decimal]:
    """What is free of each resource that a pod requests; without end where the node does not state it."""
    free: dict[str, Decimal] = {}
    for name in _pod_requests(request):
        if name == "cpu":
            offered, taken = node.allocatable_cpu_cores, node.requested_cpu_cores
        elif name == "memory":
            offered, taken = node.allocatable_memory_bytes, float(node.requested_memory_bytes)
        else:
            offered, taken = (node.allocatable.get(name, 0.0) if node.allocatable else None), node.requested.get(name, 0.0)
        free[name] = Decimal("Infinity") if offered is None else Decimal(str(offered)) - Decimal(str(taken))
    return free


def _admit(node: Node, request: PlanRequest) -> None:
    """The filters of a scheduler."""
    job = request.job
    _demand(node.ready and node.schedulable)
    _demand(node.name not in request.excluded_nodes and node.name not in request.refused_nodes)
    for taint in node.taints:
        harmless = taint.effect == "PreferNoSchedule" or taint.key == "nvidia.com/gpu"
        _demand(harmless or any(toleration.key == taint.key for toleration in request.tolerations))
    for key, value in [*job.placement.node_selector.items(), *request.required_labels.items()]:
        _demand(key in node.labels and node.labels[key] == value)
    if job.workers.gpu_products:
        _demand(node.gpu_product in job.workers.gpu_products)
    if job.workers.gpu_memory:
        _demand(node.gpu_memory_bytes is not None and node.gpu_memory_bytes >= job.workers.gpu_memory)


def _check_network(mutant: Mutant, occupied: set[str], arrived: set[str]) -> None:
    for link in mutant.case.snapshot.links:
        if link.bandwidth_bytes_per_second.value == 0 and link.source in occupied and link.destination in occupied:
            _demand(link.source not in arrived and link.destination not in arrived)


def _check_domain(mutant: Mutant, occupied: set[str], nodes: dict[str, Node]) -> None:
    level = mutant.case.request.job.placement.topology.required
    if level is None:
        return
    levels = mutant.case.snapshot.levels
    names = {nodes[name].domains[levels.index(level)] if level in levels else nodes[name].labels.get(level, "") for name in occupied}
    _demand(len(names) == 1 and "" not in names)


def _start_ranks(mutant: Mutant) -> None:
    """The launcher starts the pods in order; each counts its ranks on."""
    plan, request = mutant.case.plan, mutant.case.request
    expected_rank, total = 0, Fraction(0)
    by_node: dict[str, int] = {}
    for expected_index, worker in enumerate(plan.workers):
        _demand(worker.index == expected_index and worker.gpus == request.job.workers.gpus_per_worker)
        for rank in range(worker.first_rank, worker.first_rank + worker.gpus):
            _demand(rank == expected_rank)
            expected_rank += 1
            by_node[worker.node] = by_node.get(worker.node, 0) + 1
        total += _share(worker)
    _demand(abs(total - 1) <= Fraction(1, 10**6))
    _demand(by_node == plan.ranks_by_node)
    count = len(plan.workers)
    if request.workers_fixed is None:
        _demand(request.job.workers.min_replicas <= count <= request.job.workers.max_replicas)
    else:
        _demand(count == request.workers_fixed)
    for index, name in request.pinned.items():
        _demand(index < count and plan.workers[index].node == name)


def _share(worker: WorkerPlacement) -> Fraction:
    _demand(worker.share == worker.share and 0 < worker.share < 2)
    return Fraction(worker.share)


def _walk_ring(mutant: Mutant) -> None:
    """A token starts at the first entry and must meet every worker once before it is back."""
    node_of = {worker.index: worker.node for worker in mutant.case.plan.workers}
    listed = {(link.source, link.destination) for link in mutant.case.snapshot.links}
    visited: list[int] = []
    ring = mutant.facts.ring
    for at, index in enumerate(ring):
        _demand(index in node_of and index not in visited)
        visited.append(index)
        here, there = node_of[index], node_of.get(ring[(at + 1) % len(ring)], "")
        if mutant.case.snapshot.absent_links is AbsentLink.UNREACHABLE and here != there:
            _demand((here, there) in listed)
    _demand(len(visited) == len(node_of))


def _load_partitions(mutant: Mutant) -> None:
    asked = mutant.case.request.job.partitioning.count
    ranks = sum(worker.gpus for worker in mutant.case.plan.workers)
    _demand(mutant.case.plan.partitions == (ranks if asked is None else asked))
    waiting = list(range(mutant.case.plan.partitions))
    sizes = []
    for parts in mutant.facts.parts_by_rank:
        for part in parts:
            _demand(part in waiting)
            waiting.remove(part)
        sizes.append(len(parts))
    _demand(not waiting and len(sizes) == ranks and len(set(sizes)) == 1)


def _reduce(mutant: Mutant) -> None:
    waiting = list(range(mutant.case.request.job.model.layers))
    for tensor in mutant.facts.schedule:
        _demand(tensor in waiting)
        waiting.remove(tensor)
    _demand(not waiting)
