"""The plan file and the partition Job of a job, and the Job controller's part, which a test plays."""

from __future__ import annotations

import json
from typing import Any, Final

from e2e.jobs import Job
from tests.fault.proxy import FaultProxy

SHARED: Final = {"method": "METIS", "claimName": "parts"}


def plan_file(job: Job) -> str:
    return f"/api/v1/namespaces/{job.namespace}/configmaps/{job.name}-plan"


def partition_job(job: Job) -> str:
    return f"/apis/batch/v1/namespaces/{job.namespace}/jobs/{job.name}-partition"


def written(job: Job) -> dict[str, Any]:
    found = job.api.find(plan_file(job))
    return json.loads(found["data"]["plan.json"]) if found else {}


def end(job: Job, condition: str, message: str = "") -> None:
    """The Job controller says that the partition Job has ended."""
    now = "2026-01-01T00:00:00Z"
    kinds = ("SuccessCriteriaMet", "Complete") if condition == "Complete" else ("FailureTarget", "Failed")
    conditions = [
        {"type": kind, "status": "True", "reason": "Test", "message": message, "lastTransitionTime": now, "lastProbeTime": now}
        for kind in kinds
    ]
    status: dict[str, Any] = {"conditions": conditions, "startTime": now, "uncountedTerminatedPods": {}}
    if condition == "Complete":
        status |= {"completionTime": now, "succeeded": 1}
    job.api.patch(f"{partition_job(job)}/status", {"status": status})


def posts(proxy: FaultProxy, job: Job, plural: str, since: int) -> int:
    return len(
        proxy.asked_since(since, lambda asked: asked.method == "POST" and asked.path.endswith(f"/namespaces/{job.namespace}/{plural}"))
    )
