"""The operator is killed in the middle: whatever it was doing, there is one MPIJob, the same plan, and the job continues."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from e2e.cluster.cluster import Cluster
from e2e.cluster.operator import start_operator
from e2e.jobs import Job, namespace

IDENTITY = "hyperscale-0"
"""As in a pod that restarts its container: the Lease is its own."""

POINTS = (
    "look",
    "planned",
    "before-plan-file",
    "plan-file",
    "before-create",
    "created",
    "before-status",
    "after-status",
    "first-released",
    "released",
    "before-launcher",
)


@pytest.fixture
def space(installed: Cluster, calm: Cluster, request: pytest.FixtureRequest) -> Iterator[str]:
    with namespace(installed.api(), f"crash-{request.param}") as name:
        yield name


@pytest.mark.parametrize(("space", "point"), [(point, point) for point in POINTS], indirect=["space"], ids=POINTS)
def test_killed_at_any_point_of_a_pass_the_job_converges_after_the_restart(installed: Cluster, space: str, point: str) -> None:
    since = installed.position()
    job = Job(installed.api(), space, "cora")
    dying = start_operator(
        installed, {"HYPERSCALE_IDENTITY": IDENTITY, "KILL_OPERATOR_AT": point}, name="operator-dying", wait=point != "look"
    )
    job.create()
    dying.wait_killed(180)
    before = job.mpijob()
    recorded = job.plan().get("id")

    started = time.monotonic()
    restarted = start_operator(installed, {"HYPERSCALE_IDENTITY": IDENTITY}, name="operator-restarted", wait=False)
    try:
        job.wait_state("Running")
        job.wait(lambda: job.status()["columns"]["ready"] == "2/2", "the status does not converge")
        print(f"killed at {point}: running again {time.monotonic() - started:.1f} s after the restart")
        after = job.mpijob()
        assert after is not None
        assert job.pod_nodes() == job.nodes()
        assert after["metadata"]["labels"]["hyperscale.dev/plan-id"] == job.plan()["id"]
        assert before is None or before["metadata"]["uid"] == after["metadata"]["uid"]
        assert recorded is None or recorded == job.plan()["id"]
    finally:
        restarted.stop()
    assert mpijobs_created(installed, since, space) == ["cora"]


def mpijobs_created(cluster: Cluster, since: int, space: str) -> list[str]:
    """Names of the MPIJobs that were created in a namespace since a position of the audit log."""
    return [
        entry.name
        for entry in cluster.requests(since)
        if entry.resource == "mpijobs" and entry.verb == "create" and entry.namespace == space and entry.code == 201
    ]


@pytest.mark.parametrize("space", ["two"], indirect=True)
def test_of_two_operators_one_acts_and_the_other_takes_over_when_it_is_killed(installed: Cluster, space: str) -> None:
    lease = {"HYPERSCALE_LEASE_DURATION_SECONDS": "12", "HYPERSCALE_LEASE_RENEW_SECONDS": "1"}
    first = start_operator(installed, {**lease, "HYPERSCALE_IDENTITY": "first"}, name="operator-first")
    second = start_operator(installed, {**lease, "HYPERSCALE_IDENTITY": "second"}, name="operator-second", wait=False)
    try:
        since = installed.position()
        jobs = [Job(installed.api(), space, f"cora-{number}") for number in range(3)]
        for job in jobs:
            job.create()
        for job in jobs:
            job.wait_state("Running")
        assert '"job' not in second.log.read_text(), "the standby passed over a job"
        plans = [job.plan()["id"] for job in jobs]
        first.kill()
        second.wait_ready()
        late = Job(installed.api(), space, "late")
        late.create()
        late.wait_state("Running")
        assert [job.plan()["id"] for job in jobs] == plans
        assert sorted(mpijobs_created(installed, since, space)) == ["cora-0", "cora-1", "cora-2", "late"]
    finally:
        first.stop()
        second.stop()
