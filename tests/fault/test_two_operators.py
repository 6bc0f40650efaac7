"""Two operators that both act, and a holder that loses the Lease: nothing that the other wrote is overwritten."""

from __future__ import annotations

import time
from datetime import datetime
from functools import partial
from typing import Any

from e2e.cluster.control_plane import wait_until
from e2e.jobs import PATIENCE_SECONDS, Job
from tests.fault.conftest import Stage
from tests.fault.process import LEASE, READY_SECONDS, running
from tests.fault.proxy import Asked, FaultProxy
from tests.fault.watching import wait_created

EXIT_LEASE_LOST = 3
LEASE_SECONDS = 18
"""A third of it lies between the holder's deadline and the end of its Lease: this test may notice the end so much later."""
CALM_SECONDS = 10 * READY_SECONDS
"""The next renewal comes long after the test has given up."""


def is_lease(asked: Asked) -> bool:
    return "/leases" in asked.path


def is_status(asked: Asked) -> bool:
    return asked.method == "PATCH" and asked.path.endswith("/status") and "/gnntrainingjobs/" in asked.path


def test_a_holder_whose_renewal_hangs_leaves_before_another_may_take_the_lease(stage: Stage, proxy: FaultProxy) -> None:
    settings: Any = {"lease_duration_seconds": LEASE_SECONDS, "lease_renew_seconds": 1, "request_timeout_seconds": 30}
    with running(stage.operator(identity="first", **settings), stage.api) as first:
        first.wait_ready()
        with proxy.holding(is_lease):
            assert first.wait_ended() == EXIT_LEASE_LOST
            ended_at = time.time()
        renewed_at = datetime.fromisoformat(str(stage.api.get(LEASE)["spec"]["renewTime"])).timestamp()
        assert ended_at < renewed_at + LEASE_SECONDS


def test_a_loser_does_not_overwrite_what_another_wrote_and_leaves_at_once(stage: Stage, proxy: FaultProxy, job: Job) -> None:
    settings: Any = {"lease_duration_seconds": 3 * CALM_SECONDS, "lease_renew_seconds": CALM_SECONDS, "request_timeout_seconds": 30}
    with running(stage.operator(identity="first", **settings), stage.api) as first:
        first.wait_ready()
        with proxy.holding(is_status) as held:
            job.create()
            wait_until(lambda: len(held.caught) > 0, PATIENCE_SECONDS, "no status is written")
            stage.api.patch(LEASE, {"spec": {"holderIdentity": "second"}})
            stage.api.patch(f"{job.path}/status", {"status": {"queue": "written-by-second"}})
        assert first.wait_ended() == EXIT_LEASE_LOST
        assert job.status() == {"queue": "written-by-second"}
        assert stage.lease_holder() == "second"


def test_two_operators_that_both_believe_they_lead_make_one_mpijob_of_each_job(stage: Stage, proxy: FaultProxy, space: str) -> None:
    """Of one identity, each takes the other's Lease for its own."""
    settings: Any = {"identity": "same", "resync_seconds": 2}
    with running(stage.operator(**settings), stage.api) as first, running(stage.operator(**settings), stage.api) as second:
        for process in (first, second):
            process.wait_ready()
        jobs = [Job(stage.api, space, f"job-{number}") for number in range(4)]
        for job in jobs:
            job.create()
        for job in jobs:
            wait_created(job)
            job.wait(partial(names_its_mpijob, job), "the status names another MPIJob")
        made = {job.name: uid_of(job) for job in jobs}
        for job in jobs:
            job.patch(spec={"runPolicy": {"suspend": True}})
        for job in jobs:
            job.wait_reason("Suspended")
            assert (job.mpijob() or {})["spec"]["runPolicy"]["suspend"] is True
        assert {job.name: uid_of(job) for job in jobs} == made
        wait_until(partial(is_calm, proxy), PATIENCE_SECONDS, "they write against each other")
        assert not first.ended
        assert not second.ended


def uid_of(job: Job) -> str:
    return str((job.mpijob() or {})["metadata"]["uid"])


def names_its_mpijob(job: Job) -> bool:
    return bool(job.status()["mpiJobRef"]["uid"] == uid_of(job))


def is_calm(proxy: FaultProxy) -> bool:
    """Whether jobs were listed six times, three by each, since a status was written last."""
    asked = list(proxy.asked)
    last = max((place for place, one in enumerate(asked) if is_status(one)), default=0)
    listed = [one for one in asked[last:] if one.path.endswith("/gnntrainingjobs") and one.method == "GET" and not one.is_watch]
    return len(listed) >= 6
