"""A preempted job waits from its stop; its waits add up, and neither its runs nor a person's suspension counts."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from hyperscale.control.lifecycle.queue_wait import queued_since
from hyperscale.control.lifecycle.stoppable import PREEMPTED_CONDITION, preemption_blocker
from hyperscale.control.status.conditions import derive
from hyperscale.model.api.job import JobSpec
from hyperscale.model.api.policy import QueuePolicy
from hyperscale.model.decision import Reason, Wait
from hyperscale.model.observed.reconcile_input import ReconcileInput
from hyperscale.model.plan import Infeasible
from hyperscale.model.status import LastPreemption, StateWord
from hyperscale.util.rfc3339 import timestamp
from tests.builders.seen import job_spec, mpijob, plan, status
from tests.builders.waits import DEMAND, PREEMPTED, RUNS, WAITING, look, reported, waits_from
from tests.corpus.queue_stage import CREATED

WEEK_SECONDS = 7 * 86400.0
NO_ROOM = Infeasible("InsufficientGPUs", "2 GPUs are needed, none is free.")
STOP = LastPreemption(timestamp(CREATED + 1000.0), ("team/short",), 4.0, waited_seconds=600.0)
SUSPENDED = {"mpijob": mpijob(suspended=True, suspend_intent=True), "plan": plan("node-a", "node-b"), "plan_recorded": True}


def stopped(now: float, job: JobSpec | None = None, **said: Any) -> ReconcileInput:
    """A preempted job without pods."""
    return look(now, job, **{**SUSPENDED, "preempted": True, "preemption_recorded": True, **said})


def test_a_preempted_job_waits_from_its_stop_and_keeps_the_sum_of_its_waits_when_it_resumes() -> None:
    running = status(StateWord.RUNNING, last_preemption=STOP)
    begun = derive(stopped(1000.0, status=running, preemption_recorded=False), Wait(Reason.PREEMPTED))
    assert waits_from(begun) == 1000.0
    waits = derive(stopped(1500.0, status=begun, refusal=NO_ROOM), Wait(Reason.PREEMPTED))
    assert (waits_from(waits), waits.last_preemption) == (1000.0, STOP)
    resumed = derive(stopped(1900.0, status=waits, preempted=False), Wait(Reason.MIGRATING))
    assert waits_from(resumed) is None
    assert resumed.last_preemption == replace(STOP, waited_seconds=1500.0)


def test_a_preempted_job_that_a_person_suspends_has_not_waited_for_others_meanwhile() -> None:
    """A job could else become one that may never be preempted again, or that goes before all others."""
    waits = status(StateWord.QUEUED, PREEMPTED, replace(WAITING, last_transition_time=STOP.start_time), last_preemption=STOP)
    parked = job_spec(runPolicy={"suspend": True}, checkpoint={"claimName": "state", "everyEpochs": 10})
    told = reported(stopped(1400.0, parked, status=waits))
    assert told.condition(PREEMPTED_CONDITION) is None
    assert told.last_preemption == replace(STOP, waited_seconds=1000.0)
    again = mpijob(conditions=RUNS, start_time=timestamp(CREATED + WEEK_SECONDS))
    policy = QueuePolicy(starvation_seconds=7200)
    free = job_spec(checkpoint={"claimName": "state", "everyEpochs": 10})
    assert preemption_blocker(free, again, told, policy) == ""
    assert "1000 s" in preemption_blocker(free, again, told, QueuePolicy(starvation_seconds=1000))


def test_the_queue_counts_all_waits_of_a_preempted_job_and_none_of_its_runs() -> None:
    waits = status(StateWord.QUEUED, PREEMPTED, replace(WAITING, last_transition_time=STOP.start_time), last_preemption=STOP)
    assert CREATED + 1900.0 - queued_since(waits, timestamp(CREATED), 1, CREATED + 1900.0, DEMAND) == 1500.0
    forged = replace(waits, last_preemption=replace(STOP, waited_seconds=1e12))
    assert queued_since(forged, timestamp(CREATED), 1, CREATED + 1900.0, DEMAND) == CREATED
