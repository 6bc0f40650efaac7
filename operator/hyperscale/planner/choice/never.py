"""Why a job could not start even on the empty cluster with every node ready: then waiting does not help. Pure.

"Never" is said of the nodes of now: an autoscaler or a person may add others. Cordons, taints, faults and readiness pass, so they do not
count; labels, products, sizes and topology stay.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

import numpy as np

from hyperscale.model import constants
from hyperscale.model.api.job import Balance
from hyperscale.model.cluster import ClusterSnapshot, Node
from hyperscale.model.graph import FloatArray
from hyperscale.model.products import PRODUCT_LABEL
from hyperscale.planner.cost.shares import LEAST_SHARE, largest_parts
from hyperscale.planner.problem.affinity import meets, shown
from hyperscale.planner.problem.candidates import hidden_gpus
from hyperscale.planner.problem.figures import gpu_memory_bytes
from hyperscale.planner.problem.node_room import GIB, UNLIMITED, amount_text
from hyperscale.planner.problem.placement_problem import USABLE_MEMORY_RATIO, Problem
from hyperscale.planner.problem.worker_demand import WorkerDemand

SHOWN: Final = 3
OR_ADD: Final = "or add nodes."


class _Size(NamedTuple):
    """What a worker asks of a node's size."""

    field: str
    """Where the job says so."""
    asked: float
    has: Callable[[Node], float]
    """Of the whole node; +inf where it does not tell."""
    words: Callable[[float], str]
    """An amount with its unit."""
    advice: Callable[[float], str]
    """What to write, given the most that a node has."""


def never(problem: Problem) -> str | None:
    """One line on why the job cannot start on the nodes of now, whatever ends there; None where it could."""
    nodes = problem.graph.nodes
    if not nodes:
        return "the cluster has no GPU nodes. Add nodes, or see `hyperscale doctor`."
    demand = problem.demand
    sizes = _sizes(problem)
    return (
        next(_features(demand, nodes), None)
        or next((text for size in sizes if (text := _too_large(size, nodes))), None)
        or _jointly(demand, sizes, nodes)
        or _together(problem, sizes)
        or _part_too_large(problem, sizes)
        or None
    )


def _features(demand: WorkerDemand, nodes: tuple[Node, ...]) -> Iterator[str]:
    """Labels and products that no node has."""
    count = f"none of the {len(nodes)} GPU nodes"
    yield from _unmet_labels(demand, nodes, count)
    if not any(_has_product(node, demand) for node in nodes):
        have = Counter(node.gpu_product or "unlabelled GPUs" for node in nodes)
        listed = ", ".join(name for name, _ in sorted(have.items(), key=lambda entry: (-entry[1], entry[0]))[:SHOWN])
        asked = " or ".join(sorted(demand.products)[:SHOWN])
        yield f"{count} has {asked}; they have {listed}. Change spec.workers.gpuProducts, {OR_ADD}"
    required = demand.required_key
    if required is not None and not any(_level(node, required) for node in nodes):
        yield f"{count} has the label {required}. Change spec.placement.topology.required, {OR_ADD}"


def _unmet_labels(demand: WorkerDemand, nodes: tuple[Node, ...], count: str) -> Iterator[str]:
    """Labels of the node selector and rules of node affinity that no node meets."""
    for key, value in demand.labels:
        if all(node.labels.get(key) != value for node in nodes):
            label_value = nodes[0].labels.get(key, "absent")
            yield f"the node selector fits {count}, e.g. {nodes[0].name}: label {key} is {label_value}, needs {value}. Correct it, {OR_ADD}"
    for rule in demand.rules:
        if not any(meets(node, rule) for node in nodes):
            yield f"{count} meets {rule.source}, {shown(rule)}. Change it, {OR_ADD}"


def _too_large(size: _Size, nodes: tuple[Node, ...]) -> str:
    """A worker larger than every node."""
    most = max(nodes, key=lambda node: (size.has(node), node.name))
    if size.has(most) >= size.asked:
        return ""
    has = size.words(size.has(most))
    where = f"the largest of the {len(nodes)} GPU nodes, {most.name}, has {has}"
    return f"{size.field} asks for {size.words(size.asked)}, and {where}. {size.advice(size.has(most))}, {OR_ADD}"


