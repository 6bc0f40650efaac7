"""Why no plan exists: the one dominant reason, and what to try instead. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

import msgspec
import numpy as np

from hyperscale.model.cluster import Node
from hyperscale.model.plan import NEVER_FITS, Infeasible, Rejection
from hyperscale.planner.choice.never import never, other_parts
from hyperscale.planner.choice.reasons import bounded
from hyperscale.planner.problem.candidates import hidden_gpus
from hyperscale.planner.problem.node_room import GIB
from hyperscale.planner.problem.placement_problem import Problem
from hyperscale.planner.problem.regions import domains_of

KIND: Final[dict[str, str]] = {"NoFreeGPUs": "InsufficientGPUs", "GPUMemory": "GPUMemoryTooSmall"}
"""Reason of a node -> reason of the whole; any other means that no node matches."""

WAIT: Final = "Wait until GPUs are free"
CHECK: Final = "Check the network"
"""What to do first."""
MOST_LOOKED_AT: Final = 1000
"""Nodes among which dead links are looked for."""
MOST_SHOWN: Final = 3
"""Dead links named."""
MAX_TRIES: Final = 12
"""Smaller worker counts tried to find out what would work."""

Solvable = Callable[[Problem], bool]


def refuse(problem: Problem, solvable: Solvable, expired: Callable[[], bool] = lambda: False) -> Infeasible:
    """The refusal for a problem without a plan. `solvable` says whether a changed problem has one; none is asked for once `expired`."""
    lowest = _lowest(problem)
    if (why := never(problem)) is not None:
        reason, message = NEVER_FITS, f"never fits the nodes of now: {why}"
    elif problem.capacity < lowest:
        reason, message = _too_few(problem, lowest)
    elif not problem.counts():
        reason, message = _no_count(problem, lowest)
    elif problem.job.placement.topology.required is not None and _largest_domain(problem)[1] < problem.counts()[0]:
        reason, message = _no_domain(problem)
    else:
        reason, message = _cannot_work(problem, solvable, expired)
    return Infeasible(reason=reason, message=message, rejected=_rejected(problem))


def _lowest(problem: Problem) -> int:
    return problem.request.workers_fixed or problem.job.workers.min_replicas


def _needs(problem: Problem, workers: int) -> str:
    gpus = workers * problem.demand.gpus
    memory = f" with >= {problem.demand.gpu_memory_bytes / GIB:.3g} GiB" if problem.demand.gpu_memory_asked else ""
    return f"needs {gpus} GPU{'s' if gpus > 1 else ''}{memory} ({workers} worker{'s' if workers > 1 else ''} of {problem.demand.gpus})"


def _try_fewer(problem: Problem, available: int, first: str = WAIT) -> str:
    if problem.request.workers_fixed is not None:
        return f"{first}, or delete the MPIJob to plan with fewer workers."
    if available > 0:
        maximum = "" if problem.job.workers.max_replicas >= available else f" and spec.workers.maxReplicas: {available}"
        return f"{first}, or try spec.workers.minReplicas: {available}{maximum}."
    return f"{first}."


def _too_few(problem: Problem, lowest: int) -> tuple[str, str]:
    """Fewer slots than workers: which check keeps out the most room that would otherwise do."""
    weight: dict[str, int] = {}
    example: dict[str, Rejection] = {}
    for rejection in problem.vetting.rejected:
        node = problem.graph.nodes[problem.graph.index[rejection.node]]
        weight[rejection.reason] = weight.get(rejection.reason, 0) + max(1, node.allocatable_gpus // problem.demand.gpus)
        example.setdefault(rejection.reason, rejection)
    available = problem.capacity
    head = f"{_needs(problem, lowest)}; {available * problem.demand.gpus} found"
    if (busy := _busy(problem, lowest)) is not None:
        gpus, nodes = busy
        where = f"free among the {gpus} of the {nodes} matching nodes, the others are in use"
        return "InsufficientGPUs", f"{head}, {where}. {_try_fewer(problem, available)}"
    if (hidden := _hidden(problem)) is not None:
        return "InsufficientGPUs", f"{head}. {hidden}"
    if not weight:
        return "InsufficientGPUs", f"{head} on {len(problem.graph.nodes)} GPU nodes. {_try_fewer(problem, available)}"
    dominant = max(sorted(weight), key=lambda reason: weight[reason])
    count = sum(1 for rejection in problem.vetting.rejected if rejection.reason == dominant)
    shown = example[dominant]
    clause = f"{count} of {len(problem.graph.nodes)} nodes are ruled out by {dominant}, e.g. {shown.node}: {shown.message}"
    return KIND.get(dominant, "NoMatchingNodes"), f"{head}; {clause}. {_advice(problem, dominant, available)}"


def _matching(problem: Problem) -> list[Node]:
    """Nodes that only GPUs in use, or not offered, keep from hosting workers, and those that host some."""
    full = {rejection.node for rejection in problem.vetting.rejected if rejection.reason == "NoFreeGPUs"}
    return [problem.graph.nodes[problem.graph.index[name]] for name in sorted({*full, *problem.names})]


def _busy(problem: Problem, lowest: int) -> tuple[int, int] | None:
    """GPUs and number of the nodes that match, where these would do if nothing else held them; else None."""
    matching = _matching(problem)
    room = sum(node.allocatable_gpus // problem.demand.gpus for node in matching)
    return (sum(node.allocatable_gpus for node in matching), len(matching)) if room >= lowest else None


def _hidden(problem: Problem) -> str | None:
    """What to do about GPUs that are there and not offered; None where there are none."""
    short = [node for node in _matching(problem) if hidden_gpus(node)]
    if not short:
        return None
    offered, gpus = sum(node.allocatable_gpus for node in short), sum(node.allocatable_gpus + hidden_gpus(node) for node in short)
    where = short[0].name if len(short) == 1 else f"{len(short)} nodes, e.g. {short[0].name}"
    return f"The device plugin offers {offered} of {gpus} GPUs of {where}: `hyperscale doctor` says what is wrong there."


def _advice(problem: Problem, dominant: str, available: int) -> str:
    if available > 0 or dominant == "NoFreeGPUs":
        return _try_fewer(problem, available)
    fields = {
        "GPUMemory": "Try a smaller spec.workers.gpuMemory or spec.model.batchSize.",
        "GPUProduct": "Try other values in spec.workers.gpuProducts.",
        "MIGDevice": "Switch MIG off there, or add nodes with whole GPUs.",
        "SharedGPU": "Switch the sharing of GPUs off there (a vGPU: take a whole card), or add nodes with whole GPUs.",
        "NodeSelector": "Check spec.placement.nodeSelector against the nodes' labels.",
        "Constraint": "Check spec.placement.topology.required against the nodes' labels.",
        "Tainted": "Add a toleration to spec.workers.template.",
        "CPU": "Try less cpu in spec.workers.resources.",
        "SchedulerRefused": "Remove what the scheduler names.",
        "Memory": "Try less memory in spec.workers.resources.",
        "NodeAffinity": "Check the node affinity of spec.workers.template against the nodes' labels.",
        "Volume": "Use a volume that can be reached from these nodes.",
        "Resource": "Try smaller requests in spec.workers.resources or template.",
    }
    return fields.get(dominant, "Repair or uncordon the nodes.")


def _no_count(problem: Problem, lowest: int) -> tuple[str, str]:
    count = problem.job.partitioning.count
    highest = min(problem.job.workers.max_replicas, problem.capacity)
    if problem.pinned and highest <= problem.pinned[-1][0]:
        return "InsufficientGPUs", f"{_needs(problem, problem.pinned[-1][0] + 1)}; {problem.capacity * problem.demand.gpus} found."
    return (
        "PartitionCountMismatch",
        f"{count} partitions cannot be dealt out evenly to the ranks of {lowest} to {highest} workers of {problem.demand.gpus}. "
        "Leave spec.partitioning.count out, or write a multiple of workers times their GPUs.",
    )


def _largest_domain(problem: Problem) -> tuple[str, int]:
    """Domain of the required level with the most room, and that room."""
    key = problem.job.placement.topology.required or ""
    domains = domains_of(problem, key)
    pinned = [domains[candidate] for _, candidate in problem.pinned]
    room: dict[str, int] = {}
    for candidate, domain in enumerate(domains):
        if domain and {*pinned} <= {domain}:
            room[domain] = room.get(domain, 0) + int(problem.slots[candidate])
    if not room:
        return "", 0
    best = max(sorted(room), key=lambda domain: room[domain])
    return best, room[best] + len(pinned)


def _no_domain(problem: Problem) -> tuple[str, str]:
    key, (domain, room) = problem.job.placement.topology.required, _largest_domain(problem)
    where = f"the largest, {domain}, has room for {room}" if domain else "no node has that label"
    return (
        "InsufficientGPUs" if domain else "NoMatchingNodes",
        f"{_needs(problem, problem.counts()[0])} inside one domain of {key}; {where}. {_try_fewer(problem, room)}",
    )


def _cannot_work(problem: Problem, solvable: Solvable, expired: Callable[[], bool]) -> tuple[str, str]:
    """Enough slots and still nothing: memory for the training graph, or links."""
    counts = problem.counts()
    if solvable(replace(problem, workload=replace(problem.workload, full_graph_bytes=0.0, copy_bytes=0.0))):
        needed = problem.workload.gpu_bytes(1.0 / counts[-1], counts[-1] * problem.demand.gpus, problem.demand.gpus)
        more = "a larger spec.workers.maxReplicas, or " if problem.capacity > counts[-1] else ""
        enough = int((problem.slots * (problem.memory_bytes >= needed)).sum())
        return (
            "MemoryTooSmall",
            f"an equal part for {counts[-1]} workers takes {needed / GIB:.3g} GiB of a GPU, free GPUs with room for {enough} of them have "
            f"that, {other_parts(problem)}. Wait until GPUs with more memory are free, "
            f"or try {more}spec.model.batchSize to train on samples.",
        )
    connected = 0
    for count in _smaller(counts[0]):
        if expired():
            wanted = f"{_needs(problem, counts[0])} that can reach each other"
            return (
                "NodesCannotReachEachOther",
                f"{wanted}; time was up before a smaller number was found. Try a smaller spec.workers.minReplicas.",
            )
        if solvable(_with_workers(problem, count)):
            connected = count
            break
    head = f"{_needs(problem, counts[0])} that can reach each other; {connected * problem.demand.gpus} found"
    where = f"{head} among {problem.capacity * problem.demand.gpus} free ones{_dead_links(problem)}"
    idle = not problem.request.free_gpus and all(node.free_gpus == node.allocatable_gpus for node in _matching(problem))
    return "NodesCannotReachEachOther", f"{where}. {_try_fewer(problem, connected, CHECK if idle else WAIT)}"


def _dead_links(problem: Problem) -> str:
    """Pairs of free nodes that cannot talk; "" beyond MOST_LOOKED_AT nodes, where to look at all takes long."""
    if len(problem.nodes) > MOST_LOOKED_AT:
        return ""
    reachable = problem.graph.link_costs(problem.nodes).reachable
    dead = np.argwhere(np.triu(~(reachable & reachable.T), 1)).tolist()
    shown = [f"{problem.names[one]} and {problem.names[other]}" for one, other in dead[:MOST_SHOWN]]
    more = f" and {len(dead) - MOST_SHOWN} more" if len(dead) > MOST_SHOWN else ""
    return f", no way between {', '.join(shown)}{more}" if shown else ""


def _smaller(lowest: int) -> list[int]:
    """Worker counts below `lowest`, falling, thinned out to MAX_TRIES."""
    step = max(1, (lowest - 1) // MAX_TRIES)
    return list(range(lowest - 1, 0, -step))


def _with_workers(problem: Problem, count: int) -> Problem:
    return replace(problem, request=msgspec.structs.replace(problem.request, workers_fixed=count))


def _rejected(problem: Problem) -> tuple[Rejection, ...]:
    by_reason: dict[str, list[Rejection]] = {}
    for rejection in problem.vetting.rejected:
        by_reason.setdefault(rejection.reason, []).append(rejection)
    return bounded(by_reason)
