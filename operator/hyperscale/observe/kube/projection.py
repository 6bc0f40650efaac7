"""What is kept of API objects that are kept as they are: the rest would be most of the memory. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from hyperscale.model.constants import GPU_RESOURCE
from hyperscale.observe.kube.demand import is_further
from hyperscale.observe.kube.nested import entries, nested, text_at

Json = dict[str, Any]

KEPT_PREFIXES: Final = ("hyperscale.dev/", "kueue.x-k8s.io/", "kai.scheduler/")
"""Of a job's labels and annotations: what the operator goes by, and what it hands to queues."""
MAX_ANNOTATION: Final = 1024
"""Characters of an annotation that is kept; longer ones mean nothing to the operator."""
_JOB_METADATA: Final = (
    "name",
    "namespace",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
)


def narrow_job(resource: Json) -> Json:
    """Kind, identity, labels and annotations of ours, and spec of a job or policy; a job's status is kept elsewhere."""
    metadata = resource["metadata"]
    kept: Json = {name: metadata[name] for name in _JOB_METADATA if name in metadata}
    for part in ("labels", "annotations"):
        if ours := _ours(nested(metadata, part)):
            kept[part] = ours
    return {"metadata": kept, **{name: resource[name] for name in ("apiVersion", "kind", "spec") if name in resource}}


def narrow_node(resource: Json) -> Json:
    """What plans depend on; heartbeats and images are left out, so that they count as no change."""
    metadata = resource["metadata"]
    return {
        "metadata": {"name": metadata["name"], "labels": nested(metadata, "labels")},
        "spec": {name: value for name, value in nested(resource, "spec").items() if name in ("taints", "unschedulable")},
        "status": _narrow_node_status(nested(resource, "status")),
    }


def _narrow_node_status(status: Mapping[str, Any]) -> Json:
    return {
        "allocatable": {name: amount for name, amount in nested(status, "allocatable").items() if _is_planned(name)},
        "conditions": [
            # Since when: a failure of which no event came shows in it. It moves with the status alone, unlike the heartbeat.
            {"type": "Ready", "status": condition.get("status"), "lastTransitionTime": text_at(condition, "lastTransitionTime")}
            for condition in entries(status, "conditions")
            if condition.get("type") == "Ready"
        ],
        # By which exporters call it: node-exporter's `instance` is an address.
        "addresses": [{"address": str(entry.get("address", ""))} for entry in entries(status, "addresses")],
    }


def _is_planned(resource_name: str) -> bool:
    return resource_name in ("cpu", "memory", GPU_RESOURCE) or is_further(resource_name)


def _ours(texts: Mapping[str, Any]) -> dict[str, str]:
    return {key: str(value) for key, value in texts.items() if key.startswith(KEPT_PREFIXES) and len(str(value)) <= MAX_ANNOTATION}
