"""What a job's worker pods ask for beyond its spec: a queue, admission or a runtime class may have added it."""

from __future__ import annotations

from msgspec.structs import replace

from hyperscale.model import constants
from hyperscale.model.planning import PlanRequest, Toleration, toleration
from hyperscale.model.pods import PodView


def as_pod_asks(request: PlanRequest, pod: PodView) -> PlanRequest:
    """Return the question with what one of the job's worker pods asks for."""
    return replace(request, required_labels=_node_labels(pod), tolerations=_tolerations(pod), resources=_resources(pod))


def _node_labels(pod: PodView) -> dict[str, str]:
    """Node labels that the pods ask for, with what a queue wrote in at admission; release deals with a hostname that it chose."""
    return {key: value for key, value in pod.node_selector.items() if key != constants.HOSTNAME_LABEL}


def _tolerations(pod: PodView) -> tuple[Toleration, ...]:
    """The pod's tolerations."""
    return tuple(toleration(entry) for entry in pod.tolerations)


def _resources(pod: PodView) -> dict[str, float]:
    """What the pod requests, with what admission added: defaults of a LimitRange, a runtime class's overhead."""
    amounts = {"cpu": pod.cpu_cores, "memory": float(pod.memory_bytes), **pod.further}
    return {name: amount for name, amount in amounts.items() if amount > 0}
