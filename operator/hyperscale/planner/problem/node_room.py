"""What is free on a node by resource, and how many workers of a job fit there by everything but GPUs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

from msgspec.structs import replace

from hyperscale.model.cluster import Node
from hyperscale.planner.problem.worker_demand import WorkerDemand

GIB: Final = 1024**3
UNLIMITED: Final = 2**31
ROUNDING: Final = 1e-6
"""Requests are sums of decimal fractions held in binary."""


def with_held(node: Node, amounts: Mapping[str, float]) -> Node:
    """The node as if these amounts were requested too."""
    further = {name: node.requested.get(name, 0.0) + amount for name, amount in amounts.items() if name not in ("cpu", "memory")}
    return replace(
        node,
        requested_cpu_cores=node.requested_cpu_cores + amounts.get("cpu", 0.0),
        requested_memory_bytes=node.requested_memory_bytes + math.ceil(amounts.get("memory", 0.0)),
        requested={**node.requested, **further},
    )


def workers_that_fit(node: Node, demand: WorkerDemand) -> int:
    """Workers that fit on `node` at once by everything but GPUs; very many where that is unknown or not asked for."""
    fits = [1 if demand.apart else UNLIMITED]
    if demand.cpu_cores > 0 and node.allocatable_cpu_cores is not None:
        fits.append(int((free_cpu(node) + ROUNDING) / demand.cpu_cores))
    if demand.memory_bytes > 0 and node.allocatable_memory_bytes is not None:
        fits.append(int(free_memory(node) // demand.memory_bytes))
    for name, amount in demand.further:
        if (free := free_further(node, name)) < amount * UNLIMITED:
            fits.append(int((free + ROUNDING) / amount))
    return min(fits)


def free_cpu(node: Node) -> float:
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


def free_memory(node: Node) -> float:
    """Bytes; infinite where the node does not say."""
    return math.inf if node.allocatable_memory_bytes is None else float(node.allocatable_memory_bytes - node.requested_memory_bytes)
