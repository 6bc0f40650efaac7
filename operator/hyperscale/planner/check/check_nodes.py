"""Why a planned node does not take its workers, judged for `check` alone: nothing here is shared with the planners. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Final

from hyperscale.model import constants
from hyperscale.model.cluster import Node, Taint
from hyperscale.model.plan import WorkerPlacement
from hyperscale.model.planning import PlanRequest, Toleration
from hyperscale.model.products import CARD_GIGABYTES
from hyperscale.planner.check.check_needs import lacking, unmet_rules
from hyperscale.util.quantity import shortest

BLOCKING_EFFECTS: Final = frozenset({"NoSchedule", "NoExecute"})
RENDERED_TOLERATION: Final = Toleration(key=constants.GPU_RESOURCE, operator="Exists")
"""Every rendered worker has it; see control/render/template.py."""
VGPU: Final = re.compile(r"(.*)-([0-9]+)(?:[ABCQ]|B4|CME)", re.IGNORECASE)
"""Product of a virtual machine's GPU: the card, and the gigabytes that the machine has of the card."""
Finding = tuple[str, str]
"""Reason of a `Rejection`, and a sentence that starts with the node's name."""


def unfit(name: str, node: Node | None, workers: list[WorkerPlacement], request: PlanRequest) -> Iterator[Finding]:
    """Why the node does not take its workers, most fundamental reason first; those that run there already need nothing new."""
    if node is None:
        yield "NotReady", f"{name} is not in the cluster"
        return
    arriving = [worker for worker in workers if request.pinned.get(worker.index) != name]
    if not arriving:
        return
    for reason, broken in NODE_RULES:
        if (sentence := broken(node, request)) is not None:
            yield reason, f"{name} {sentence}"
    for reason, sentence in unmet_rules(node, request):
        yield reason, f"{name} {sentence}"
    yield from _lacks_room(node, arriving, workers, request)


def _lacks_room(node: Node, arriving: list[WorkerPlacement], planned: list[WorkerPlacement], request: PlanRequest) -> Iterator[Finding]:
    free = min(request.free_gpus.get(node.name, node.allocatable_gpus - node.requested_gpus), node.allocatable_gpus)
    needed = sum(worker.gpus for worker in arriving)
    if needed > max(0, free):
        staying = len(planned) - len(arriving)
        beside = f" beside {staying} that stay" if staying else ""
        yield "NoFreeGPUs", f"{node.name} has {max(0, free)} free GPUs for {needed} of the plan{beside}"
    for reason, sentence in lacking(node, len(arriving), request):
        yield reason, f"{node.name} {sentence}"


def _not_ready(node: Node, request: PlanRequest) -> str | None:
    return None if node.ready else "is not ready"


def _cordoned(node: Node, request: PlanRequest) -> str | None:
    return None if node.schedulable else "is cordoned"


def _tainted(node: Node, request: PlanRequest) -> str | None:
    tolerations = (*request.tolerations, RENDERED_TOLERATION)
    for taint in node.taints:
        if taint.effect in BLOCKING_EFFECTS and not any(_tolerates(toleration, taint) for toleration in tolerations):
            return f"has the taint {taint.key}={taint.value}:{taint.effect}, which the workers do not tolerate"
    return None


def _tolerates(toleration: Toleration, taint: Taint) -> bool:
    """As the scheduler matches them: an empty key or effect matches any, an empty key only with Exists."""
    if toleration.effect not in ("", taint.effect):
        return False
    if toleration.operator == "Exists":
        return toleration.key in ("", taint.key)
    return toleration.key == taint.key and toleration.value == taint.value


def _excluded(node: Node, request: PlanRequest) -> str | None:
    return "is excluded from this plan" if node.name in request.excluded_nodes else None


def _refused(node: Node, request: PlanRequest) -> str | None:
    words = request.refused_nodes.get(node.name)
    return f"was refused by the scheduler: {words}" if words is not None else None


def _unlabelled(node: Node, request: PlanRequest) -> str | None:
    for key, value in sorted({*request.job.placement.node_selector.items(), *request.required_labels.items()}):
        if node.labels.get(key) != value:
            return f"does not have the label {key}={value}"
    return None


def _part_of_a_gpu(node: Node, request: PlanRequest) -> str | None:
    """By the labels of GPU Feature Discovery."""
    product, replicas = node.labels.get("nvidia.com/gpu.product", ""), node.labels.get("nvidia.com/gpu.replicas", "1")
    if "-MIG-" in product.upper():
        return f"offers slices of GPUs ({product})"
    if product.upper().endswith("-SHARED") or (replicas.strip("0123456789") == "" and replicas.lstrip("0") not in ("", "1")):
        return "offers GPUs that several pods share"
    return f"offers parts of GPUs by vGPU ({product})" if _part_by_vgpu(product) else None


def _part_by_vgpu(product: str) -> bool:
    """Whether a virtual machine has less than a card's memory, or a card that no table names."""
    if (vgpu := VGPU.fullmatch(product)) is None:
        return False
    card = re.sub("^(nvidia|grid)-", "", vgpu[1].lower().replace(" ", "-"))
    names = [name for name in CARD_GIGABYTES if card.startswith(name.lower())]
    return not names or int(vgpu[2]) < CARD_GIGABYTES[max(names, key=len)]


def _wrong_product(node: Node, request: PlanRequest) -> str | None:
    allowed = request.job.workers.gpu_products
    if allowed and node.gpu_product not in allowed and node.labels.get("nvidia.com/gpu.product") not in allowed:
        return f"has GPU {node.gpu_product}, which is not one of {', '.join(allowed)}"
    return None


def _too_little_gpu_memory(node: Node, request: PlanRequest) -> str | None:
    if request.job.workers.gpu_memory is None:
        return None
    if node.gpu_memory_bytes is None:
        return "does not say how much memory its GPUs have"
    if node.gpu_memory_bytes < request.job.workers.gpu_memory:
        return f"has GPUs of {node.gpu_memory_bytes} bytes, less than {shortest(request.job.workers.gpu_memory)}"
    return None


NODE_RULES: Final[tuple[tuple[str, Callable[[Node, PlanRequest], str | None]], ...]] = (
    ("NotReady", _not_ready),
    ("Cordoned", _cordoned),
    ("Tainted", _tainted),
    ("Constraint", _excluded),
    ("SchedulerRefused", _refused),
    ("NodeSelector", _unlabelled),
    ("SharedGPU", _part_of_a_gpu),
    ("GPUProduct", _wrong_product),
    ("GPUMemory", _too_little_gpu_memory),
)
"""Checked in this order, so that the first failure is the one to report: first what excludes the node for every job."""
