"""What a pod holds on its node, reckoned as kube-scheduler does. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

from hyperscale.model.constants import GPU_RESOURCE
from hyperscale.util.quantity import parse_number

MIG_PREFIX: Final = "nvidia.com/mig-"
HUGE_PAGES: Final = "hugepages-"
MAX_FURTHER: Final = 32
"""Resource names kept of one pod or node: real nodes have about ten."""
MAX_RESOURCES: Final = 128
"""Resource names of one pod, and of one of its containers. A pod with more is none of this world, and cannot be read."""
MAX_CONTAINERS: Final = 128
"""Containers of one pod, and init containers."""
_NATIVE: Final = frozenset({"ephemeral-storage", "pods"})
Amounts = dict[str, float]
"""Cores, bytes and devices by resource name."""


def pod_demand(spec: Mapping[str, Any]) -> Amounts:
    """Requests of a pod spec by resource name: GPUs and other devices, cpu (cores), memory, ephemeral storage and huge pages (bytes).

    The larger of all containers with sidecars together, and of each init container with the sidecars started before it; plus the
    pod's overhead. Pod-level requests (Kubernetes 1.34) replace the sum. Raises ValueError for text that is no quantity, and for more
    containers or resources than MAX_CONTAINERS and MAX_RESOURCES. Time grows with the size of the spec and no faster.
    """
    running: Amounts = {}
    for container in _containers(spec, "containers"):
        _add(running, _requests(container))
    sidecars: Amounts = {}
    largest: Amounts = {}  # never below `sidecars`: an init container changes it only where it asks for something itself
    for container in _containers(spec, "initContainers"):
        requests = _requests(container)
        if container.get("restartPolicy") == "Always":
            _add(sidecars, requests)
            _raise(largest, {name: sidecars[name] for name in requests})
        else:
            _raise(largest, {name: amount + sidecars.get(name, 0.0) for name, amount in requests.items()})
    _add(running, sidecars)
    _raise(largest, running)
    largest.update(_requests(spec))
    _add(largest, _amounts(spec.get("overhead") or {}))
    return largest


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


def _containers(spec: Mapping[str, Any], field: str) -> Sequence[Mapping[str, Any]]:
    containers: Sequence[Mapping[str, Any]] = spec.get(field) or ()
    if len(containers) > MAX_CONTAINERS:
        raise ValueError(f"spec.{field}: {len(containers)} entries, more than {MAX_CONTAINERS}")
    return containers


def _requests(holder: Mapping[str, Any]) -> Amounts:
    """Requests of a container (or pod); a limit stands in where no request is given, as the API server's defaulting does."""
    resources = holder.get("resources") or {}
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    _check_resources(limits)
    _check_resources(requests)
    return _amounts({**limits, **requests})


def _amounts(quantities: Mapping[str, Any]) -> Amounts:
    _check_resources(quantities)
    return {name: _number(str(quantity)) for name, quantity in quantities.items() if _counted(name)}


def _check_resources(amounts: Mapping[str, Any]) -> None:
    if len(amounts) > MAX_RESOURCES:
        raise ValueError(f"{len(amounts)} resource names, more than {MAX_RESOURCES}")


def _counted(name: str) -> bool:
    return name in {"cpu", "memory"} or "/" in name or name in _NATIVE or name.startswith(HUGE_PAGES)


@lru_cache(maxsize=4096)
def _number(text: str) -> float:
    """Parsed quantity; the same few texts occur in thousands of pods."""
    return parse_number(text)


def _add(total: Amounts, amounts: Mapping[str, float]) -> None:
    """Add in place."""
    for name, amount in amounts.items():
        total[name] = total.get(name, 0.0) + amount
    _check_resources(total)


def _raise(total: Amounts, amounts: Mapping[str, float]) -> None:
    """Raise in place what is less."""
    for name, amount in amounts.items():
        total[name] = max(total.get(name, 0.0), amount)
    _check_resources(total)
