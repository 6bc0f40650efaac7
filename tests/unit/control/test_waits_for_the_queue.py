"""A job's wait counts only while the queue may start the job: no time in which something else held it back."""

from __future__ import annotations

from typing import Any
from unittest import mock

import pytest
from msgspec.structs import replace

from hyperscale.control.decide.chain import decide
from hyperscale.control.lifecycle.queue_wait import queued_since
from hyperscale.control.status.conditions import derive
from hyperscale.model import constants
from hyperscale.model.api.condition import Condition
from hyperscale.model.decision import Reason, Wait
from hyperscale.model.observed.reconcile_input import ReconcileInput, SpecFault
from hyperscale.model.plan import NEVER_FITS, VOLUME_MISSING, Infeasible, Plan
from hyperscale.model.status import JobStatus, StateWord
from hyperscale.util.rfc3339 import timestamp
from tests.builders.seen import GONE, job_spec, mpijob, plan, status
from tests.builders.waits import DEMAND, RUNS, WAITING, look, reported, waits_from
from tests.corpus.queue_stage import CREATED, POLICY, Stage

WEEK_SECONDS = 7 * 86400.0
BOUND_SECONDS = float(POLICY.queue.starvation_seconds)
NO_ROOM = Infeasible("InsufficientGPUs", "2 GPUs are needed, none is free.")


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
    later = reported(look(9000.0, status=first, refusal=replace(NO_ROOM, reason="NoMatchingNodes")))
    assert waits_from(later) == 0.0
    planned = look(9060.0, status=later, generation=2, plan=plan("node-a", "node-b"), mpijob=mpijob(), plan_recorded=True)
    assert waits_from(reported(planned)) is None


OTHER_DEMANDS: dict[str, dict[str, Any]] = {
    "model": {"model": {"architecture": "GCN", "epochs": 10**6}},
    "dataset": {"dataset": {"source": {"builtin": {"name": "PubMed"}}}},
    "workers": {"workers": {"minReplicas": 4, "maxReplicas": 4}},
    "partitioning": {"partitioning": {"count": 11}},
    "placement": {"placement": {"nodeSelector": {"kubernetes.io/hostname": "node-9"}}},
    "claim": {"checkpoint": {"claimName": "on-one-node"}},
    "planner": {"planner": "Heuristic"},
    "policy": {"policyRef": {"name": "batch"}},
}


@pytest.mark.parametrize("change", OTHER_DEMANDS.values(), ids=OTHER_DEMANDS.keys())
def test_a_job_that_was_made_into_another_one_waits_from_that_change(change: dict[str, Any]) -> None:
    """A job that cannot start could else collect a wait for any other one."""
    first = reported(look(30.0, refusal=NO_ROOM))
    other = reported(look(WEEK_SECONDS, job_spec(**change), status=first, refusal=NO_ROOM, generation=2))
    assert waits_from(other) == WEEK_SECONDS
    assert waits_from(reported(look(2 * WEEK_SECONDS, job_spec(**change), status=other, refusal=NO_ROOM, generation=2))) == WEEK_SECONDS


SAME_DEMANDS: dict[str, dict[str, Any]] = {
    "queue weight": {"queueWeight": 9},
    "recovery": {"recovery": {"maxPlanChanges": 9}},
    "end of the run": {"runPolicy": {"backoffLimit": 9}},
    "default written out": {"partitioning": {"method": "Auto"}},
}


@pytest.mark.parametrize("change", SAME_DEMANDS.values(), ids=SAME_DEMANDS.keys())
def test_an_edit_that_leaves_the_job_the_same_does_not_end_its_wait(change: dict[str, Any]) -> None:
    first = reported(look(30.0, refusal=NO_ROOM))
    assert waits_from(reported(look(9000.0, job_spec(**change), status=first, refusal=NO_ROOM, generation=2))) == 0.0


@pytest.mark.parametrize(("generation", "since"), [(1, 100.0), (2, WEEK_SECONDS)])
def test_a_wait_whose_job_is_not_on_record_lasts_only_without_any_edit(generation: int, since: float) -> None:
    told = reported(look(WEEK_SECONDS, status=status(StateWord.PENDING, WAITING), refusal=NO_ROOM, generation=generation))
    assert (waits_from(told), told.queued_spec) == (since, DEMAND)


NO_POLICY = SpecFault("spec.policyRef.name", 'no PlannerPolicy "batch" exists', of_policy=True)


def without_policy(now: float, told: JobStatus, **given: Any) -> ReconcileInput:
    state = look(now, status=told, **given)
    return replace(state, job=replace(state.job, parsed=None, fault=NO_POLICY))


def test_a_node_or_a_policy_that_is_away_for_a_moment_ends_no_wait() -> None:
    first = reported(look(30.0, refusal=NO_ROOM))
    for away in (look(9000.0, status=first, refusal=Infeasible(NEVER_FITS, "no node is that large")), without_policy(9000.0, first)):
        held = reported(away)
        assert (waits_from(held), held.queued_spec) == (0.0, first.queued_spec)
        assert waits_from(reported(look(9060.0, status=held, refusal=NO_ROOM))) == 0.0


def test_an_edit_while_a_node_or_the_policy_is_away_ends_the_wait() -> None:
    first, never = reported(look(30.0, refusal=NO_ROOM)), Infeasible(NEVER_FITS, "no node is that large")
    other = job_spec(workers={"minReplicas": 4, "maxReplicas": 4})
    edited = (
        look(9000.0, other, status=first, refusal=never, generation=2),
        without_policy(9000.0, first, generation=2),
        without_policy(9000.0, first, labels={constants.KUEUE_QUEUE_LABEL: "batch"}),
    )
    assert [waits_from(reported(each)) for each in edited] == [None, None, None]


