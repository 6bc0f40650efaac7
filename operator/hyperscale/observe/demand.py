"""What a pod holds on its node, reckoned as kube-scheduler does. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, Final

from hyperscale.names import GPU_RESOURCE
from hyperscale.quantity import parse_number

MIG_PREFIX: Final = "nvidia.com/mig-"
HUGE_PAGES: Final = "hugepages-"
MAX_FURTHER: Final = 32
"""Resource names kept of one pod or node: real nodes have about ten."""
_NATIVE: Final = frozenset({"ephemeral-storage", "pods"})
Amounts = dict[str, float]
"""Cores, bytes and devices by resource name."""


def pod_demand(spec: Mapping[str, Any]) -> Amounts:
    """Requests of a pod spec by resource name: GPUs and other devices, cpu (cores), memory, ephemeral storage and huge pages (bytes).

    The larger of all containers with sidecars together, and of each init container with the sidecars started before it; plus the
    pod's overhead. Pod-level requests (Kubernetes 1.34) replace the sum. Raises ValueError for text that is no quantity.
    """
    running = _sum(_requests(container) for container in spec.get("containers") or ())
    sidecars: Amounts = {}
    largest: Amounts = {}
    for container in spec.get("initContainers") or ():
        requests = _requests(container)
        if container.get("restartPolicy") == "Always":
            sidecars = _sum((sidecars, requests))
            requests = {}
        largest = _larger(largest, _sum((sidecars, requests)))
    total = _larger(_sum((running, sidecars)), largest)
    total.update(_requests(spec))
    return _sum((total, _amounts(spec.get("overhead") or {})))


def mig_devices(amounts: Mapping[str, float]) -> int:
    """MIG slices among `amounts`."""
    return int(sum(amount for name, amount in amounts.items() if name.startswith(MIG_PREFIX)))


def further(amounts: Mapping[str, float]) -> Amounts:
    """Those of `amounts` that are neither GPUs nor cpu nor memory, at most MAX_FURTHER names."""
    names = sorted(name for name, amount in amounts.items() if amount > 0 and is_further(name))
    return {name: amounts[name] for name in names[:MAX_FURTHER]}


def is_further(name: str) -> bool:
    """Whether a resource is one that the scheduler counts besides GPUs, cpu and memory."""
    return (name in _NATIVE or name.startswith(HUGE_PAGES) or "/" in name) and name != GPU_RESOURCE


def _requests(holder: Mapping[str, Any]) -> Amounts:
    """Requests of a container (or pod); a limit stands in where no request is given, as the API server's defaulting does."""
    resources = holder.get("resources") or {}
    return _amounts({**(resources.get("limits") or {}), **(resources.get("requests") or {})})


def _amounts(quantities: Mapping[str, Any]) -> Amounts:
    return {name: _number(str(quantity)) for name, quantity in quantities.items() if _counted(name)}


def _counted(name: str) -> bool:
    return name in {"cpu", "memory"} or "/" in name or name in _NATIVE or name.startswith(HUGE_PAGES)


@lru_cache(maxsize=4096)
def _number(text: str) -> float:
    """Parsed quantity; the same few texts occur in thousands of pods."""
    return parse_number(text)


def _sum(several: Iterable[Mapping[str, float]]) -> Amounts:
    total: Amounts = {}
    for amounts in several:
        for name, amount in amounts.items():
            total[name] = total.get(name, 0.0) + amount
    return total


def _larger(left: Mapping[str, float], right: Mapping[str, float]) -> Amounts:
    return {name: max(left.get(name, 0.0), right.get(name, 0.0)) for name in sorted(left.keys() | right.keys())}
