"""A job's wait counts only while the queue may start the job: no time in which something else held it back."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from hyperscale.control.cache.records import Key
from hyperscale.control.decide.chain import decide
from hyperscale.control.lifecycle.queue_wait import WAITING_CONDITION, queued_since
from hyperscale.control.lifecycle.stoppable import PREEMPTED_CONDITION, preemption_blocker
from hyperscale.control.status.conditions import derive
from hyperscale.model import constants
from hyperscale.model.api.condition import Condition
from hyperscale.model.api.job import JobSpec
from hyperscale.model.api.policy import QueuePolicy
from hyperscale.model.decision import Reason, Wait
from hyperscale.model.observed.reconcile_input import ReconcileClock, ReconcileInput, SpecFault
from hyperscale.model.plan import NEVER_FITS, VOLUME_MISSING, Infeasible, Plan
from hyperscale.model.status import JobStatus, LastPreemption, StateWord
from hyperscale.util.rfc3339 import timestamp, unix_seconds
from tests.builders.seen import changed, job_spec, mpijob, plan, seen, status
from tests.corpus.queue_stage import CREATED, POLICY, Stage

WEEK_SECONDS = 7 * 86400.0
BOUND_SECONDS = float(POLICY.queue.starvation_seconds)
NO_ROOM = Infeasible("InsufficientGPUs", "2 GPUs are needed, none is free.")
WAITING = Condition(WAITING_CONDITION, "True", "InQueue", observed_generation=1, last_transition_time=timestamp(CREATED + 100.0))
PREEMPTED = Condition(PREEMPTED_CONDITION, "True", "PreemptedForOthers", last_transition_time=timestamp(CREATED))
RUNS = {"Running": (True, "MPIJobRunning", "")}


def look(
    now: float, job: JobSpec | None = None, *, generation: int = 1, labels: dict[str, str] | None = None, **said: Any
) -> ReconcileInput:
    """The job as a reconcile sees it `now` seconds after its creation."""
    state = changed(seen(job), **said)
    metadata = replace(state.job.metadata, created=timestamp(CREATED), generation=generation, labels=labels or {})
    return replace(state, job=replace(state.job, metadata=metadata), clock=ReconcileClock(now=CREATED + now))


def reported(state: ReconcileInput) -> JobStatus:
    return derive(state, decide(state))


def waits_from(told: JobStatus) -> float | None:
    """Seconds after the creation from which the status counts the wait."""
    waiting = told.condition(WAITING_CONDITION)
    return None if waiting is None else unix_seconds(waiting.last_transition_time) - CREATED


OVER_QUOTA = SpecFault("", "exceeded quota", Reason.QUOTA_EXCEEDED)
UNSIZED = job_spec(dataset={"source": {"persistentVolumeClaim": {"claimName": "graphs"}}, "path": "own.npz"})
PARKED: dict[str, ReconcileInput] = {
    "suspended": look(5.0, job_spec(runPolicy={"suspend": True})),
    "plans only": look(5.0, job_spec(startPolicy="Never")),
    "approved by a person": look(5.0, job_spec(startPolicy="Manual")),
    "plans only, without room": look(5.0, job_spec(startPolicy="Never"), refusal=NO_ROOM),
    "in a queue of Kueue": look(5.0, labels={constants.KUEUE_QUEUE_LABEL: "batch"}, refusal=NO_ROOM),
    "before its preflight": look(5.0, job_spec(preflight="Require"), preflight_key="0123456789abcdef"),
    "before its preflight, over quota": look(
        5.0, job_spec(preflight="Require"), preflight_key="0123456789abcdef", preflight_refusal=OVER_QUOTA
    ),
    "before its graph is read": look(5.0, UNSIZED, inspection_key="0123456789abcdef"),
    "never fits": look(5.0, refusal=Infeasible(NEVER_FITS, "no node is that large")),
    "without its volume": look(5.0, refusal=Infeasible(VOLUME_MISSING, 'PersistentVolumeClaim "data" does not exist')),
    "invalid": replace(look(5.0), job=replace(look(5.0).job, parsed=None, fault=SpecFault("spec.model", "is missing"))),
    "running": look(5.0, mpijob=mpijob(conditions=RUNS), plan=plan("node-a", "node-b"), plan_recorded=True),
}


@pytest.mark.parametrize("parked", PARKED.values(), ids=PARKED.keys())
def test_a_job_that_something_else_holds_back_waits_from_its_release(parked: ReconcileInput) -> None:
    told = reported(parked)
    assert waits_from(told) is None
    released = look(WEEK_SECONDS, generation=2, status=told, refusal=NO_ROOM)
    assert waits_from(reported(released)) == WEEK_SECONDS


def test_a_job_whose_graph_no_quota_lets_be_read_does_not_wait() -> None:
    assert waits_from(derive(look(5.0, UNSIZED), Wait(Reason.QUOTA_EXCEEDED))) is None


def test_a_job_that_may_start_from_the_first_waits_since_its_creation_until_it_is_planned() -> None:
    first = reported(look(30.0, refusal=NO_ROOM))
    assert waits_from(first) == 0.0
    later = reported(look(9000.0, status=first, refusal=replace(NO_ROOM, reason="NoMatchingNodes"), generation=2))
    assert waits_from(later) == 0.0, "an edit of a job that waits does not end its wait"
    planned = look(9060.0, status=later, generation=2, plan=plan("node-a", "node-b"), mpijob=mpijob(), plan_recorded=True)
    assert waits_from(reported(planned)) is None


def test_a_job_whose_spec_was_changed_before_the_operator_saw_it_may_have_been_parked() -> None:
    assert waits_from(reported(look(WEEK_SECONDS, generation=2, refusal=NO_ROOM))) == WEEK_SECONDS


async def waited(stage: Stage, told: JobStatus | None, *, generation: int, key: str = "cora") -> float:
    """Seconds that a question says this job has waited; another job waits as well, so that there is a question."""
    job = stage.add(key, version=generation, status=told)
    stage.add("other", epochs=1000)
    await stage.ask(job)
    return next(queued.waited_seconds for queued in stage.planner.questions[-1].jobs if queued.request.job_key == str(job))


async def test_the_queue_counts_nothing_of_the_time_before_a_release_and_the_rest_also_after_a_restart() -> None:
    suspended = reported(look(5.0, job_spec(runPolicy={"suspend": True})))
    stage = Stage()
    stage.now = CREATED + WEEK_SECONDS
    assert await waited(stage, suspended, generation=2) == 0.0, "released, and not yet reconciled"
    waiting = reported(look(WEEK_SECONDS, generation=2, status=suspended, refusal=NO_ROOM))
    for _ in range(2):
        restarted = Stage()
        restarted.now = CREATED + WEEK_SECONDS + 3600.0
        assert await waited(restarted, waiting, generation=2) == 3600.0


async def test_time_that_the_operator_was_away_counts_for_a_job_that_nothing_held_back() -> None:
    stage = Stage()
    stage.now = CREATED + WEEK_SECONDS
    assert await waited(stage, None, generation=1) == WEEK_SECONDS


@pytest.mark.parametrize(("stated", "counts"), [("1970-01-01T00:00:00Z", 3600.0), ("9999-01-01T00:00:00Z", 0.0), ("", 0.0)])
async def test_no_wait_is_longer_than_the_job_is_old_whatever_its_status_states(stated: str, counts: float) -> None:
    stage = Stage()
    stage.now = CREATED + 3600.0
    told = status(StateWord.PENDING, replace(WAITING, last_transition_time=stated), observed_generation=1)
    assert await waited(stage, told, generation=1) == counts


async def test_a_parked_job_that_is_released_blocks_no_job_that_waits() -> None:
    """All of the cluster would be kept for a job beyond twice the bound."""
    stage = Stage(nodes=1, gpus=2)
    stage.now = CREATED + 3.0 * BOUND_SECONDS
    held = stage.add("held", epochs=10**6, workers={"minReplicas": 1, "maxReplicas": 1}, created=stage.now)
    assert held in await stage.run(held)
    suspended = reported(look(5.0, job_spec(runPolicy={"suspend": True})))
    parked = stage.add("parked", epochs=10**6, version=2, status=suspended, workers={"minReplicas": 2, "maxReplicas": 2})
    short = stage.add("short", workers={"minReplicas": 1, "maxReplicas": 1}, created=stage.now)
    assert set(await stage.run(parked, short)) == {short}


async def test_a_job_without_its_volume_is_in_no_question_of_others() -> None:
    stage = Stage(nodes=1, gpus=2)
    told = reported(look(5.0, refusal=Infeasible(VOLUME_MISSING, 'PersistentVolumeClaim "data" does not exist')))
    lacking = stage.add("lacking", status=told)
    first, second = stage.add("first"), stage.add("second", epochs=1000)
    await stage.run(first, second)
    asked = {job.request.job_key for question in stage.planner.questions for job in question.jobs}
    assert asked == {str(first), str(second)}
    await stage.ask(lacking)
    assert str(lacking) in {job.request.job_key for job in stage.planner.questions[-1].jobs}, "its own reconcile asks"


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
    assert CREATED + 1900.0 - queued_since(waits, timestamp(CREATED), 1, CREATED + 1900.0) == 1500.0
    forged = replace(waits, last_preemption=replace(STOP, waited_seconds=1e12))
    assert queued_since(forged, timestamp(CREATED), 1, CREATED + 1900.0) == CREATED


def planned_before(stage: Stage, generation: int, made: Plan, **spec: Any) -> Key:
    """A job without an MPIJob whose status has a plan of its first generation."""
    accepted = Condition("Planned", "True", "PlanAccepted", observed_generation=1, last_transition_time=timestamp(stage.now))
    told = JobStatus(observed_generation=1, plan=made, conditions=(accepted,))
    return stage.add("planned", created=stage.now, version=generation, status=told, **SMALL, **spec)


SMALL: dict[str, Any] = {"epochs": 10**6, "workers": {"minReplicas": 2, "maxReplicas": 2}}


async def test_a_plan_that_nothing_follows_from_is_no_way_around_the_queue() -> None:
    stage = Stage(nodes=1, gpus=4)
    stage.now = CREATED + 3.0 * BOUND_SECONDS
    held = stage.add("held", created=stage.now, **SMALL)
    made = (await stage.run(held))[held]
    stage.add("starving", workers={"minReplicas": 4, "maxReplicas": 4})
    planned = planned_before(stage, 1, made, startPolicy="Never")
    assert stage.cache.plans_of(planned).in_force == made
    released = planned_before(stage, 2, made)
    answer = await stage.ask(released)
    assert stage.cache.plans_of(released).in_force is None
    assert answer.turn is not None
    assert answer.turn.reason == Reason.WAITING_FOR_ADMISSION


@pytest.mark.parametrize(("generation", "spec", "kept"), [(1, {}, True), (2, {}, False), (2, {"startPolicy": "Manual"}, True)])
async def test_a_recorded_plan_is_void_after_a_spec_change_unless_a_person_decides_on_it(
    generation: int, spec: dict[str, Any], kept: bool
) -> None:
    stage = Stage()
    made = (await stage.run(stage.add("other", **SMALL)))[Key("team", "other")]
    assert (stage.cache.plans_of(planned_before(stage, generation, made, **spec)).recorded == made) is kept


async def test_the_plan_of_an_mpijob_stays_after_a_spec_change() -> None:
    stage = Stage()
    made = (await stage.run(stage.add("other", **SMALL)))[Key("team", "other")]
    started = planned_before(stage, 2, made)
    stage.start(started, made)
    assert stage.cache.plans_of(started).recorded == made
