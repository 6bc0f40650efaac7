"""Which nodes may host a worker of a job, how many, and the first reason that rules each of the others out. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np
from msgspec.structs import replace

from hyperscale.model import constants
from hyperscale.model.cluster import Node, Quality, Taint
from hyperscale.model.graph import BoolArray, ClusterGraph, IntArray
from hyperscale.model.plan import Rejection
from hyperscale.model.planning import NodeRule, PlanRequest, Toleration
from hyperscale.model.products import COUNT_LABEL, PRODUCT_LABEL, count_of, sliced
from hyperscale.planner.problem.affinity import meets, shown
from hyperscale.planner.problem.amounts import amounts_of
from hyperscale.planner.problem.figures import figures_of, gpu_memory_bytes
from hyperscale.util.memo import Memo
from hyperscale.util.quantity import parse_bytes

HARDWARE_XIDS: Final = frozenset({48, 63, 64, 74, 79, 92, 94, 95})
"""XID errors that mean broken memory, a broken NVLink or a GPU that fell off the bus (NVIDIA's XID catalogue); they stay until a reset."""

EVICTING_EFFECTS: Final = ("NoSchedule", "NoExecute")
GPU_TOLERATION: Final = Toleration(key=constants.GPU_RESOURCE, operator="Exists")
"""The renderer gives every worker this one."""

GIB: Final = 1024**3
UNLIMITED: Final = 2**31
ROUNDING: Final = 1e-6
"""Requests are sums of decimal fractions held in binary."""


Failure = tuple[str, str]
"""Reason and message."""


class WorkerDemand(NamedTuple):
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
    rules: tuple[NodeRule, ...]
    further: tuple[tuple[str, float], ...]
    """Other resources by name, sorted; pods among them."""
    apart: bool
    """At most one worker a node."""
    barred: dict[str, Failure]
    """Nodes that the request itself leaves out, and why."""
    free_gpus: dict[str, int]
    held: dict[str, dict[str, float]]
    """The last three change from request to request; see `Lasting`."""


class Vetting(NamedTuple):
    """Outcome for all nodes."""

    slots: dict[str, int]
    """Workers that each suitable node can host now, by name; at least 1."""
    rejected: tuple[Rejection, ...]
    """The others, in the order of the nodes."""


def demand_of(request: PlanRequest, least_gpu_bytes: float = 0.0) -> WorkerDemand:
    """Needs of one worker. least_gpu_bytes: what the model itself needs on every GPU, whatever its share."""
    job = request.job
    workers = job.workers
    asked = parse_bytes(workers.gpu_memory) if workers.gpu_memory else 0
    amounts = amounts_of(request)
    return WorkerDemand(
        gpus=workers.gpus_per_worker,
        gpu_memory_bytes=max(asked, math.ceil(least_gpu_bytes)),
        gpu_memory_asked=asked > 0,
        cpu_cores=amounts.pop("cpu", 0.0),
        memory_bytes=math.ceil(amounts.pop("memory", 0.0)),
        products=frozenset(workers.gpu_products),
        labels=tuple(sorted({*job.placement.node_selector.items(), *request.required_labels.items()})),
        required_key=job.placement.topology.required,
        tolerations=(GPU_TOLERATION, *request.tolerations),
        rules=request.node_rules,
        further=tuple(sorted(amounts.items())),
        apart=request.apart,
        barred=_barred(request),
        free_gpus=request.free_gpus,
        held=request.held,
    )


def _barred(request: PlanRequest) -> dict[str, Failure]:
    """Nodes that may host no further worker, whatever they have."""
    there = "a worker of this job is there, and spec.worker.template keeps workers apart"
    return {
        **{name: ("Constraint", there) for name in request.pinned.values() if request.apart},
        **dict.fromkeys(request.excluded_nodes, ("Constraint", "excluded: it lost a rank of this job")),
        **{name: ("SchedulerRefused", words) for name, words in request.refused_nodes.items()},
    }


class Lasting(NamedTuple):
    """What vetting finds of a snapshot's nodes whichever are barred, whatever is free and whatever is held."""

    early: tuple[Rejection | None, ...]
    """First failed check before GPUs are counted."""
    late: tuple[Rejection | None, ...]
    """First failed check after that."""
    refused: BoolArray
    """(n,) either."""
    room: IntArray
    """(n,) workers by cores and memory."""


CHANGING: Final = 3
"""Fields at the end of `WorkerDemand` that `Lasting` does not depend on."""
KEPT_DEMANDS: Final = 16
_LASTING: Final[Memo[Lasting]] = Memo(KEPT_DEMANDS)


def vet(graph: ClusterGraph, demand: WorkerDemand) -> Vetting:
    """Slots of every suitable node, and the first failed check of every other one."""
    figures = figures_of(graph)
    lasting = _without_held(graph, demand, _LASTING.get((graph.digest, demand[:-CHANGING]), lambda: _lasting(graph, demand)))
    free = free_gpus(graph, demand)
    barred = np.zeros(len(free), dtype=np.bool_)
    barred[[graph.index[name] for name in demand.barred if name in graph.index]] = True
    suitable = ~(barred | lasting.refused) & (free >= demand.gpus)
    slots = np.minimum(free // demand.gpus, lasting.room)
    rejected: list[Rejection] = []
    for position in np.flatnonzero(~suitable).tolist():
        if (failure := demand.barred.get(figures.names[position])) is not None:
            found = Rejection(figures.names[position], *failure)
        elif free[position] < demand.gpus and lasting.early[position] is None:
            found = Rejection(figures.names[position], "NoFreeGpus", _too_few_free(graph.nodes[position], int(free[position]), demand))
        else:
            found = lasting.early[position] or lasting.late[position] or Rejection(figures.names[position], "Constraint")
        rejected.append(found)
    positions = np.flatnonzero(suitable)
    fitting = dict(zip((figures.names[position] for position in positions), slots[positions].tolist(), strict=True))
    return Vetting(fitting, tuple(rejected))


def _too_few_free(node: Node, free: int, demand: WorkerDemand) -> str:
    hidden = hidden_gpus(node)
    offers = f"; the device plugin offers {node.allocatable_gpus} of {node.allocatable_gpus + hidden}" if hidden else ""
    return f"{free} of {node.allocatable_gpus} GPUs free, a worker needs {demand.gpus}{offers}"


def hidden_gpus(node: Node) -> int:
    """GPUs that GPU Feature Discovery counts and the device plugin does not offer."""
    return max(0, count_of(node.labels, COUNT_LABEL) - node.allocatable_gpus)


def free_gpus(graph: ClusterGraph, demand: WorkerDemand) -> IntArray:
    """(n,) GPUs that a new pod could get on each node, with what is planned but not yet bound taken away."""
    figures = figures_of(graph)
    free = figures.free_gpus.copy()
    for name, left in demand.free_gpus.items():
        if name in graph.index:
            free[graph.index[name]] = left
    return np.clip(free, 0, np.maximum(figures.allocatable_gpus, 0))


def _lasting(graph: ClusterGraph, demand: WorkerDemand) -> Lasting:
    nodes = graph.nodes
    early = [_first_failure(node, demand, EARLY_CHECKS) for node in nodes]
    for position, others in graph.cut_off.items():
        early[position] = early[position] or _cut_off(graph, position, others)
    late = tuple(_first_failure(node, demand, LATE_CHECKS) for node in nodes)
    refused = np.array([first is not None or then is not None for first, then in zip(early, late, strict=True)], dtype=np.bool_)
    return Lasting(tuple(early), late, refused, np.array([_room(node, demand) for node in nodes], dtype=np.int64))


def _cut_off(graph: ClusterGraph, position: int, others: Sequence[int]) -> Rejection:
    shown = ", ".join(graph.nodes[other].name for other in others[:3]) + (" and others" if len(others) > 3 else "")
    return Rejection(graph.nodes[position].name, "Unreachable", f"all {len(others)} measured links are dead ({shown}): check its network")


def _without_held(graph: ClusterGraph, demand: WorkerDemand, lasting: Lasting) -> Lasting:
    """The same with what planned ranks of other jobs hold taken away."""
    held = {graph.index[name]: amounts for name, amounts in demand.held.items() if name in graph.index}
    if not held:
        return lasting
    late, refused, room = list(lasting.late), lasting.refused.copy(), lasting.room.copy()
    for position, amounts in held.items():
        node = with_held(graph.nodes[position], amounts)
        late[position], room[position] = _first_failure(node, demand, LATE_CHECKS), _room(node, demand)
        refused[position] = lasting.early[position] is not None or late[position] is not None
    return Lasting(lasting.early, tuple(late), refused, room)


def held_room(graph: ClusterGraph, demand: WorkerDemand) -> dict[int, int]:
    """Workers by cores, memory and further resources on the nodes where planned ranks hold some, by position."""
    held = {graph.index[name]: amounts for name, amounts in demand.held.items() if name in graph.index}
    return {position: max(0, _room(with_held(graph.nodes[position], amounts), demand)) for position, amounts in held.items()}


def with_held(node: Node, amounts: Mapping[str, float]) -> Node:
    """The node as if these amounts were requested too."""
    further = {name: node.requested.get(name, 0.0) + amount for name, amount in amounts.items() if name not in ("cpu", "memory")}
    return replace(
        node,
        requested_cpu_cores=node.requested_cpu_cores + amounts.get("cpu", 0.0),
        requested_memory_bytes=node.requested_memory_bytes + math.ceil(amounts.get("memory", 0.0)),
        requested={**node.requested, **further},
    )


Check = Callable[[Node, "WorkerDemand"], Failure | None]


def _first_failure(node: Node, demand: WorkerDemand, checks: Sequence[Check]) -> Rejection | None:
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
    return "GpuProduct", f"has {node.gpu_product or 'unlabelled GPUs'}, not among workers.gpuProducts"


def _memory_of_gpu(node: Node, demand: WorkerDemand) -> Failure | None:
    if demand.gpu_memory_asked and node.gpu_memory_bytes is None:
        return "GpuMemory", "has no label nvidia.com/gpu.memory, which workers.gpuMemory needs"
    memory = gpu_memory_bytes(node)
    if not demand.gpu_memory_bytes or memory is None or memory >= demand.gpu_memory_bytes:
        return None
    return "GpuMemory", f"has {memory / GIB:.0f} GiB a GPU, needs {demand.gpu_memory_bytes / GIB:.1f}"


def _fault(node: Node, demand: WorkerDemand) -> Failure | None:
    for gpu in node.gpus:
        if gpu.last_xid.quality is not Quality.UNKNOWN and gpu.last_xid.value in HARDWARE_XIDS:
            return "GpuFault", f"GPU {gpu.uuid} reported XID {gpu.last_xid.value:.0f}"
    return None


def _room_for_cpu(node: Node, demand: WorkerDemand) -> Failure | None:
    free = _free_cpu(node)
    return (
        None
        if demand.cpu_cores <= 0 or free >= demand.cpu_cores - ROUNDING
        else ("Cpu", f"{free:.1f} cores free, a worker needs {demand.cpu_cores:g}")
    )


def _room_for_memory(node: Node, demand: WorkerDemand) -> Failure | None:
    free = _free_memory(node)
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


BUSY_REASONS: Final = frozenset({"Cpu", "Memory", "Resource"})
"""Of rejections that end when other pods end, besides NoFreeGpus."""
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


def _room(node: Node, demand: WorkerDemand) -> int:
    """Workers that fit on `node` at once by everything but GPUs; very many where that is unknown or not asked for."""
    fits = [1 if demand.apart else UNLIMITED]
    if demand.cpu_cores > 0 and node.allocatable_cpu_cores is not None:
        fits.append(int((_free_cpu(node) + ROUNDING) / demand.cpu_cores))
    if demand.memory_bytes > 0 and node.allocatable_memory_bytes is not None:
        fits.append(int(_free_memory(node) // demand.memory_bytes))
    for name, amount in demand.further:
        if (free := free_further(node, name)) < amount * UNLIMITED:
            fits.append(int((free + ROUNDING) / amount))
    return min(fits)


def _free_cpu(node: Node) -> float:
    """Cores; infinite where the node does not say."""
    return math.inf if node.allocatable_cpu_cores is None else node.allocatable_cpu_cores - node.requested_cpu_cores


def amount_text(name: str, amount: float) -> str:
    """An amount of a further resource with its unit."""
    is_bytes = name == "ephemeral-storage" or name.startswith("hugepages-")
    return f"{amount / GIB:.3g} GiB of {name}" if is_bytes else f"{amount:g} {name}"


def free_further(node: Node, name: str) -> float:
    """Amount of a further resource; infinite where the node tells of none at all."""
    if not node.allocatable:
        return math.inf
    return max(0.0, node.allocatable.get(name, 0.0) - node.requested.get(name, 0.0))


def _free_memory(node: Node) -> float:
    """Bytes; infinite where the node does not say."""
    return math.inf if node.allocatable_memory_bytes is None else float(node.allocatable_memory_bytes - node.requested_memory_bytes)
