"""What the operator reads of the MPIJobs and the Jobs that it made. Pure.

Everything in an MPIJob may have been written by a tenant: kubeflow's edit role includes `mpijobs/status`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from hyperscale.model import constants
from hyperscale.model.constants import DATASET_KEY_LABEL, PARTITION_KEY_LABEL, PREFLIGHT_KEY_LABEL
from hyperscale.model.observed.owned_objects import BatchJobView, MpiJobView
from hyperscale.model.plan import Plan, plan_of
from hyperscale.model.planning import PODS
from hyperscale.observe.kube.demand import further, pod_demand
from hyperscale.observe.kube.fields import MAX_AMOUNT
from hyperscale.observe.kube.nested import controller_of, entries, nested, text_at
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
    metadata, spec, status = nested(resource, "metadata"), nested(resource, "spec"), nested(resource, "status")
    worker = nested(spec, "mpiReplicaSpecs", "Worker")
    template = nested(worker, "template")
    pod, annotations = nested(template, "spec"), nested(metadata, "annotations")
    plan, fault = _plan(annotations.get(constants.PLAN_ANNOTATION))
    return MpiJobView(
        name=metadata.get("name", ""),
        uid=metadata.get("uid", ""),
        owner_uid=_controller(metadata),
        workers=_count(worker.get("replicas"), "spec.mpiReplicaSpecs.Worker.replicas"),
        suspended=bool(nested(spec, "runPolicy").get("suspend")),
        queue=nested(metadata, "labels").get(constants.KUEUE_QUEUE_LABEL, ""),
        gated=any(gate.get("name") == constants.PLACEMENT_GATE for gate in entries(pod, "schedulingGates")),
        resizable=constants.RESIZABLE_ANNOTATION in annotations,
        conditions=_conditions(entries(status, "conditions")),
        plan=plan,
        plan_fault=fault,
        start_time=readable_time(status.get("startTime")),
        completion_time=readable_time(status.get("completionTime")),
        launcher_failures=_count(nested(status, "replicaStatuses", "Launcher").get("failed"), "status.replicaStatuses.Launcher.failed"),
        deleting=bool(metadata.get("deletionTimestamp")),
        resource_version=text_at(metadata, "resourceVersion"),
        suspend_intent={"true": True, "false": False}.get(annotations.get(constants.SUSPEND_ANNOTATION, "")),
        suspender=_suspender(metadata),
        worker_amounts=_worker_amounts(pod),
        workload=nested(template, "metadata", "annotations").get(constants.KUEUE_WORKLOAD_ANNOTATION, ""),
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
    metadata = given if isinstance(given := resource.get("metadata"), Mapping) else {}
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
    counted = {**core, **further(amounts), PODS: 1.0}
    return counted if max(counted.values()) <= MAX_AMOUNT else {}


def _suspender(metadata: Mapping[str, Any]) -> str:
    """Field manager of `spec.runPolicy.suspend`, where it is not the operator's.

    A webhook that suspends an MPIJob while the operator creates it leaves the operator's name (kubernetes/enhancements#555): then "".
    """
    for entry in entries(metadata, "managedFields"):
        if "f:suspend" in nested(entry, "fieldsV1", "f:spec", "f:runPolicy"):
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


def batch_job_view(resource: Mapping[str, Any]) -> BatchJobView:
    """The view of one Job as the API server gives it; absent parts are empty."""
    metadata, status = nested(resource, "metadata"), nested(resource, "status")
    labels = nested(metadata, "labels")
    conditions = {entry.get("type"): entry for entry in entries(status, "conditions") if entry.get("status") == "True"}
    return BatchJobView(
        uid=metadata.get("uid", ""),
        owner_uid=text_at(controller_of(metadata), "uid"),
        key=labels.get(PARTITION_KEY_LABEL) or labels.get(DATASET_KEY_LABEL) or labels.get(PREFLIGHT_KEY_LABEL, ""),
        succeeded="Complete" in conditions,
        failed="Failed" in conditions,
        message=str(text_at(conditions.get("Failed", {}), "message")),
        deleting=bool(metadata.get("deletionTimestamp")),
        created=readable_time(metadata.get("creationTimestamp")),
        overdue=text_at(conditions.get("Failed", {}), "reason") == "DeadlineExceeded",
    )
