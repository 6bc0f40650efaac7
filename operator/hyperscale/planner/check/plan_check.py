"""An independent judge of plans: nothing here is shared with the planners, so that one mistake cannot pass both.

`violations` judges a plan as a planner made it; `misfits` asks later whether the planned nodes still take what they were chosen for.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Final

from hyperscale.model import constants
from hyperscale.model.api.job import PlannerChoice
from hyperscale.model.cluster import AbsentLink, ClusterSnapshot, Node
from hyperscale.model.plan import MAX_REJECTED, Plan, Rejection, WorkerPlacement
from hyperscale.model.planning import PlanRequest
from hyperscale.planner.check.check_nodes import unfit

SHARE_TOLERANCE: Final = 1e-6
"""Shares are sums of up to 1,000 doubles; anything above this is a mistake, not rounding."""
OBJECTIVE_TOLERANCE: Final = 1e-6
PLANNERS: Final = frozenset(PlannerChoice) - {PlannerChoice.AUTO}


def violations(plan: Plan, request: PlanRequest, snapshot: ClusterSnapshot) -> tuple[str, ...]:
    """Sentences that say what is wrong with `plan`; empty when it may be carried out.

    plan:     as a planner answered
    request:  the question it answers
    snapshot: the cluster that it was made for
    """
    planned = {worker.node for worker in plan.workers}
    nodes = {node.name: node for node in snapshot.nodes if node.name in planned}
    return (
        *(sentence for rule in PLAN_RULES for sentence in rule(plan, request)),
        *(sentence for rule in CLUSTER_RULES for sentence in rule(plan, request, nodes, snapshot)),
    )


def misfits(plan: Plan, request: PlanRequest, snapshot: ClusterSnapshot) -> tuple[Rejection, ...]:
    """Planned nodes that do not take their workers any more, sorted by name, each with the first reason; pinned workers stay."""
    nodes = {node.name: node for node in snapshot.nodes}
    rejections: list[Rejection] = []
    for name, workers in sorted(_workers_by_node(plan).items()):
        for reason, sentence in unfit(name, nodes.get(name), workers, request):
            rejections.append(Rejection(node=name, reason=reason, message=sentence))
            break
    return tuple(rejections)


def _ranks(plan: Plan, request: PlanRequest) -> Iterator[str]:
    if not plan.workers:
        yield "the plan has no workers"
    elif [worker.index for worker in plan.workers] != list(range(len(plan.workers))):
        yield f"workers must be 0 to {len(plan.workers) - 1}, each once and in order"
    elif [rank for worker in plan.workers for rank in worker.ranks] != list(range(plan.ranks)):
        yield f"ranks must be 0 to {plan.ranks - 1}, each once and in the order of the workers"
    ranks_by_node: dict[str, int] = {}
    for worker in plan.workers:
        ranks_by_node[worker.node] = ranks_by_node.get(worker.node, 0) + len(worker.ranks)
    if ranks_by_node != plan.ranks_by_node:
        yield f"ranks by node are {plan.ranks_by_node}, but the workers have {ranks_by_node}"


def _apart(plan: Plan, request: PlanRequest) -> Iterator[str]:
    for name, workers in sorted(_workers_by_node(plan).items()):
        if request.apart and len(workers) > 1:
            yield f"{len(workers)} workers are planned for {name}, but their pods keep apart"


def _worker_count(plan: Plan, request: PlanRequest) -> Iterator[str]:
    count, limits = len(plan.workers), request.job.workers
    if request.workers_fixed is not None:
        if count != request.workers_fixed:
            yield f"{count} workers planned, but the MPIJob has {request.workers_fixed}"
    elif not limits.min_replicas <= count <= limits.max_replicas:
        yield f"{count} workers planned, but the job allows {limits.min_replicas} to {limits.max_replicas}"


def _partition_count(plan: Plan, request: PlanRequest) -> Iterator[str]:
    asked, ranks = request.job.partitioning.count, len(plan.workers) * request.job.workers.gpus_per_worker
    if asked is None:
        if plan.partitions != ranks:
            yield f"{plan.partitions} partitions planned for {ranks} ranks; without a count it is one each"
        return
    if plan.partitions != asked:
        yield f"{plan.partitions} partitions planned, but the job asks for {asked}"
    if ranks and asked % ranks:
        yield f"{asked} partitions cannot be dealt out evenly to {ranks} ranks"


def _gpus(plan: Plan, request: PlanRequest) -> Iterator[str]:
    wanted = request.job.workers.gpus_per_worker
    for worker in plan.workers:
        if worker.gpus != wanted:
            yield f"worker {worker.index} has {worker.gpus} GPUs, but the job gives each worker {wanted}"


def _pins(plan: Plan, request: PlanRequest) -> Iterator[str]:
    planned = {worker.index: worker.node for worker in plan.workers}
    for index, node in sorted(request.pinned.items()):
        if planned.get(index) != node:
            yield f"worker {index} must stay on {node}, but the plan has it on {planned.get(index, 'no node')}"


def _shares(plan: Plan, request: PlanRequest) -> Iterator[str]:
    for worker in plan.workers:
        if not math.isfinite(worker.share) or not 0 < worker.share <= 1 + SHARE_TOLERANCE:
            yield f"worker {worker.index} has share {worker.share}, which is not above 0 and at most 1"
            return
    total = math.fsum(worker.share for worker in plan.workers)
    if plan.workers and abs(total - 1) > SHARE_TOLERANCE:
        yield f"shares sum to {total}, not 1"


def _figures(plan: Plan, request: PlanRequest) -> Iterator[str]:
    predicted = plan.predicted
    figures = {
        "epoch seconds": predicted.epoch_seconds,
        "communication seconds": predicted.communication_seconds,
        "low seconds": predicted.low_seconds,
        "high seconds": predicted.high_seconds,
        "cost per epoch": predicted.cost_per_epoch,
        "objective": plan.objective,
    }
    wrong = [f"{name} of {value} is not a figure" for name, value in figures.items() if value is not None and not 0 <= value < math.inf]
    if wrong:
        yield from wrong
        return
    low, high = predicted.low_seconds, predicted.high_seconds
    if low is not None and high is not None and not low <= high:
        yield f"predicted between {low} and {high} seconds, which is the wrong way round"
    weight = request.job.placement.communication_weight
    if weight is not None:
        expected = predicted.epoch_seconds + weight * predicted.communication_seconds
        if not math.isclose(plan.objective, expected, rel_tol=OBJECTIVE_TOLERANCE, abs_tol=OBJECTIVE_TOLERANCE):
            yield f"objective {plan.objective} is not epoch seconds + {weight} × communication seconds = {expected}"


def _explanation(plan: Plan, request: PlanRequest) -> Iterator[str]:
    if plan.planner not in PLANNERS:
        yield f"planner {plan.planner!r} is not known"
    if len(plan.plan_id) != 16 or not set(plan.plan_id) <= set("0123456789abcdef"):
        yield f"plan id {plan.plan_id!r} is not 16 hex digits"
    if len(plan.rejected) > MAX_REJECTED:
        yield f"{len(plan.rejected)} rejections are more than {MAX_REJECTED}"


def _nodes(plan: Plan, request: PlanRequest, nodes: Mapping[str, Node], snapshot: ClusterSnapshot) -> Iterator[str]:
    for name, workers in sorted(_workers_by_node(plan).items()):
        for _, sentence in unfit(name, nodes.get(name), workers, request):
            yield sentence


def _products(plan: Plan, request: PlanRequest, nodes: Mapping[str, Node], snapshot: ClusterSnapshot) -> Iterator[str]:
    for worker in plan.workers:
        node = nodes.get(worker.node)
        if node is not None and worker.product != node.gpu_product:
            yield f"worker {worker.index} is planned for GPU {worker.product}, but {node.name} has {node.gpu_product}"


def _topology(plan: Plan, request: PlanRequest, nodes: Mapping[str, Node], snapshot: ClusterSnapshot) -> Iterator[str]:
    key = request.job.placement.topology.required
    if key is None:
        return
    domains = {_domain(nodes[worker.node], key, snapshot) for worker in plan.workers if worker.node in nodes}
    if "" in domains:
        yield f"a planned node has no label {key}, which the topology requires"
    elif len(domains) > 1:
        yield f"the topology requires one domain of {key}; the plan spans {', '.join(sorted(domains))}"


def _ring(plan: Plan, request: PlanRequest, nodes: Mapping[str, Node], snapshot: ClusterSnapshot) -> Iterator[str]:
    """Every worker must reach the next one, where the snapshot knows all links that there are."""
    if snapshot.absent_links is not AbsentLink.UNREACHABLE or len(plan.workers) < 2:
        return
    hops = [(worker.node, plan.workers[(index + 1) % len(plan.workers)].node) for index, worker in enumerate(plan.workers)]
    wanted = {hop for hop in hops if hop[0] != hop[1]}
    existing = {(link.source, link.destination) for link in snapshot.links if (link.source, link.destination) in wanted}
    for source, destination in sorted(wanted - existing):
        yield f"{source} cannot reach {destination}, its neighbour in the ring"


def _dead_links(plan: Plan, request: PlanRequest, nodes: Mapping[str, Node], snapshot: ClusterSnapshot) -> Iterator[str]:
    """No two planned nodes may have a link that was measured and carries nothing; pinned workers are where they are."""
    arriving = {worker.node for worker in plan.workers if request.pinned.get(worker.index) != worker.node}
    for link in [link for link in snapshot.links if link.bandwidth_bytes_per_second.value == 0.0]:
        if link.source in nodes and link.destination in nodes and {link.source, link.destination} & arriving:
            yield f"the link from {link.source} to {link.destination} is dead, and both are planned"


def _domain(node: Node, key: str, snapshot: ClusterSnapshot) -> str:
    if key in snapshot.levels and len(node.domains) == len(snapshot.levels):
        return node.domains[snapshot.levels.index(key)]
    return node.labels.get(key, node.name if key == constants.HOSTNAME_LABEL else "")


def _workers_by_node(plan: Plan) -> dict[str, list[WorkerPlacement]]:
    by_node: dict[str, list[WorkerPlacement]] = {}
    for worker in plan.workers:
        by_node.setdefault(worker.node, []).append(worker)
    return by_node


PLAN_RULES: Final = (_ranks, _apart, _worker_count, _partition_count, _gpus, _pins, _shares, _figures, _explanation)
CLUSTER_RULES: Final = (_nodes, _products, _topology, _ring, _dead_links)
