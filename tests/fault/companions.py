"""The plan file and the Jobs of a job, and the Job controller's part, which a test plays."""

from __future__ import annotations

import json
from typing import Any, Final

from e2e.cluster.api import Object
from e2e.jobs import Job
from tests.fault.proxy import FaultProxy

SHARED: Final = {"method": "METIS", "claimName": "parts"}
STORED: Final = {"source": {"configMap": {"name": "graph"}}, "path": "own.npz", "format": "NPZ"}
SIZES: Final = {"vertices": 2708, "edges": 10556, "featureSize": 1433, "classes": 7, "trainVertices": 140}


def plan_file(job: Job) -> str:
    return f"/api/v1/namespaces/{job.namespace}/configmaps/{job.name}-plan"


def partition_job(job: Job) -> str:
    return f"/apis/batch/v1/namespaces/{job.namespace}/jobs/{job.name}-partition"


def written(job: Job) -> dict[str, Any]:
    found = job.api.find(plan_file(job))
    return json.loads(found["data"]["plan.json"]) if found else {}


def end(job: Job, condition: str, message: str = "") -> None:
    """The Job controller says that the partition Job has ended."""
    end_job(job, partition_job(job), condition, message)


def end_job(job: Job, path: str, condition: str, message: str = "") -> None:
    """The Job controller says that a Job has ended."""
    now = "2026-01-01T00:00:00Z"
    kinds = ("SuccessCriteriaMet", "Complete") if condition == "Complete" else ("FailureTarget", "Failed")
    conditions = [
        {"type": kind, "status": "True", "reason": "Test", "message": message, "lastTransitionTime": now, "lastProbeTime": now}
        for kind in kinds
    ]
    status: dict[str, Any] = {"conditions": conditions, "startTime": now, "uncountedTerminatedPods": {}}
    if condition == "Complete":
        status |= {"completionTime": now, "succeeded": 1}
    job.api.patch(f"{path}/status", {"status": status})


def posts(proxy: FaultProxy, job: Job, plural: str, since: int) -> int:
    return len(
        proxy.asked_since(since, lambda asked: asked.method == "POST" and asked.path.endswith(f"/namespaces/{job.namespace}/{plural}"))
    )


def inspect_job(job: Job) -> str:
    return f"/apis/batch/v1/namespaces/{job.namespace}/jobs/{job.name}-inspect"


def preflight_job(job: Job) -> str:
    return f"/apis/batch/v1/namespaces/{job.namespace}/jobs/{job.name}-preflight"


def report(job: Job, message: str, name: str = "told", owner: str | None = None, phase: str = "Succeeded", role: str = "inspect") -> Object:
    """The Job controller makes the pod of the Job of this role, and its program ends with this message."""
    made = job.api.get(f"/apis/batch/v1/namespaces/{job.namespace}/jobs/{job.name}-{role}")
    template = made["spec"]["template"]
    reference = {"apiVersion": "batch/v1", "kind": "Job", "name": f"{job.name}-{role}", "uid": owner or made["metadata"]["uid"]}
    labels = {key: value for key, value in template["metadata"]["labels"].items() if "controller-uid" not in key}
    annotations = template["metadata"].get("annotations", {})
    metadata = {
        "name": f"{job.name}-{role}-{name}",
        "labels": labels,
        "annotations": annotations,
        "ownerReferences": [{**reference, "controller": True}],
    }
    pods = f"/api/v1/namespaces/{job.namespace}/pods"
    pod = job.api.create(pods, {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]})
    container: dict[str, Any] = {
        "name": role,
        "image": "w",
        "imageID": "w",
        "ready": False,
        "restartCount": 0,
        "state": {"terminated": {"exitCode": 0 if phase == "Succeeded" else 2, "message": message}},
    }
    job.api.patch(f"{pods}/{metadata['name']}/status", {"status": {"phase": phase, "containerStatuses": [container]}})
    return pod
