"""The operator is killed around the Job that reads a graph: its successor takes up that Job, and makes no second one."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from e2e.cluster.control_plane import wait_until
from e2e.jobs import PATIENCE_SECONDS, Job
from tests.fault.companions import SIZES, STORED, end_job, inspect_job, report
from tests.fault.process import OperatorProcess


@pytest.mark.parametrize("point", ["before-inspection", "inspection-created", "after-status"])
def test_killed_at_any_point_the_graph_is_read_once(job: Job, operate: Callable[..., OperatorProcess], point: str) -> None:
    killed = operate(point)
    job.create(dataset=STORED, startPolicy="Never")
    if point == "after-status":
        wait_until(lambda: job.api.find(inspect_job(job)) is not None, PATIENCE_SECONDS, "no inspect Job")
        report(job, json.dumps(SIZES))
        end_job(job, inspect_job(job), "Complete")
    killed.wait_killed(PATIENCE_SECONDS)
    operate().wait_ready()
    if point != "after-status":
        job.wait_reason("InspectingDataset")
        report(job, json.dumps(SIZES))
        end_job(job, inspect_job(job), "Complete")
    job.wait_reason("StartPolicyNever")
    assert job.status()["dataset"]["source"] == "Read"
    names = [found["metadata"]["name"] for found in job.api.items(f"/apis/batch/v1/namespaces/{job.namespace}/jobs")]
    assert names == ["cora-inspect"]
