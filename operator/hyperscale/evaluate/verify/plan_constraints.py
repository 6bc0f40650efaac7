"""From a plan, its question and a snapshot to the normal form that every checker reads.

The rules that close a node come from `planner.check`, so that they are stated once.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from msgspec.structs import replace

from hyperscale.evaluate.verify.normal_form import NO_DOMAIN, UNLIMITED, WHOLE_SHARE, NodeLimits, PlacedWorker, PlanFacts, PlanLimits
from hyperscale.model import constants
from hyperscale.model.api.job import MAX_GPUS_PER_WORKER, MAX_RANKS, MAX_WORKERS
from hyperscale.model.cluster import AbsentLink, ClusterSnapshot, Node
from hyperscale.model.plan import Plan, WorkerPlacement
from hyperscale.model.planning import PODS, PlanRequest
from hyperscale.planner.check.check_needs import unmet_rules
from hyperscale.planner.check.check_nodes import NODE_RULES
from hyperscale.util.quantity import parse_number

CPU: Final = "cpu"
MEMORY: Final = "memory"
MICRO: Final = 10**6
"""CPU cores and devices are counted in millionths, so that sums of decimal fractions stay exact."""
BYTE_RESOURCES: Final = ("memory", "ephemeral-storage", "hugepages-")
GPU_MEMORY_RULE: Final = "GPUMemory"


def limits_of(request: PlanRequest, snapshot: ClusterSnapshot, quota_gpus: int | None = None) -> PlanLimits:
    """Return what any plan for the request must satisfy on the snapshot.

    quota_gpus: GPUs that the namespace may still take; None without a quota.
    Raises ValueError for a negative quota.
    """
    if quota_gpus is not None and quota_gpus < 0:
        raise ValueError(f"quota_gpus: {quota_gpus} is below 0; write the GPUs that the namespace may still take")
    job = request.job
    position = {node.name: at for at, node in enumerate(snapshot.nodes)}
    needs = _needs(request)
    key = job.placement.topology.required
    domains = _domain_numbers(snapshot, key)
    fewest, most = _worker_bounds(request)
    return PlanLimits(
        nodes=tuple(_node_limits(node, request, needs, domain) for node, domain in zip(snapshot.nodes, domains, strict=True)),
        gpus_each=job.workers.gpus_per_worker,
        memory_each_bytes=job.workers.gpu_memory or 0,
        resources=tuple((name, _scale(name)) for name in needs),
        amounts_each=tuple(needs.values()),
        workers_min=fewest,
        workers_max=most,
        apart=request.apart,
        one_domain=key is not None,
        topology_key=key or "",
        pins=tuple((index, position.get(name, len(position))) for index, name in sorted(request.pinned.items())),
        dead=tuple(_dead(snapshot, position)),
        unreachable=tuple(_unreachable(snapshot, position)),
        partitions_asked=job.partitioning.count or 0,
        tensors=job.model.layers,
        quota_gpus=quota_gpus,
        node_rules=tuple(rule.source for rule in request.node_rules),
    )


def _worker_bounds(request: PlanRequest) -> tuple[int, int]:
    fixed, asked = request.workers_fixed, request.job.workers
    return (asked.min_replicas, asked.max_replicas) if fixed is None else (fixed, fixed)


def planned_part(plan: Plan, request: PlanRequest, snapshot: ClusterSnapshot) -> ClusterSnapshot:
    """Return the snapshot with the planned and pinned nodes alone: no constraint of one plan reads another node."""
    names = {worker.node for worker in plan.workers} | set(request.pinned.values())
    return replace(snapshot, nodes=tuple(node for node in snapshot.nodes if node.name in names))


def facts_of(plan: Plan, request: PlanRequest, snapshot: ClusterSnapshot, schedule: Sequence[int] | None = None) -> PlanFacts:
    """Return what the plan states.

    schedule: gradient tensors in the order of their allreduce; absent: last layer first, as a backward pass gives them.
    Ranks hold partitions in order: rank r holds parts r * n to r * n + n - 1, where n is partitions / ranks.
    """
    position = {node.name: at for at, node in enumerate(snapshot.nodes)}
    placed = tuple(_placed(worker, position) for worker in plan.workers)
    ranks, partitions = sum(worker.gpus for worker in placed), _within(plan.partitions, MAX_RANKS + 1)
    each, rest = divmod(partitions, ranks) if ranks else (0, 0)
    starts = [rank * each + min(rank, rest) for rank in range(ranks + 1)]
    return PlanFacts(
        workers=placed,
        ring=tuple(worker.index for worker in placed),
        partitions=partitions,
        parts_by_rank=tuple(tuple(range(first, last)) for first, last in itertools.pairwise(starts)),
        schedule=tuple(range(request.job.model.layers - 1, -1, -1)) if schedule is None else tuple(schedule),
        ranks_by_node=tuple(
            sorted((position.get(name, len(position)), _within(count, UNLIMITED)) for name, count in plan.ranks_by_node.items())
        ),
    )


def _placed(worker: WorkerPlacement, position: Mapping[str, int]) -> PlacedWorker:
    """Numbers that no plan may state become numbers that no plan may state either, and are small or at least natural."""
    gpus = _within(worker.gpus, MAX_GPUS_PER_WORKER + 1)
    first = worker.first_rank if 0 <= worker.first_rank <= MAX_RANKS else UNLIMITED
    return PlacedWorker(
        index=worker.index if 0 <= worker.index <= MAX_WORKERS else UNLIMITED,
        node=position.get(worker.node, len(position)),
        ranks=tuple(range(first, first + gpus)),
        gpus=gpus,
        share=_billionths(worker.share),
    )


def _within(number: int, bound: int) -> int:
    return max(0, min(number, bound))


def _billionths(share: float) -> int:
    """0, which no plan may state, where the share is not a figure."""
    return round(share * WHOLE_SHARE) if math.isfinite(share) and 0 < share <= 2 else 0


def _needs(request: PlanRequest) -> dict[str, int]:
    """What a worker requests beyond GPUs, by resource name, sorted; what it does not need is left out."""
    amounts: dict[str, float] = dict(request.resources)
    if not amounts:
        asked = request.job.workers.resources
        amounts = {name: parse_number(text) for name, text in {**asked.limits, **asked.requests}.items() if name != constants.GPU_RESOURCE}
    amounts[PODS] = 1.0
    return {name: _whole(name, amount) for name, amount in sorted(amounts.items()) if amount > 0}


def _node_limits(node: Node, request: PlanRequest, needs: Mapping[str, int], domain: int) -> NodeLimits:
    asked = request.job.workers.gpu_memory
    closed = tuple(_closed_by(node, request))
    unstated = 0 if asked else UNLIMITED
    return NodeLimits(
        name=node.name,
        takes_workers=not closed,
        gpus=max(0, min(request.free_gpus.get(node.name, node.allocatable_gpus - node.requested_gpus), node.allocatable_gpus)),
        gpu_memory_bytes=unstated if node.gpu_memory_bytes is None else node.gpu_memory_bytes,
        domain=domain,
        amounts=tuple(_free(node, name, request) for name in needs),
        closed_by=closed,
    )


def _closed_by(node: Node, request: PlanRequest) -> Iterator[tuple[str, str]]:
    """Rules that keep every worker off the node; GPU memory is a constraint of its own."""
    for reason, broken in NODE_RULES:
        if reason != GPU_MEMORY_RULE and (sentence := broken(node, request)) is not None:
            yield reason, sentence
    yield from unmet_rules(node, request)


def _free(node: Node, name: str, request: PlanRequest) -> int:
    reserved = request.reserved_amounts.get(node.name, {}).get(name, 0.0)
    offered: float | None
    if name == CPU:
        offered, taken = node.allocatable_cpu_cores, node.requested_cpu_cores
    elif name == MEMORY:
        offered, taken = node.allocatable_memory_bytes, float(node.requested_memory_bytes)
    else:
        offered, taken = node.allocatable.get(name, 0.0) if node.allocatable else None, node.requested.get(name, 0.0)
    if offered is None or not math.isfinite(offered):
        return UNLIMITED
    return max(0, _whole(name, offered - taken - reserved))


def _whole(name: str, amount: float) -> int:
    return min(UNLIMITED, round(amount * _scale(name)))


def _scale(name: str) -> int:
    return 1 if name.startswith(BYTE_RESOURCES) else MICRO


def _domain_numbers(snapshot: ClusterSnapshot, key: str | None) -> list[int]:
    """Of each node, from 1 in the order of their names; NO_DOMAIN without the label, and for all nodes without a required level."""
    if key is None:
        return [NO_DOMAIN] * len(snapshot.nodes)
    names = [_domain(node, key, snapshot) for node in snapshot.nodes]
    numbers = {name: number for number, name in enumerate(sorted(set(names) - {""}), start=1)}
    return [numbers.get(name, NO_DOMAIN) for name in names]


def _domain(node: Node, key: str, snapshot: ClusterSnapshot) -> str:
    if key in snapshot.levels and len(node.domains) == len(snapshot.levels):
        return node.domains[snapshot.levels.index(key)]
    return node.labels.get(key, node.name if key == constants.HOSTNAME_LABEL else "")


def _dead(snapshot: ClusterSnapshot, position: Mapping[str, int]) -> Iterator[tuple[int, int]]:
    for link in snapshot.links:
        if link.bandwidth_bytes_per_second.value == 0.0 and link.source in position and link.destination in position:
            yield position[link.source], position[link.destination]


def _unreachable(snapshot: ClusterSnapshot, position: Mapping[str, int]) -> Iterator[tuple[int, int]]:
    if snapshot.absent_links is not AbsentLink.UNREACHABLE:
        return
    listed = {(position.get(link.source), position.get(link.destination)) for link in snapshot.links}
    for source in range(len(position)):
        for destination in range(len(position)):
            if source != destination and (source, destination) not in listed:
                yield source, destination
