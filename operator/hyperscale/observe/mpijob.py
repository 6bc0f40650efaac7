"""Projection of an MPIJob (kubeflow.org/v2beta1) to what the operator decides by."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from hyperscale import names
from hyperscale.model.decision import MpiJobView
from hyperscale.model.plan import Plan
from hyperscale.model.planning import PODS
from hyperscale.observe.demand import further, pod_demand


def mpijob_view(resource: Mapping[str, Any]) -> MpiJobView:
    """The view of one MPIJob as the API server gives it; absent parts are empty."""
    metadata = resource.get("metadata") or {}
    spec = resource.get("spec") or {}
    status = resource.get("status") or {}
    worker = (spec.get("mpiReplicaSpecs") or {}).get("Worker") or {}
    gates = ((worker.get("template") or {}).get("spec") or {}).get("schedulingGates") or []
    controller: Mapping[str, Any] = next((owner for owner in metadata.get("ownerReferences") or () if owner.get("controller")), {})
    annotations = metadata.get("annotations") or {}
    template = (worker.get("template") or {}).get("metadata") or {}
    return MpiJobView(
        name=metadata.get("name", ""),
        uid=metadata.get("uid", ""),
        owner_uid=controller.get("uid", ""),
        workers=int(worker.get("replicas") or 0),
        suspended=bool((spec.get("runPolicy") or {}).get("suspend")),
        queue=(metadata.get("labels") or {}).get(names.KUEUE_QUEUE_LABEL, ""),
        gated=any(gate.get("name") == names.PLACEMENT_GATE for gate in gates),
        resizable=names.RESIZABLE_ANNOTATION in annotations,
        conditions={
            condition["type"]: (condition.get("status") == "True", condition.get("reason", ""), condition.get("message", ""))
            for condition in status.get("conditions") or []
        },
        plan=_plan(annotations.get(names.PLAN_ANNOTATION)),
        start_time=status.get("startTime") or "",
        completion_time=status.get("completionTime") or "",
        launcher_failures=int(((status.get("replicaStatuses") or {}).get("Launcher") or {}).get("failed") or 0),
        deleting=bool(metadata.get("deletionTimestamp")),
        resource_version=metadata.get("resourceVersion") or "",
        suspend_intent={"true": True, "false": False}.get(annotations.get(names.SUSPEND_ANNOTATION, "")),
        suspender=_suspender(metadata),
        worker_amounts=_worker_amounts((worker.get("template") or {}).get("spec") or {}),
        workload=(template.get("annotations") or {}).get(names.KUEUE_WORKLOAD_ANNOTATION, ""),
    )


def _worker_amounts(spec: Mapping[str, Any]) -> dict[str, float]:
    """Requests of one worker pod, its GPUs left out; empty where they are no quantities, as the pods are then refused."""
    try:
        amounts = pod_demand(spec)
    except (ValueError, TypeError, AttributeError):
        return {}
    core: dict[str, float] = {name: amounts[name] for name in ("cpu", "memory") if name in amounts}
    return {**core, **further(amounts), PODS: 1.0}


def _suspender(metadata: Mapping[str, Any]) -> str:
    """Field manager of `spec.runPolicy.suspend`, where it is not the operator's.

    A webhook that suspends an MPIJob while the operator creates it leaves the operator's name (kubernetes/enhancements#555): then "".
    """
    for entry in metadata.get("managedFields") or ():
        policy = ((entry.get("fieldsV1") or {}).get("f:spec") or {}).get("f:runPolicy") or {}
        if "f:suspend" in policy:
            manager = str(entry.get("manager") or "")
            return "" if manager == names.FIELD_MANAGER else manager
    return ""


def _plan(annotation: str | None) -> Plan | None:
    """The annotated plan; None when there is none or a person broke it: the job is then planned anew."""
    if not annotation:
        return None
    try:
        return msgspec.json.decode(annotation, type=Plan)
    except msgspec.DecodeError:
        return None
