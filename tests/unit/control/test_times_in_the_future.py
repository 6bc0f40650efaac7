"""Times that have not come yet and waits longer than a job is old. The operator did not write them, and they hold up no other job."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from hyperscale.control.cache.cluster_cache import ClusterCache
from hyperscale.control.cache.records import Key
from hyperscale.control.lifecycle.queue_wait import queued_since
from hyperscale.control.lifecycle.unscheduled import delay_left, refused_nodes
from hyperscale.control.scheduler.pending import KEPT_BACK_SECONDS, Pending
from hyperscale.control.specs.parsed_specs import JobReader
from hyperscale.model.status import JobStatus, LastPreemption
from hyperscale.util.rfc3339 import timestamp, unix_seconds
from tests.builders.seen import MPIJOB_UID
from tests.unit.control.test_world import CORA, job, mpijob, pod

CREATED = "2026-01-01T00:00:00Z"
NOW = unix_seconds("2026-01-02T00:00:00Z")
NEVER = "9999-01-01T00:00:00Z"
STOPPED: dict[str, Any] = {"startTime": NEVER, "beneficiaries": ["team/cora"], "completedEpochs": 1.0}
PREEMPTED = {"type": "Preempted", "status": "True", "reason": "PreemptedForOthers", "message": "", "lastTransitionTime": CREATED}


def stored(**status: Any) -> dict[str, Any]:
    found = job(phase="Queued", observedGeneration=1, **status)
    found["metadata"]["creationTimestamp"] = CREATED
    return found


def world_of(clock: Callable[[], float] = lambda: NOW, **status: Any) -> ClusterCache:
    made = ClusterCache(clock)
    made.see_job(stored(**status))
    return made


def read(**status: Any) -> JobStatus:
    return world_of(**status).jobs[CORA].status


def test_a_stop_in_the_future_holds_other_jobs_back_no_longer_than_one_of_now() -> None:
    now = NOW
    cache = world_of(lambda: now, lastPreemption=STOPPED, conditions=[PREEMPTED], mpiJobRef={"name": "cora", "uid": MPIJOB_UID})
    cache.see_mpijob(mpijob(suspended=True))
    cache.see_pod(pod("cora-worker-0", on="node-a"))
    pending = Pending(cache, JobReader(), lambda: now)
    assert pending.kept_back(Key("team", "other")) == CORA, "its pods are still ending"
    now += KEPT_BACK_SECONDS
    assert pending.kept_back(Key("team", "other")) is None


def test_no_job_has_waited_longer_for_others_than_it_exists() -> None:
    stop = STOPPED | {"startTime": timestamp(NOW - 60.0), "waitedSeconds": 1e15}
    status = read(lastPreemption=stop, conditions=[PREEMPTED])
    assert queued_since(status, CREATED, 1, NOW, "") == unix_seconds(CREATED)
    assert status.last_preemption is not None
    assert status.last_preemption.waited_seconds == NOW - unix_seconds(CREATED)


def test_no_job_was_preempted_before_its_creation() -> None:
    stop = read(lastPreemption=STOPPED | {"startTime": "1970-01-01T00:00:00Z"}).last_preemption
    assert stop is not None
    assert stop.start_time == CREATED


def test_a_release_in_the_future_delays_the_next_plan_no_longer_than_one_of_now() -> None:
    refused = [{"node": "node-a", "message": "no room", "refusalTime": NEVER}]
    status = read(scheduling={"releases": 1, "lastReleaseTime": NEVER, "waitingStartTime": NEVER, "refused": refused})
    assert delay_left(status, NOW + 600.0) == 0.0
    assert refused_nodes(status, NOW + 3600.0) == {}
    assert status.scheduling is not None
    assert unix_seconds(status.scheduling.waiting_start_time) <= NOW


def test_times_that_are_none_are_found_in_what_is_remembered_of_the_scheduler_too() -> None:
    assert read(scheduling={"releases": 1, "lastReleaseTime": "tomorrow"}) == JobStatus()


@pytest.mark.parametrize("ahead", [0.0, 100.0])
def test_a_clock_that_is_a_little_ahead_is_believed(ahead: float) -> None:
    stop = STOPPED | {"startTime": timestamp(NOW + ahead), "waitedSeconds": 3600.0}
    cache = world_of(lastPreemption=stop)
    assert cache.jobs[CORA].status.last_preemption == LastPreemption(timestamp(NOW + ahead), ("team/cora",), 1.0, 3600.0)
    assert cache.intake.refused == {}


def test_such_a_status_is_named_and_the_rest_of_it_stays() -> None:
    cache = world_of(lastPreemption=STOPPED, mpiJobRef={"name": "cora", "uid": MPIJOB_UID})
    record = cache.jobs[CORA]
    assert record.status_fault
    assert record.status.mpi_job_ref is not None
    assert [refused.key for refused in cache.intake.refused.values()] == [CORA]


def test_an_mpijob_that_starts_or_ends_in_the_future_has_no_such_time() -> None:
    cache = world_of()
    cache.see_mpijob(mpijob() | {"status": {"startTime": CREATED, "completionTime": NEVER}})
    view = cache.mpijobs[CORA]
    assert (view.start_time, view.completion_time) == (CREATED, "")
