"""The operator is killed around the Job that tries a job's code: its successor takes up that Job, and makes no second one."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from e2e.cluster.control_plane import wait_until
from e2e.jobs import PATIENCE_SECONDS, Job
from tests.fault.companions import preflight_job, report
from tests.fault.process import OperatorProcess
from tests.fault.test_preflights import WELL


@pytest.mark.parametrize("point", ["before-preflight", "preflight-created", "after-status"])
def test_killed_at_any_point_the_code_is_tried_once(job: Job, operate: Callable[..., OperatorProcess], point: str) -> None:
    killed = operate(point)
    job.create(preflight="Require", startPolicy="Never")
    killed.wait_killed(PATIENCE_SECONDS)
    operate().wait_ready()
    wait_until(lambda: job.api.find(preflight_job(job)) is not None, PATIENCE_SECONDS, "no preflight Job")
    report(job, WELL, role="preflight")
    job.wait_reason("StartPolicyNever")
    assert job.status()["preflight"]["outcome"] == "Passed"
    names = [found["metadata"]["name"] for found in job.api.items(f"/apis/batch/v1/namespaces/{job.namespace}/jobs")]
    assert names == ["cora-preflight"]
