"""What worker pods ask of a node beyond GPUs, judged for `check` alone: nothing here is shared with the planners. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

from hyperscale.model.cluster import Node
from hyperscale.model.constants import GPU_RESOURCE
from hyperscale.model.planning import NodeExpression, NodeRule, PlanRequest
from hyperscale.util.quantity import parse_number

Finding = tuple[str, str]
"""Reason of a `Rejection`, and a sentence about the node without its name."""

CPU: Final = "cpu"
MEMORY: Final = "memory"
POD: Final = "pods"
STORAGE: Final = "ephemeral-storage"
GIB: Final = 1024**3
REASONS: Final = {CPU: "CPU", MEMORY: "Memory"}
MAX_DIGITS: Final = 18
"""Of an integer that surely has 64 bits."""
ROUNDING: Final = 1e-6
"""Requests are sums of decimal fractions held in binary."""


def unmet_rules(node: Node, request: PlanRequest) -> Iterator[Finding]:
    """Required affinity and volumes that leave the node out."""
    for rule in request.node_rules:
        if not _allows(rule, node):
            yield rule.reason, f"does not meet {rule.source}"


def lacking(node: Node, workers: int, request: PlanRequest) -> Iterator[Finding]:
    """Resources that do not suffice for that number of further workers."""
    reserved = request.reserved_amounts.get(node.name, {})
    for name, each in sorted(_of_a_worker(request).items()):
        needed = each * workers
        free = _offered(node, name) - _taken(node, name) - reserved.get(name, 0.0)
        if needed > 0.0 and needed > free + ROUNDING:
            yield REASONS.get(name, "Resource"), f"has {_shown(name, max(0.0, free))} free, the plan needs {_shown(name, needed)}"


def add_worker(reserved: dict[str, float], request: PlanRequest) -> None:
    """Add to `reserved` what one more worker takes."""
    for name, each in _of_a_worker(request).items():
        reserved[name] = reserved.get(name, 0.0) + each


def _of_a_worker(request: PlanRequest) -> dict[str, float]:
    amounts = dict(request.resources)
    if not amounts:
        asked = request.job.workers.resources
        amounts = {name: parse_number(text) for name, text in {**asked.limits, **asked.requests}.items() if name != GPU_RESOURCE}
    amounts[POD] = 1.0
    return amounts


def _offered(node: Node, name: str) -> float:
    """Infinite where the node does not tell."""
    if name == CPU:
        return math.inf if node.allocatable_cpu_cores is None else node.allocatable_cpu_cores
    if name == MEMORY:
        return math.inf if node.allocatable_memory_bytes is None else node.allocatable_memory_bytes
    return node.allocatable.get(name, 0.0) if node.allocatable else math.inf


def _taken(node: Node, name: str) -> float:
    if name == CPU:
        return node.requested_cpu_cores
    return node.requested_memory_bytes if name == MEMORY else node.requested.get(name, 0.0)


def _shown(name: str, amount: float) -> str:
    """The amount with its unit."""
    if name in (MEMORY, STORAGE) or name.startswith("hugepages-"):
        return f"{amount / GIB:.3g} GiB of {name}"
    return f"{amount:g} {'CPU cores' if name == CPU else name}"


def _allows(rule: NodeRule, node: Node) -> bool:
    for term in rule.terms:
        names_only = all(each.key == "metadata.name" for each in term.fields)
        pairs = [*((each, node.labels.get(each.key)) for each in term.labels), *((each, node.name) for each in term.fields)]
        if names_only and pairs and all(_is_met(each, value) for each, value in pairs):
            return True
    return False


def _is_met(wanted: NodeExpression, value: str | None) -> bool:
    match wanted.operator:
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "In":
            return value is not None and value in wanted.values
        case "NotIn":
            return value is None or value not in wanted.values
        case "Gt" | "Lt":
            difference = _difference(value, wanted.values)
            return difference is not None and (difference > 0 if wanted.operator == "Gt" else difference < 0)
    return False


def _difference(value: str | None, values: tuple[str, ...]) -> int | None:
    """Label minus bound; None where one of them is no integer of 64 bits."""
    numbers = [_whole(text) for text in (value, *values)]
    if len(numbers) != 2 or numbers[0] is None or numbers[1] is None:
        return None
    return numbers[0] - numbers[1]


def _whole(text: str | None) -> int | None:
    digits = text[1:] if text and text[0] in "+-" else text
    if text is None or not digits or len(digits) > MAX_DIGITS or not digits.isascii() or not digits.isdecimal():
        return None
    return int(text)
