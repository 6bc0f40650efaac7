"""The operator is killed while it makes plan file and partition Job: its successor ends with one of each."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from e2e.cluster.control_plane import wait_until
from e2e.jobs import PATIENCE_SECONDS, Job, claim_unbound
from tests.fault.companions import SHARED, end, partition_job, posts, written
from tests.fault.conftest import Stage
from tests.fault.process import LEASE, OperatorProcess
from tests.fault.proxy import FaultProxy

IDENTITY = "hyperscale-0"
"""As in a pod that restarts its container: the Lease is its own."""


@pytest.fixture
def resumable(stage: Stage) -> Iterator[list[OperatorProcess]]:
    """Operators that a test starts one after the other; gone afterwards."""
    processes: list[OperatorProcess] = []
    yield processes
    for process in processes:
        process.destroy()
    stage.api.delete(LEASE)


@pytest.mark.parametrize("point", ["before-plan-file", "plan-file", "before-partition", "partition-created", "before-create"])
def test_killed_at_any_point_there_is_one_of_each_and_the_plan_stays(
    stage: Stage, proxy: FaultProxy, job: Job, resumable: list[OperatorProcess], point: str
) -> None:
    since = len(proxy.asked)
    claim_unbound(job.api, job.namespace, "parts")
    resumable.append(stage.operator(kill_at=point, identity=IDENTITY))
    job.create(partitioning=SHARED)
    if "partition" not in point:
        wait_until(lambda: job.api.find(partition_job(job)) is not None, PATIENCE_SECONDS, "no partition Job")
        end(job, "Complete")
    resumable[0].wait_killed(PATIENCE_SECONDS)
    recorded = job.plan().get("id")
    resumable.append(stage.operator(identity=IDENTITY))
    resumable[1].wait_ready()
    if "partition" in point:
        job.wait_state("Partitioning")
        end(job, "Complete")
    job.wait_reason("Starting")
    assert recorded in (None, job.plan()["id"])
    assert written(job)["planId"] == job.plan()["id"]
    mpijob = job.mpijob()
    assert mpijob is not None
    assert mpijob["metadata"]["labels"]["hyperscale.dev/plan-id"] == job.plan()["id"]
    assert posts(proxy, job, "mpijobs", since) == 1
    names = {found["metadata"]["name"] for found in job.api.items(f"/apis/batch/v1/namespaces/{job.namespace}/jobs")}
    assert names == {"cora-partition"}
