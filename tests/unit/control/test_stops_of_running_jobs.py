"""A running job that is stopped for others and continues later, decision by decision, and what the status says meanwhile."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from hyperscale.cli.explain.explanation import ExplainedJob, explain
from hyperscale.control.decide.chain import decide
from hyperscale.control.lifecycle.stoppable import (
    PREEMPTED_CONDITION,
    PROPOSED_CONDITION,
    begun,
    epochs_kept,
    epochs_left,
    is_preempted,
    material,
    preemption_blocker,
    preemption_message,
    proposed,
    shown_stop,
    undisturbed,
    waits_again,
)
from hyperscale.control.status.conditions import derive
from hyperscale.model.api.condition import Condition
from hyperscale.model.api.job import JobSpec
from hyperscale.model.api.policy import QueueOrder, QueuePolicy
from hyperscale.model.decision import BeginPreemption, DeletePods, MakePlan, Reason, SetSuspend, Wait
from hyperscale.model.observed.reconcile_input import AdmissionAnswer, MigrationView, PreemptionView, ReconcileInput
from hyperscale.model.plan import Infeasible
from hyperscale.model.pods import PodView
from hyperscale.model.running_query import JobPreemption
from hyperscale.model.status import JobStatus, LastMigration, LastPreemption, ProposedPreemption, QueueDecision, StateWord
from tests.builders.seen import MEASURED, changed, condition, job_spec, launcher, mpijob, plan, seen, status, worker

PLAN = plan("node-a", "node-b")
RUNS = {"Running": (True, "MPIJobRunning", "")}
JOB = job_spec(checkpoint={"claimName": "state"})
STOP = ProposedPreemption(("team/short",), 120.0, 65.0, "2026-01-01T00:00:00Z")
LAST = LastPreemption("2026-01-01T00:10:00Z", ("team/short",), 40.0)
PREEMPTED = condition(PREEMPTED_CONDITION)
WAITS = AdmissionAnswer(QueueDecision(2, 2, "Rule", 30.0), "WaitingForAdmission", "number 2 of 2 in the queue, team/short goes first")


def running(job: JobSpec = JOB, **changes: Any) -> ReconcileInput:
    """Both ranks run where they were planned."""
    pods = (worker(0, node="node-a", ready=True), worker(1, node="node-b", ready=True))
    base = seen(job, mpijob=mpijob(conditions=RUNS), plan=PLAN, plan_recorded=True, pods=pods, status=status(StateWord.RUNNING))
    return changed(base, **changes)


def stopping(**changes: Any) -> ReconcileInput:
    """The stop is written down; the pods still run."""
    written = status(StateWord.RUNNING, PREEMPTED, last_preemption=LAST, preemptions=1)
    return running(**{"preempted": True, "preemption_recorded": True, "status": written, **changes})


def stopped(**changes: Any) -> ReconcileInput:
    """The pods are gone."""
    return stopping(**{"mpijob": mpijob(suspended=True), "pods": (), **changes})


def of_type(conditions: tuple[Condition, ...], kind: str) -> Condition | None:
    return next((found for found in conditions if found.type == kind), None)


def test_a_stop_that_is_only_proposed_changes_nothing() -> None:
    decision = decide(running(preemption=PreemptionView(STOP)))
    assert isinstance(decision, Wait)
    assert decision.reason == Reason.RUNNING


def test_a_stop_that_is_due_begins_and_goes_before_a_move() -> None:
    assert isinstance(decide(running(preemption=PreemptionView(due=True), migration=MigrationView(None, PLAN))), BeginPreemption)


@pytest.mark.parametrize(
    "look",
    [
        running(job_spec()),
        running(mpijob=mpijob(conditions=RUNS, queue="gold")),
        running(job_spec(checkpoint={"claimName": "state"}, placement={"mode": "Preferred"})),
        running(job_spec(checkpoint={"claimName": "state"}, startPolicy="Manual")),
        running(status=status(StateWord.RUNNING, plan_changes=3)),
    ],
    ids=["no checkpoint", "in a queue", "not strict", "approved by hand", "no replans left"],
)
def test_a_job_that_must_not_be_stopped_is_not(look: ReconcileInput) -> None:
    assert look.job.parsed is not None
    assert look.gang.mpijob is not None
    assert preemption_blocker(look.job.parsed, look.gang.mpijob, look.job.status, QueuePolicy())
    assert not isinstance(decide(changed(look, preemption=PreemptionView(due=True))), BeginPreemption)


def test_in_order_of_arrival_nobody_is_stopped() -> None:
    assert not preemption_blocker(JOB, mpijob(), JobStatus(), QueuePolicy())
    assert "Arrival" in preemption_blocker(JOB, mpijob(), JobStatus(), QueuePolicy(order=QueueOrder.ARRIVAL))


def test_who_has_waited_as_long_as_the_starvation_bound_is_not_stopped_again() -> None:
    again = mpijob()
    once = status(StateWord.RUNNING, last_preemption=replace(LAST, waited_seconds=7200.0))
    assert "7200" in preemption_blocker(JOB, again, once, QueuePolicy(starvation_seconds=7200))
    assert not preemption_blocker(JOB, again, once, QueuePolicy(starvation_seconds=7201))
    assert not preemption_blocker(JOB, again, once, QueuePolicy(starvation_seconds=0))
    twice = begun(once, ("team/other",), 60.0, 1_767_240_000.0)
    assert twice.waited_seconds == 7200.0


def test_nothing_is_stopped_before_that_is_written_down() -> None:
    first = stopping(preemption_recorded=False, status=status(StateWord.RUNNING, last_preemption=LAST, preemptions=1))
    decision = decide(first)
    assert isinstance(decision, Wait)
    assert (decision.reason, decision.retry_after_seconds) == (Reason.PREEMPTED, 0.0)
    assert "team/short" in decision.message
    written = derive(first, decision)
    assert is_preempted(written)
    assert not undisturbed(written, mpijob(conditions=RUNS))
    assert (written.last_preemption, written.preemptions) == (LAST, 1)


def test_the_pods_stop_once_it_is_written_down() -> None:
    decision = decide(stopping())
    assert isinstance(decision, SetSuspend)
    assert decision.suspend


def test_its_gpus_are_given_away_when_its_pods_are_gone() -> None:
    decision = decide(stopping(mpijob=mpijob(suspended=True)))
    assert isinstance(decision, Wait)
    assert "2 of its pods" in decision.message
    written = status(StateWord.QUEUED, PREEMPTED, last_preemption=LAST)
    assert not waits_again(mpijob(suspended=True), (worker(0),))
    assert waits_again(mpijob(suspended=True), (worker(0, phase="Succeeded"),))
    assert not waits_again(mpijob(), ())
    assert is_preempted(written, mpijob(suspended=True))
    assert not is_preempted(written, mpijob(suspended=True, queue="gold"))


@pytest.mark.parametrize("pod", [worker(0), launcher()], ids=["a worker", "the launcher"])
def test_a_pod_that_cannot_end_on_a_lost_node_is_deleted_by_force_where_the_job_says_so(pod: PodView) -> None:
    job = job_spec(checkpoint={"claimName": "state"}, recovery={"forceDeleteAfterSeconds": 60})
    stuck = msgspec.structs.replace(pod, node="node-a", terminating=True, deletion="1970-01-12T13:40:00Z")
    given: dict[str, Any] = {"mpijob": mpijob(suspended=True), "pods": (stuck,), "unreachable_nodes": ("node-a",)}
    for look in (stopping(job=job, **given), running(job, migrating=True, **given)):
        decision = decide(look)
        assert isinstance(decision, DeletePods)
        assert (decision.pod_uids, decision.force) == ((pod.uid,), True)
        early = decide(changed(look, now=999_640.0))
        assert isinstance(early, Wait)


def test_then_it_asks_for_its_turn_with_as_many_workers_as_it_had() -> None:
    decision = decide(stopped())
    assert isinstance(decision, MakePlan)
    assert decision.workers_fixed == 2


def test_while_it_waits_the_status_says_so_and_the_old_plan_is_no_plan() -> None:
    look = stopped(admission=WAITS)
    decision = decide(look)
    after = derive(look, decision)
    assert (decision.reason, after.state, after.reason) == (Reason.PREEMPTED, StateWord.QUEUED, "Preempted")
    planned, preempted = of_type(after.conditions, "Planned"), of_type(after.conditions, PREEMPTED_CONDITION)
    assert planned is not None
    assert preempted is not None
    assert (planned.status, planned.reason) == ("False", "WaitingForAdmission")
    assert (preempted.reason, preempted.message) == ("PreemptedForOthers", preemption_message(LAST, "team/cora"))
    assert after.queue_decision == WAITS.decision
    assert of_type(after.conditions, "Suspended") is None
    again = changed(look, status=after)
    assert derive(again, decide(again)) == after, "an idle operator writes nothing"


def test_without_room_it_waits_as_well() -> None:
    look = stopped(refusal=Infeasible("InsufficientGPUs", "2 GPUs are wanted, 1 is free"))
    after = derive(look, decide(look))
    planned = of_type(after.conditions, "Planned")
    assert after.reason == "Preempted"
    assert planned is not None
    assert planned.reason == "InsufficientGPUs"


def test_with_a_new_plan_it_goes_on_like_a_job_that_moves() -> None:
    new = plan("node-c", "node-d", plan_id="fedcba9876543210")
    look = stopped(plan=new, plan_recorded=False, metrics=MEASURED, preempted=False, migrating=True)
    first = decide(look)
    assert isinstance(first, Wait)
    assert first.reason == Reason.MIGRATING
    written = derive(look, first)
    assert not is_preempted(written)
    assert of_type(written.conditions, "Migrating") is not None
    assert written.last_preemption == LAST
    resumes = decide(stopped(plan=new, preempted=False, migrating=True, status=written))
    assert isinstance(resumes, SetSuspend)
    assert not resumes.suspend


@pytest.mark.parametrize("look", [stopping(), stopped()], ids=["before", "after"])
def test_a_person_who_suspends_the_job_meanwhile_is_obeyed(look: ReconcileInput) -> None:
    job = job_spec(checkpoint={"claimName": "state"}, runPolicy={"suspend": True})
    theirs = changed(look, job=job)
    decision = decide(theirs)
    assert decision.reason == Reason.SUSPENDED
    assert not is_preempted(derive(theirs, decision))


def test_a_queue_that_takes_the_mpijob_over_decides_from_then_on() -> None:
    theirs = stopped(mpijob=mpijob(suspended=True, queue="gold"))
    decision = decide(theirs)
    assert decision.reason == Reason.QUEUED
    assert not is_preempted(derive(theirs, decision))


def test_a_run_that_ended_before_it_could_be_stopped_has_ended() -> None:
    ended = stopping(mpijob=mpijob(conditions={"Succeeded": (True, "Done", "")}))
    decision = decide(ended)
    assert decision.reason == Reason.SUCCEEDED
    assert not is_preempted(derive(ended, decision))


def test_a_proposal_is_a_condition_and_a_field_and_goes_with_the_job() -> None:
    look = running(preemption=PreemptionView(STOP))
    after = derive(look, decide(look))
    found = of_type(after.conditions, PROPOSED_CONDITION)
    assert after.proposed_preemption == STOP
    assert found is not None
    for words in ("team/short could start", "120 s shorter", "65 s"):
        assert words in found.message
    again = changed(look, status=after, preemption=None)
    assert derive(again, decide(again)) == after  # after a restart, before it is judged again
    gone = changed(look, status=after, preemption=PreemptionView())
    assert derive(gone, decide(gone)).proposed_preemption is None
    assert derive(changed(look, status=after, mpijob=mpijob(suspended=True)), Wait(Reason.SUSPENDED)).proposed_preemption is None


def test_only_what_matters_is_told_again() -> None:
    assert not material(STOP, msgspec.structs.replace(STOP, saved_seconds=61.0, cost_seconds=1.0))
    assert not material(STOP, msgspec.structs.replace(STOP, saved_seconds=239.0))
    assert material(STOP, msgspec.structs.replace(STOP, saved_seconds=59.0))
    assert material(STOP, msgspec.structs.replace(STOP, saved_seconds=241.0))
    assert material(STOP, msgspec.structs.replace(STOP, beneficiaries=("team/other",)))
    assert material(STOP, msgspec.structs.replace(STOP, blocker="x"))


def test_a_job_that_goes_on_elsewhere_at_once_is_told_so() -> None:
    advice = JobPreemption("team/cora", ("team/short", "team/cora"), 10.0, 5.0)
    message = proposed(shown_stop(advice, "2026-01-01T00:00:00Z", "the PlannerPolicy only advises"), "team/cora").message
    assert "team/short could start on its GPUs and it could continue at once on other GPUs" in message
    assert message.endswith("not done because the PlannerPolicy only advises")


def test_what_is_left_of_a_stopped_job_is_what_its_checkpoints_do_not_hold() -> None:
    job = job_spec(model={"architecture": "GCN", "epochs": 100})
    assert epochs_left(job, LAST) == 60
    assert epochs_left(job, msgspec.structs.replace(LAST, completed_epochs=99.9)) == 1
    assert epochs_left(job, msgspec.structs.replace(LAST, completed_epochs=500.0)) == 1
    earlier = LastMigration("2026-01-01T00:05:00Z", 1, 20.0)
    later = LastMigration("2026-01-01T00:20:00Z", 1, 70.0)
    assert epochs_kept(JobStatus()) == 0.0
    assert epochs_kept(JobStatus(last_migration=earlier, last_preemption=LAST)) == 40.0
    assert epochs_kept(JobStatus(last_migration=later, last_preemption=LAST)) == 70.0


def test_explain_says_why_it_stopped_and_what_it_waits_for() -> None:
    look = stopped(admission=WAITS)
    after = msgspec.structs.replace(derive(look, decide(look)), observed_generation=1)
    explanation = explain(ExplainedJob("cora", "team", 1, False, after, ()))
    text = " ".join(explanation.summary)
    assert "stopped so that all jobs together end sooner" in text
    assert "team/short could start on its GPUs" in text
    assert "team/short goes first" in text
    assert explanation.waits_for == "its turn in the queue"
    offered = msgspec.structs.replace(derive(running(preemption=PreemptionView(STOP)), Wait(Reason.RUNNING)), observed_generation=1)
    assert "120 s shorter" in " ".join(explain(ExplainedJob("cora", "team", 1, False, offered, ())).summary)
