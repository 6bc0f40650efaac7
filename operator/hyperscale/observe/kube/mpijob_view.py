"""Projection of an MPIJob (kubeflow.org/v2beta1) to what the operator decides by. Pure.

Everything in an MPIJob may have been written by a tenant: kubeflow's edit role includes `mpijobs/status`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from hyperscale.model import constants
from hyperscale.model.observed.owned_objects import MpiJobView
from hyperscale.model.plan import Plan, plan_of
from hyperscale.model.planning import PODS
from hyperscale.observe.kube.demand import further, pod_demand
from hyperscale.observe.kube.fields import MAX_AMOUNT
from hyperscale.spec.plausible import is_plan, readable_time

CONDITIONS: Final = frozenset({"Created", "Running", "Restarting", "Succeeded", "Suspended", "Failed"})
"""All that mpi-operator writes."""
MAX_REASON: Final = 128
MAX_MESSAGE: Final = 2048
"""Characters of a condition's reason and message, as in our own status."""
MAX_PLAN_BYTES: Final = 262_144
"""The API server takes no more of all annotations together."""
MAX_COUNT: Final = 2**31 - 1
"""The API's own type for replicas, int32, which the CRD's schema does not enforce."""


def mpijob_view(resource: Mapping[str, Any]) -> MpiJobView:
    """The view of one MPIJob as the API server gives it; absent parts are empty. Raises ValueError for counts that are none."""
    metadata = resource.get("metadata") or {}
    spec = resource.get("spec") or {}
    status = resource.get("status") or {}
    worker = (spec.get("mpiReplicaSpecs") or {}).get("Worker") or {}
    launcher = (status.get("replicaStatuses") or {}).get("Launcher") or {}
    template = worker.get("template") or {}
    pod = template.get("spec") or {}
    annotations = metadata.get("annotations") or {}
    plan, fault = _plan(annotations.get(constants.PLAN_ANNOTATION))
    return MpiJobView(
        name=metadata.get("name", ""),
        uid=metadata.get("uid", ""),
        owner_uid=_controller(metadata),
        workers=_count(worker.get("replicas"), "spec.mpiReplicaSpecs.Worker.replicas"),
        suspended=bool((spec.get("runPolicy") or {}).get("suspend")),
        queue=(metadata.get("labels") or {}).get(constants.KUEUE_QUEUE_LABEL, ""),
        gated=any(gate.get("name") == constants.PLACEMENT_GATE for gate in pod.get("schedulingGates") or []),
        resizable=constants.RESIZABLE_ANNOTATION in annotations,
        conditions=_conditions(status.get("conditions") or []),
        plan=plan,
        plan_fault=fault,
        start_time=readable_time(status.get("startTime")),
        completion_time=readable_time(status.get("completionTime")),
        launcher_failures=_count(launcher.get("failed"), "status.replicaStatuses.Launcher.failed"),
        deleting=bool(metadata.get("deletionTimestamp")),
        resource_version=metadata.get("resourceVersion") or "",
        suspend_intent={"true": True, "false": False}.get(annotations.get(constants.SUSPEND_ANNOTATION, "")),
        suspender=_suspender(metadata),
        worker_amounts=_worker_amounts(pod),
        workload=((template.get("metadata") or {}).get("annotations") or {}).get(constants.KUEUE_WORKLOAD_ANNOTATION, ""),
    )


def _conditions(listed: Iterable[Mapping[str, Any]]) -> dict[str, tuple[bool, str, str]]:
    """By type: whether it is true, its reason and its message."""
    return {
        condition["type"]: (
            condition.get("status") == "True",
            str(condition.get("reason", ""))[:MAX_REASON],
            str(condition.get("message", ""))[:MAX_MESSAGE],
        )
        for condition in listed
        if condition.get("type") in CONDITIONS
    }


def unreadable_view(resource: Mapping[str, Any], fault: str) -> MpiJobView:
    """What must be known of an MPIJob that `mpijob_view` cannot read: its name is taken, and it may run. Never raises."""
    metadata = found if isinstance(found := resource.get("metadata"), Mapping) else {}
    return MpiJobView(
        name=_text(metadata.get("name")),
        uid=_text(metadata.get("uid")),
        owner_uid=_controller(metadata),
        workers=0,
        suspended=False,
        queue="",
        gated=True,
        deleting=bool(metadata.get("deletionTimestamp")),
        fault=fault,
    )


def _controller(metadata: Mapping[str, Any]) -> str:
    """Uid of the controlling owner; "" without one."""
    owners = metadata.get("ownerReferences")
    for owner in owners if isinstance(owners, list) else ():
        if isinstance(owner, Mapping) and owner.get("controller"):
            return _text(owner.get("uid"))
    return ""


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _count(value: object, path: str) -> int:
    count = 0 if value is None else value
    if not isinstance(count, int) or not 0 <= count <= MAX_COUNT:
        raise ValueError(f"{path}: {count if isinstance(count, int) else 'it'} is no count from 0 to {MAX_COUNT}")
    return count


def _worker_amounts(spec: Mapping[str, Any]) -> dict[str, float]:
    """Requests of one worker pod, its GPUs left out; empty where they are no quantities, or absurd, as the pods are then refused."""
    try:
        amounts = pod_demand(spec)
    except (ValueError, TypeError, AttributeError):
        return {}
    core: dict[str, float] = {name: amounts[name] for name in ("cpu", "memory") if name in amounts}
    found = {**core, **further(amounts), PODS: 1.0}
    return found if max(found.values()) <= MAX_AMOUNT else {}


def _suspender(metadata: Mapping[str, Any]) -> str:
    """Field manager of `spec.runPolicy.suspend`, where it is not the operator's.

    A webhook that suspends an MPIJob while the operator creates it leaves the operator's name (kubernetes/enhancements#555): then "".
    """
    for entry in metadata.get("managedFields") or ():
        policy = ((entry.get("fieldsV1") or {}).get("f:spec") or {}).get("f:runPolicy") or {}
        if "f:suspend" in policy:
            manager = str(entry.get("manager") or "")
            return "" if manager == constants.FIELD_MANAGER else manager
    return ""


def _plan(annotation: object) -> tuple[Plan | None, str]:
    """The annotated plan; without it why it cannot be used, where there is one: the job is then planned again."""
    if not annotation:
        return None, ""
    path = f"metadata.annotations[{constants.PLAN_ANNOTATION}]"
    if not isinstance(annotation, str) or len(annotation) > MAX_PLAN_BYTES:
        return None, f"{path}: more than {MAX_PLAN_BYTES} bytes"
    try:
        plan = plan_of(msgspec.json.decode(annotation))
    except RecursionError:
        return None, f"{path}: nested too deeply to be decoded"
    except (ValueError, OverflowError) as error:  # msgspec's errors are ValueErrors, as are those of UTF-8
        return None, f"{path}: {str(error)[:200]}"
    return (plan, "") if is_plan(plan) else (None, f"{path}: ranks, GPUs or figures that no plan can have")
