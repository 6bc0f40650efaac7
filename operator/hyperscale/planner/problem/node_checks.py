"""The checks that a node must pass to host a worker, one function each, in the order in which a failure is reported."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from hyperscale.model import constants
from hyperscale.model.cluster import Node, Quality, Taint
from hyperscale.model.plan import Rejection
from hyperscale.model.planning import Toleration
from hyperscale.model.products import PRODUCT_LABEL, sliced
from hyperscale.planner.problem.affinity import meets, shown
from hyperscale.planner.problem.figures import gpu_memory_bytes
from hyperscale.planner.problem.node_room import GIB, ROUNDING, amount_text, free_cpu, free_further, free_memory
from hyperscale.planner.problem.worker_demand import Failure, WorkerDemand
from hyperscale.util.xids import HARDWARE_XIDS

EVICTING_EFFECTS: Final = ("NoSchedule", "NoExecute")
Check = Callable[[Node, "WorkerDemand"], Failure | None]


def first_failure(node: Node, demand: WorkerDemand, checks: Sequence[Check]) -> Rejection | None:
    """The first of `checks` that `node` fails; None where it passes all."""
    for check in checks:
        if (failure := check(node, demand)) is not None:
            return Rejection(node=node.name, reason=failure[0], message=failure[1])
    return None


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


def _ready(node: Node, demand: WorkerDemand) -> Failure | None:
    return None if node.ready else ("NotReady", "the node is not Ready")


def _schedulable(node: Node, demand: WorkerDemand) -> Failure | None:
    return None if node.schedulable else ("Cordoned", "the node is cordoned")


def _taints(node: Node, demand: WorkerDemand) -> Failure | None:
    for taint in node.taints:
        if taint.effect in EVICTING_EFFECTS and not tolerated(taint, demand.tolerations):
            return "Tainted", f"taint {taint.key}={taint.value}:{taint.effect} is not tolerated"
    return None


def _labels(node: Node, demand: WorkerDemand) -> Failure | None:
    for key, value in demand.labels:
        if node.labels.get(key) != value:
            return "NodeSelector", f"label {key} is {node.labels.get(key, 'absent')}, needs {value}"
    return None


def _rules(node: Node, demand: WorkerDemand) -> Failure | None:
    for rule in demand.rules:
        if not meets(node, rule):
            return rule.reason, f"{rule.source} asks for {shown(rule)}"
    return None


def _whole_gpus(node: Node, demand: WorkerDemand) -> Failure | None:
    """Speed, memory and the way to the next GPU are those of a whole card."""
    return sliced(node.labels, node.allocatable_gpus)


def _product(node: Node, demand: WorkerDemand) -> Failure | None:
    if not demand.products or node.gpu_product in demand.products or node.labels.get(PRODUCT_LABEL) in demand.products:
        return None
    return "GPUProduct", f"has {node.gpu_product or 'unlabelled GPUs'}, not among workers.gpuProducts"


def _memory_of_gpu(node: Node, demand: WorkerDemand) -> Failure | None:
    if demand.gpu_memory_asked and node.gpu_memory_bytes is None:
        return "GPUMemory", "has no label nvidia.com/gpu.memory, which workers.gpuMemory needs"
    memory = gpu_memory_bytes(node)
    if not demand.gpu_memory_bytes or memory is None or memory >= demand.gpu_memory_bytes:
        return None
    return "GPUMemory", f"has {memory / GIB:.0f} GiB a GPU, needs {demand.gpu_memory_bytes / GIB:.1f}"


def _fault(node: Node, demand: WorkerDemand) -> Failure | None:
    for gpu in node.gpus:
        if gpu.last_xid.value in HARDWARE_XIDS and gpu.last_xid.quality is not Quality.UNKNOWN:
            return "GPUFault", f"GPU {gpu.uuid} reported XID {gpu.last_xid.value:.0f}"
    return None


def _room_for_cpu(node: Node, demand: WorkerDemand) -> Failure | None:
    free = free_cpu(node)
    return (
        None
        if demand.cpu_cores <= 0 or free >= demand.cpu_cores - ROUNDING
        else ("CPU", f"{free:.1f} cores free, a worker needs {demand.cpu_cores:g}")
    )


def _room_for_memory(node: Node, demand: WorkerDemand) -> Failure | None:
    free = free_memory(node)
    if demand.memory_bytes <= 0 or free >= demand.memory_bytes:
        return None
    return "Memory", f"{free / GIB:.1f} GiB free, a worker needs {demand.memory_bytes / GIB:.1f}"


def _room_for_further(node: Node, demand: WorkerDemand) -> Failure | None:
    for name, amount in demand.further:
        if (free := free_further(node, name)) < amount - ROUNDING:
            return "Resource", f"{amount_text(name, free)} free, a worker needs {amount_text(name, amount)}"
    return None


def _has_required_level(node: Node, demand: WorkerDemand) -> Failure | None:
    if demand.required_key in (None, constants.HOSTNAME_LABEL) or node.labels.get(demand.required_key or ""):
        return None
    return "Constraint", f"has no label {demand.required_key}, which placement.topology.required names"


UNASKED: Final[dict[Check, Callable[[WorkerDemand], bool]]] = {
    _labels: lambda demand: not demand.labels,
    _rules: lambda demand: not demand.rules,
    _product: lambda demand: not demand.products,
    _memory_of_gpu: lambda demand: not (demand.gpu_memory_asked or demand.gpu_memory_bytes),
    _has_required_level: lambda demand: demand.required_key in (None, constants.HOSTNAME_LABEL),
    _room_for_cpu: lambda demand: demand.cpu_cores <= 0,
    _room_for_memory: lambda demand: demand.memory_bytes <= 0,
    _room_for_further: lambda demand: not demand.further,
}
"""When every node passes a check because the job does not ask for it."""


def asked(demand: WorkerDemand, checks: Sequence[Check]) -> tuple[Check, ...]:
    """Those of `checks` that a node may fail."""
    return tuple(check for check in checks if check not in UNASKED or not UNASKED[check](demand))


BUSY_REASONS: Final = frozenset({"CPU", "Memory", "Resource"})
"""Of rejections that end when other pods end, besides NoFreeGPUs."""
EARLY_CHECKS: Final[tuple[Check, ...]] = (
    _ready,
    _schedulable,
    _taints,
    _labels,
    _rules,
    _whole_gpus,
    _product,
    _memory_of_gpu,
    _has_required_level,
    _fault,
)
LATE_CHECKS: Final[tuple[Check, ...]] = (_room_for_cpu, _room_for_memory, _room_for_further)
"""From what an administrator decided to what is merely busy now: the first one that fails is the reason given.

Before all of them comes what the request excludes; between early and late ones, free GPUs.
"""
