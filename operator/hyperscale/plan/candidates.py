"""Which nodes may host a worker of a job, how many, and the first reason that rules each of the others out. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from hyperscale import names
from hyperscale.model.cluster import Node, Quality, Taint
from hyperscale.model.plan import Rejection
from hyperscale.model.planning import PlanRequest, Toleration
from hyperscale.quantity import parse_bytes, parse_number

HARDWARE_XIDS: Final = frozenset({48, 63, 64, 74, 79, 92, 94, 95})
"""XID errors that mean broken memory, a broken NVLink or a GPU that fell off the bus (NVIDIA's XID catalogue); they stay until a reset."""

EVICTING_EFFECTS: Final = ("NoSchedule", "NoExecute")
GPU_TOLERATION: Final = Toleration(key=names.GPU_RESOURCE, operator="Exists")
"""The renderer gives every worker this one."""

GIB: Final = 1024**3


class Demand(NamedTuple):
    """What every worker needs of its node."""

    gpus: int
    gpu_memory_bytes: int
    """Memory of each GPU: what the job asks for, or what the model needs at least."""
    gpu_memory_asked: bool
    """True where the job asks for it: then a node that does not say what it has is no candidate."""
    cpu_cores: float
    memory_bytes: int
    products: frozenset[str]
    labels: tuple[tuple[str, str], ...]
    """Sorted; a key asked for with two values fits no node."""
    required_key: str | None
    tolerations: tuple[Toleration, ...]
    excluded: frozenset[str]
    free_gpus: dict[str, int]


class Vetting(NamedTuple):
    """Outcome for all nodes."""

    slots: dict[str, int]
    """Workers that each suitable node can host now, by name; at least 1."""
    rejected: tuple[Rejection, ...]
    """The others, in the order of the nodes."""


def demand_of(request: PlanRequest, least_gpu_bytes: float = 0.0) -> Demand:
    """Needs of one worker. least_gpu_bytes: what the model itself needs on every GPU, whatever its share."""
    job = request.job
    workers = job.workers
    asked = parse_bytes(workers.gpu_memory) if workers.gpu_memory else 0
    return Demand(
        gpus=workers.gpus_per_worker,
        gpu_memory_bytes=max(asked, math.ceil(least_gpu_bytes)),
        gpu_memory_asked=asked > 0,
        cpu_cores=parse_number(workers.cpu) if workers.cpu else 0.0,
        memory_bytes=parse_bytes(workers.memory) if workers.memory else 0,
        products=frozenset(workers.gpu_products),
        labels=tuple(sorted({*job.placement.node_selector.items(), *request.required_labels.items()})),
        required_key=job.placement.topology.required,
        tolerations=(GPU_TOLERATION, *request.tolerations),
        excluded=frozenset(request.excluded_nodes),
        free_gpus=request.free_gpus,
    )


def vet(nodes: Sequence[Node], demand: Demand) -> Vetting:
    """Slots of every suitable node, and the first failed check of every other one."""
    slots: dict[str, int] = {}
    rejected: list[Rejection] = []
    for node in nodes:
        failure = first_failure(node, demand)
        if failure is None:
            slots[node.name] = _slots(node, demand)
        else:
            rejected.append(Rejection(node=node.name, reason=failure[0], message=failure[1]))
    return Vetting(slots, tuple(rejected))


Failure = tuple[str, str]
"""Reason and message."""


def first_failure(node: Node, demand: Demand) -> Failure | None:
    """The first check that `node` fails; None where it can host a worker."""
    for check in CHECKS:
        if (failure := check(node, demand)) is not None:
            return failure
    return None


def free_gpus(node: Node, demand: Demand) -> int:
    """GPUs that a new pod could get, with what is planned but not yet bound taken away."""
    return max(0, min(demand.free_gpus.get(node.name, node.free_gpus), node.allocatable_gpus))


def tolerated(taint: Taint, tolerations: Sequence[Toleration]) -> bool:
    """True where one of `tolerations` matches `taint`, by the rules of the core API."""
    for toleration in tolerations:
        if toleration.effect not in ("", taint.effect):
            continue
        if toleration.operator == "Exists" and toleration.key in ("", taint.key):
            return True
        if toleration.operator != "Exists" and (toleration.key, toleration.value) == (taint.key, taint.value):
            return True
    return False


def gpu_memory_bytes(node: Node) -> int | None:
    """Memory of one GPU: the label, else the smallest figure sampled; None when neither is known."""
    if node.gpu_memory_bytes is not None:
        return node.gpu_memory_bytes
    sampled = [gpu.memory_total_bytes.value for gpu in node.gpus if gpu.memory_total_bytes.value is not None]
    return int(min(sampled)) if sampled else None


def _excluded(node: Node, demand: Demand) -> Failure | None:
    return ("Constraint", "excluded: it lost a rank of this job") if node.name in demand.excluded else None


def _ready(node: Node, demand: Demand) -> Failure | None:
    return None if node.ready else ("NotReady", "the node is not Ready")


def _schedulable(node: Node, demand: Demand) -> Failure | None:
    return None if node.schedulable else ("Cordoned", "the node is cordoned")


def _taints(node: Node, demand: Demand) -> Failure | None:
    for taint in node.taints:
        if taint.effect in EVICTING_EFFECTS and not tolerated(taint, demand.tolerations):
            return "Tainted", f"taint {taint.key}={taint.value}:{taint.effect} is not tolerated"
    return None


def _labels(node: Node, demand: Demand) -> Failure | None:
    for key, value in demand.labels:
        if node.labels.get(key) != value:
            return "NodeSelector", f"label {key} is {node.labels.get(key, 'absent')}, needs {value}"
    return None


def _product(node: Node, demand: Demand) -> Failure | None:
    if not demand.products or node.gpu_product in demand.products or node.labels.get("nvidia.com/gpu.product") in demand.products:
        return None
    return "GpuProduct", f"has {node.gpu_product or 'unlabelled GPUs'}, not among workers.gpuProducts"


def _memory_of_gpu(node: Node, demand: Demand) -> Failure | None:
    if demand.gpu_memory_asked and node.gpu_memory_bytes is None:
        return "GpuMemory", "has no label nvidia.com/gpu.memory, which workers.gpuMemory needs"
    memory = gpu_memory_bytes(node)
    if not demand.gpu_memory_bytes or memory is None or memory >= demand.gpu_memory_bytes:
        return None
    return "GpuMemory", f"has {memory / GIB:.0f} GiB a GPU, needs {demand.gpu_memory_bytes / GIB:.1f}"


def _fault(node: Node, demand: Demand) -> Failure | None:
    for gpu in node.gpus:
        if gpu.last_xid.quality is not Quality.UNKNOWN and gpu.last_xid.value in HARDWARE_XIDS:
            return "GpuFault", f"GPU {gpu.uuid} reported XID {gpu.last_xid.value:.0f}"
    return None


def _room_for_gpus(node: Node, demand: Demand) -> Failure | None:
    free = free_gpus(node, demand)
    if free >= demand.gpus:
        return None
    return "NoFreeGpus", f"{free} of {node.allocatable_gpus} GPUs free, a worker needs {demand.gpus}"


def _room_for_cpu(node: Node, demand: Demand) -> Failure | None:
    free = _free_cpu(node)
    return None if free >= demand.cpu_cores else ("Cpu", f"{free:.1f} cores free, a worker needs {demand.cpu_cores:g}")


def _room_for_memory(node: Node, demand: Demand) -> Failure | None:
    free = _free_memory(node)
    if free >= demand.memory_bytes:
        return None
    return "Memory", f"{free / GIB:.1f} GiB free, a worker needs {demand.memory_bytes / GIB:.1f}"


def _has_required_level(node: Node, demand: Demand) -> Failure | None:
    if demand.required_key in (None, names.HOSTNAME_LABEL) or node.labels.get(demand.required_key or ""):
        return None
    return "Constraint", f"has no label {demand.required_key}, which placement.topology.required names"


CHECKS: Final[tuple[Callable[[Node, Demand], Failure | None], ...]] = (
    _excluded,
    _ready,
    _schedulable,
    _taints,
    _labels,
    _product,
    _memory_of_gpu,
    _has_required_level,
    _fault,
    _room_for_gpus,
    _room_for_cpu,
    _room_for_memory,
)
"""From what an administrator decided to what is merely busy now: the first one that fails is the reason given."""


def _slots(node: Node, demand: Demand) -> int:
    """Workers that fit on `node` at once."""
    fits = [free_gpus(node, demand) // demand.gpus]
    if demand.cpu_cores > 0 and node.allocatable_cpu_cores is not None:
        fits.append(int(_free_cpu(node) / demand.cpu_cores + 1e-9))
    if demand.memory_bytes > 0 and node.allocatable_memory_bytes is not None:
        fits.append(int(_free_memory(node) // demand.memory_bytes))
    return min(fits)


def _free_cpu(node: Node) -> float:
    """Cores; infinite where the node does not say."""
    return math.inf if node.allocatable_cpu_cores is None else node.allocatable_cpu_cores - node.requested_cpu_cores


def _free_memory(node: Node) -> float:
    """Bytes; infinite where the node does not say."""
    return math.inf if node.allocatable_memory_bytes is None else float(node.allocatable_memory_bytes - node.requested_memory_bytes)