def test_the_reader_says_which_faults_are_those_of_the_policy() -> None:
    stage = Stage()
    faults = [stage.reader.read(stage.cache.jobs[stage.add(name, **spec)].resource, {})[1] for name, spec in FAULTY.items()]
    assert [fault is not None and fault.of_policy for fault in faults] == [True, False]


PLANNED: dict[str, Any] = {"plan": plan("node-a", "node-b"), "plan_recorded": True}


def test_a_planned_job_waits_until_it_holds_gpus_if_it_waited_before() -> None:
    """Its partition Job may last, and then its plan may not fit any more."""
    first = reported(look(30.0, refusal=NO_ROOM))
    partitioning = look(9000.0, status=first, **PLANNED, partition_key="0123456789abcdef")
    assert decide(partitioning).reason == Reason.PARTITIONING
    told = reported(partitioning)
    assert (waits_from(told), told.plan) == (0.0, PLANNED["plan"])
    assert waits_from(reported(without_policy(9030.0, told, **PLANNED))) == 0.0
    assert waits_from(reported(look(9060.0, status=told, **PLANNED, mpijob=mpijob()))) is None
    assert waits_from(reported(look(9000.0, **PLANNED, partition_key="0123456789abcdef"))) is None, "it never waited"


@pytest.mark.parametrize(
    ("spec", "labels", "kept"),
    [({}, {}, False), ({"startPolicy": "Manual"}, {}, True), ({}, {constants.KUEUE_QUEUE_LABEL: "batch"}, True)],
    ids=["queue", "person", "Kueue"],
)
def test_the_queue_takes_a_planned_job_again_whose_plan_fits_no_more(spec: dict[str, Any], labels: dict[str, str], kept: bool) -> None:
    accepted = Condition("Planned", "True", "PlanAccepted", observed_generation=1, last_transition_time=timestamp(CREATED))
    before = replace(reported(look(30.0, refusal=NO_ROOM)), plan=PLANNED["plan"])
    before = replace(before, conditions=(accepted, *(one for one in before.conditions if one.type != "Planned")))
    stale = look(9000.0, job_spec(**spec), status=before, labels=labels, **PLANNED, misfits=(GONE,), refusal=NO_ROOM)
    told = reported(stale)
    assert (told.plan is not None) is kept
    assert waits_from(told) == (None if kept else 0.0)


async def test_a_job_whose_plan_fits_no_more_goes_before_newcomers_again() -> None:
    large: dict[str, Any] = {"workers": {"minReplicas": 4, "maxReplicas": 4}}
    stage = Stage(nodes=1, gpus=4)
    stage.now = CREATED + 3.0 * BOUND_SECONDS
    waiting = reported(look(30.0, job_spec(**large), refusal=NO_ROOM))
    old = stage.add("old", status=waiting, epochs=100, **large)
    made = (await stage.ask(old)).outcome
    assert isinstance(made, Plan)
    stage.planning.pending.drop(old)
    stage.now += 600.0
    stale = look(stage.now - CREATED, job_spec(**large), status=replace(waiting, plan=made), plan=made, misfits=(GONE,), refusal=NO_ROOM)
    stage.add("old", status=reported(stale), epochs=100, **large)
    new = stage.add("new", created=stage.now, workers={"minReplicas": 2, "maxReplicas": 2})
    assert await stage.run(new, old, new) == {old: mock.ANY}


FAULTY: dict[str, dict[str, Any]] = {
    "lacks-policy": {"policyRef": {"name": "batch"}},
    "bad": {"workers": {"minReplicas": 3, "maxReplicas": 2}},
}


@pytest.mark.parametrize("behind", [5.0, 600.0])
def test_a_clock_behind_the_api_servers_moves_no_begin_of_a_wait(behind: float) -> None:
    told, statuses = JobStatus(), []
    for passed in range(0, 1200, 60):
        told = reported(look(passed - behind, status=told, refusal=NO_ROOM))
        statuses.append(told)
    assert statuses == [statuses[0]] * len(statuses)
    assert waits_from(told) == 0.0
    assert queued_since(told, timestamp(CREATED), 1, CREATED - behind, DEMAND) == CREATED - behind, "it has not waited yet"


def test_a_job_whose_spec_was_changed_before_the_operator_saw_it_may_have_been_parked() -> None:
    assert waits_from(reported(look(WEEK_SECONDS, generation=2, refusal=NO_ROOM))) == WEEK_SECONDS


PLAIN: dict[str, Any] = {"model": {"architecture": "GCN"}, "workers": {"minReplicas": 2, "maxReplicas": 4}}
"""As `job_spec` without changes."""


async def waited(stage: Stage, told: JobStatus | None, *, generation: int, key: str = "cora") -> float:
    """Seconds that a question says this job has waited; another job waits as well, so that there is a question."""
    job = stage.add(key, version=generation, status=told, **PLAIN)
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


async def test_one_edit_gives_a_job_that_could_not_start_no_wait_in_the_queue() -> None:
    parked = reported(look(30.0, job_spec(partitioning={"count": 11}), refusal=NO_ROOM))
    for _ in range(2):
        restarted = Stage()
        restarted.now = CREATED + WEEK_SECONDS
        assert await waited(restarted, parked, generation=2) == 0.0


async def test_a_job_that_never_fits_holds_no_other_back_however_long_it_has_waited() -> None:
    stage = Stage(nodes=1, gpus=2)
    stage.now = CREATED + 3.0 * BOUND_SECONDS
    never = stage.add("never", workers={"minReplicas": 8, "maxReplicas": 8})
    short = stage.add("short", created=stage.now, workers={"minReplicas": 1, "maxReplicas": 1})
    assert set(await stage.run(never, short)) == {short}


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
