"""Patches that let a gated pod go. Each pod has one JSON patch, which fails as a whole when the pod is not the one that was seen."""

from __future__ import annotations

from typing import Any, Final

from hyperscale.model import constants
from hyperscale.model.api.job import PlacementMode
from hyperscale.model.pods import PodView

Patch = list[dict[str, Any]]

PREFERRED_TERMS: Final = "/spec/affinity/nodeAffinity/preferredDuringSchedulingIgnoredDuringExecution"
PLANNED_NODE_WEIGHT: Final = 100
"""The largest weight that there is; 1 is what every node gets (pod.py, ANY_HOST)."""


def release_patch(pod: PodView, hostname: str, mode: PlacementMode) -> Patch:
    """JSON patch that opens the placement gate of a worker pod and tells the scheduler its node; empty when the gate is open already.

    hostname: value of the node's label kubernetes.io/hostname, which need not be the node's name
    Strict adds it to the node selector, unless a queue has put a host there: a gated pod's selector may only be narrowed. Preferred asks
    for it with the highest weight; Advisory only opens the gate. The API server answers 422 when the pod was replaced or the gate has gone.
    """
    patch = _open(pod, constants.PLACEMENT_GATE)
    if not patch or mode is PlacementMode.ADVISORY or constants.HOSTNAME_LABEL in pod.node_selector:
        return patch
    return [*patch, _select(pod, hostname) if mode is PlacementMode.STRICT else _prefer(hostname)]


def launcher_release_patch(pod: PodView) -> Patch:
    """JSON patch that opens the launcher's gate; empty when it is open already."""
    return _open(pod, constants.LAUNCHER_GATE)


def _open(pod: PodView, gate: str) -> Patch:
    """Tests of the pod's identity and of its gate, then the gate's removal."""
    if gate not in pod.gates:
        return []
    path = f"/spec/schedulingGates/{pod.gates.index(gate)}"
    identity: Patch = [{"op": "test", "path": "/metadata/uid", "value": pod.uid}] if pod.uid else []
    return [*identity, {"op": "test", "path": path, "value": {"name": gate}}, {"op": "remove", "path": path}]


def _select(pod: PodView, hostname: str) -> dict[str, Any]:
    if not pod.node_selector:
        return {"op": "add", "path": "/spec/nodeSelector", "value": {constants.HOSTNAME_LABEL: hostname}}
    return {"op": "add", "path": f"/spec/nodeSelector/{constants.HOSTNAME_LABEL.replace('~', '~0').replace('/', '~1')}", "value": hostname}


def _prefer(hostname: str) -> dict[str, Any]:
    expression = {"key": constants.HOSTNAME_LABEL, "operator": "In", "values": [hostname]}
    term = {"weight": PLANNED_NODE_WEIGHT, "preference": {"matchExpressions": [expression]}}
    return {"op": "add", "path": f"{PREFERRED_TERMS}/0", "value": term}