def _jointly(demand: WorkerDemand, sizes: tuple[_Size, ...], nodes: tuple[Node, ...]) -> str:
    """Each demand is met by some node and all of them by none."""
    reasons: Counter[str] = Counter()
    for node in nodes:
        failed = _failed(node, demand, sizes)
        if failed is None:
            return ""
        reasons[failed] += 1
    listed = ", ".join(f"{field} ({count})" for field, count in sorted(reasons.items(), key=lambda entry: (-entry[1], entry[0])))
    return f"no single one of the {len(nodes)} GPU nodes has all that a worker asks for; ruled out by {listed}. Change one, {OR_ADD}"


def _together(problem: Problem, sizes: tuple[_Size, ...]) -> str:
    """More workers than all nodes, or those of one required domain, could host at once."""
    fixed, key = problem.request.workers_fixed, problem.demand.required_key
    lowest = fixed or problem.job.workers.min_replicas
    room: Counter[str] = Counter()
    for node in problem.graph.nodes:
        if _failed(node, problem.demand, sizes) is None:
            domain = domain_of(node, key, problem.graph.snapshot) if key is not None else ""
            room[domain] += 1 if problem.demand.apart else _slots(node, sizes)
    most_workers = max(room.values())
    if most_workers >= lowest:
        return ""
    where = f"one domain of {key} can" if key is not None else f"the {len(problem.graph.nodes)} GPU nodes can together"
    gpus = problem.demand.gpus
    head = f"{lowest} workers of {gpus} GPU{'s' if gpus > 1 else ''} are needed, and {where} host {most_workers} of them at most"
    change = "Delete the MPIJob to plan with fewer workers" if fixed else f"Lower spec.workers.minReplicas to at most {most_workers}"
    return f"{head}. {change}, {OR_ADD}"


def _part_too_large(problem: Problem, sizes: tuple[_Size, ...]) -> str:
    """No number of workers with room has GPUs that hold the training graph; unequal GPUs take unequal parts under balance Capacity."""
    fixed, gpus = problem.request.workers_fixed, problem.demand.gpus
    lowest, most = (fixed, fixed) if fixed else (problem.job.workers.min_replicas, problem.job.workers.max_replicas)
    workers, largest = 0, 0.0
    for memory in _memory_of_slots(problem, sizes, most):
        workers, largest = max(workers, len(memory)), max(largest, float(memory[0]))
        for count in range(lowest, len(memory) + 1):
            limit = largest_parts(problem.workload, memory[:count] * USABLE_MEMORY_RATIO, count * gpus, gpus)
            equal = problem.job.partitioning.balance is Balance.EQUAL
            if float(limit[-1]) >= 1.0 / count if equal else limit[-1] > LEAST_SHARE and float(limit.sum()) >= 1.0 - LEAST_SHARE:
                return ""
    needed = problem.workload.gpu_bytes(1.0 / workers, workers * gpus, gpus)
    room = max((len(memory) for memory in _memory_of_slots(problem, sizes, most + 1)), default=0)
    larger = "a larger spec.workers.maxReplicas, or " if room > most and not fixed else ""
    many = f"{workers} worker{'s' if workers > 1 else ''}"
    return (
        f"an equal part for {many}, the most that may or can run, takes {needed / GIB:.3g} GiB of a GPU. The GPUs of nodes that "
        f"can host one have at most {largest / GIB:.3g} GiB, of which {USABLE_MEMORY_RATIO:.0%} count, {other_parts(problem)}. "
        f"Try {larger}spec.model.batchSize to train on samples, {OR_ADD}"
    )


def other_parts(problem: Problem) -> str:
    """What is to be said of parts of other sizes where equal ones do not fit."""
    if problem.job.partitioning.balance is Balance.EQUAL:
        return "and spec.partitioning.balance: Equal allows no other parts"
    return "and unequal parts do not fit either"


def _memory_of_slots(problem: Problem, sizes: tuple[_Size, ...], most: int) -> list[FloatArray]:
    """For each domain with room, memory in bytes of a GPU of every worker it could host, at most `most` of them, falling."""
    key = problem.demand.required_key
    memory_by_domain: dict[str, list[float]] = {}
    for node in problem.graph.nodes:
        if _failed(node, problem.demand, sizes) is None:
            slots = 1 if problem.demand.apart else min(_slots(node, sizes), most)
            domain = domain_of(node, key, problem.graph.snapshot) if key is not None else ""
            memory_by_domain.setdefault(domain, []).extend([_gpu_memory(node)] * slots)
    return [np.sort(np.array(memory))[::-1][:most] for memory in memory_by_domain.values()]


