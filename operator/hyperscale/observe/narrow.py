"""What is kept of API objects that are kept whole: the rest would be most of the memory. Pure."""

from __future__ import annotations

from typing import Any

from hyperscale.names import GPU_RESOURCE
from hyperscale.observe.demand import is_further

Json = dict[str, Any]


def narrow(resource: Json) -> Json:
    """The resource without managedFields, which are most of its bytes."""
    metadata = {name: value for name, value in resource["metadata"].items() if name != "managedFields"}
    return {**resource, "metadata": metadata}


def narrow_node(resource: Json) -> Json:
    """What plans depend on; heartbeats and images are left out, so that they count as no change."""
    metadata = resource["metadata"]
    status = resource.get("status") or {}
    return {
        "metadata": {"name": metadata["name"], "labels": metadata.get("labels") or {}},
        "spec": {name: value for name, value in (resource.get("spec") or {}).items() if name in ("taints", "unschedulable")},
        "status": {
            "allocatable": {
                name: value
                for name, value in (status.get("allocatable") or {}).items()
                if name in ("cpu", "memory", GPU_RESOURCE) or is_further(name)
            },
            "conditions": [
                {"type": "Ready", "status": condition.get("status")}
                for condition in status.get("conditions") or []
                if condition.get("type") == "Ready"
            ],
            # By which exporters call it: node-exporter's `instance` is an address.
            "addresses": [{"address": str(entry.get("address", ""))} for entry in status.get("addresses") or []],
        },
    }