def _sizes(problem: Problem) -> tuple[_Size, ...]:
    demand = problem.demand

    def lower(field: str) -> Callable[[float], str]:
        return lambda most: f"Lower {field}"

    asked = "spec.workers.gpuMemory" if demand.gpu_memory_asked else "the model"
    smaller = "Lower spec.model.hiddenSize or layers"
    return (
        _Size(
            "spec.workers.resources",
            demand.gpus,
            total_gpus,
            lambda amount: f"{amount:g} GPUs",
            lambda most: f"Lower nvidia.com/gpu to at most {most:g}" if most >= 1 else "Repair the device plugin",
        ),
        _Size(
            asked,
            demand.gpu_memory_bytes,
            _gpu_memory,
            lambda amount: f"{amount / GIB:.4g} GiB a GPU",
            lambda most: f"Lower it to at most {math.floor(most / GIB)}Gi" if demand.gpu_memory_asked else smaller,
        ),
        _Size("a worker", demand.cpu_cores, _cores, lambda amount: f"{amount:g} CPU cores", lower("cpu in spec.workers.resources")),
        _Size(
            "a worker",
            demand.memory_bytes,
            _memory,
            lambda amount: f"{amount / GIB:.4g} GiB of memory",
            lower("memory in spec.workers.resources"),
        ),
        *(_further(name, amount) for name, amount in demand.further),
    )


def _further(name: str, amount: float) -> _Size:
    """A resource that is neither GPUs nor cpu nor memory."""

    def has(node: Node) -> float:
        return node.allocatable.get(name, 0.0) if node.allocatable else math.inf

    return _Size("a worker", amount, has, lambda given: amount_text(name, given), lambda most: "Change spec.workers.resources or template")


def _failed(node: Node, demand: WorkerDemand, sizes: tuple[_Size, ...]) -> str | None:
    """Field of the first lasting demand that the node does not meet."""
    if any(node.labels.get(key) != value for key, value in demand.labels):
        return "the node selector"
    for rule in demand.rules:
        if not meets(node, rule):
            return rule.source
    if not _has_product(node, demand):
        return "spec.workers.gpuProducts"
    if demand.required_key is not None and not _level(node, demand.required_key):
        return "spec.placement.topology.required"
    return next((size.field for size in sizes if size.has(node) < size.asked), None)


def _slots(node: Node, sizes: tuple[_Size, ...]) -> int:
    """Workers on the node with nothing else there; memory of GPUs is not shared out."""
    counted = [size for size in sizes if size.has is not _gpu_memory and size.asked > 0 and size.has(node) < math.inf]
    return min((int(size.has(node) / size.asked + 1e-9) for size in counted), default=UNLIMITED)


def total_gpus(node: Node) -> float:
    """GPUs of the node, also those that its device plugin does not offer now: GPU Feature Discovery counts them all."""
    return float(node.allocatable_gpus + hidden_gpus(node))


def domain_of(node: Node, key: str, snapshot: ClusterSnapshot) -> str:
    """Domain of the node at the level of label `key`, "" without one; domains of a level are distinguished by the levels above it."""
    if key not in snapshot.levels:
        return _level(node, key)
    level = snapshot.levels.index(key)
    return node.domains[level] if level < len(node.domains) else ""


def _level(node: Node, key: str) -> str:
    return node.labels.get(key, node.name if key == constants.HOSTNAME_LABEL else "")


def _has_product(node: Node, demand: WorkerDemand) -> bool:
    return not demand.products or node.gpu_product in demand.products or node.labels.get(PRODUCT_LABEL) in demand.products


def _gpu_memory(node: Node) -> float:
    memory = gpu_memory_bytes(node)
    return math.inf if memory is None else float(memory)


def _cores(node: Node) -> float:
    return math.inf if node.allocatable_cpu_cores is None else node.allocatable_cpu_cores


def _memory(node: Node) -> float:
    return math.inf if node.allocatable_memory_bytes is None else float(node.allocatable_memory_bytes)
