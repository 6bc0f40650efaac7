"""Who suspended an MPIJob decides who resumes it: the operator's own record says what it wrote last."""

from __future__ import annotations

from typing import Any

import pytest

from hyperscale.control.apply.actions import suspension
from hyperscale.control.decide.chain import decide
from hyperscale.control.lifecycle.movable import migration_blocker, resizable
from hyperscale.control.lifecycle.stoppable import is_preempted
from hyperscale.control.render.mpijob import render
from hyperscale.control.status.conditions import derive
from hyperscale.model import constants
from hyperscale.model.api.condition import Condition
from hyperscale.model.decision import FindWorkload, MakePlan, Reason, ReleaseWorkers, SetSuspend, Wait
from hyperscale.model.observed.owned_objects import MpiJobView
from hyperscale.model.observed.reconcile_input import ReconcileInput
from hyperscale.model.status import LastPreemption, StateWord
from hyperscale.observe.kube.owned_objects import mpijob_view
from tests.builders import placement
from tests.builders.seen import condition, job_spec, mpijob, plan, seen, status, worker

TWO = plan("node-a", "node-b")
LAST = LastPreemption("2026-01-01T00:10:00Z", ("team/short",), 40.0)
ASKED_TO = job_spec(runPolicy={"suspend": True})


def suspended(**changes: Any) -> ReconcileInput:
    """Another has suspended an MPIJob that the operator had not."""
    return seen(
        **{
            "mpijob": mpijob(suspended=True, suspend_intent=False, suspender="kubectl-edit"),
            "plan": TWO,
            "plan_recorded": True,
            "workload_read": True,
            **changes,
        }
    )


def test_an_mpijob_that_another_suspended_stays_suspended_and_the_condition_says_how_to_resume_it() -> None:
    look = suspended()
    decision = decide(look)
    assert isinstance(decision, Wait)
    assert decision.reason == Reason.SUSPENDED_EXTERNALLY
    told = derive(look, decision)
    (found,) = (each for each in told.conditions if each.type == "Suspended")
    assert (found.status, found.reason) == ("True", "SuspendedExternally")
    assert '"kubectl-edit"' in found.message
    assert "kubectl patch mpijob cora -n team" in found.message
    assert told.state is StateWord.QUEUED


@pytest.mark.parametrize(
    "begun",
    [
        {"migrating": True, "status": status(StateWord.STARTING, condition("Migrating"))},
        {"preempted": True, "preemption_recorded": True, "status": status(StateWord.QUEUED, condition("Preempted"), last_preemption=LAST)},
        {"job": ASKED_TO},
        {"mpijob": mpijob(suspended=True, suspend_intent=False, resizable=True)},
    ],
    ids=["a move", "a stop for others", "a suspension by the spec", "a resumption with other workers"],
)
def test_nothing_that_the_operator_had_begun_resumes_it(begun: dict[str, Any]) -> None:
    assert decide(suspended(**begun)).reason == Reason.SUSPENDED_EXTERNALLY


def test_a_move_ends_where_another_suspends_the_mpijob() -> None:
    look = suspended(migrating=True, status=status(StateWord.STARTING, condition("Migrating")))
    assert not [each for each in derive(look, decide(look)).conditions if each.type == "Migrating"]


def test_kueue_is_asked_for_the_workload_before_anything_is_said() -> None:
    assert isinstance(decide(suspended(workload_read=False)), FindWorkload)


def test_a_workload_of_kueue_is_named_and_how_to_choose_a_queue() -> None:
    decision = decide(suspended(workload="mpijob-cora-1a2b3"))
    assert decision.reason == Reason.QUEUED_BY_KUEUE
    assert '"mpijob-cora-1a2b3"' in decision.message
    assert f"kubectl label mpijob cora -n team {constants.KUEUE_QUEUE_LABEL}=" in decision.message


@pytest.mark.parametrize(("workload", "again"), [("", True), (None, False)], ids=["not yet", "no Kueue"])
def test_kueue_is_asked_again_only_where_it_can_be(workload: str | None, again: bool) -> None:
    decision = decide(suspended(workload=workload))
    assert isinstance(decision, Wait)
    assert (decision.retry_after_seconds is not None) is again


def test_once_another_resumed_it_the_ranks_are_planned_anew() -> None:
    look = seen(
        mpijob=mpijob(suspend_intent=False),
        plan=TWO,
        plan_recorded=True,
        pods=(worker(0, gated=True), worker(1, gated=True)),
        status=status(StateWord.QUEUED, condition("Suspended")),
    )
    decision = decide(look)
    assert isinstance(decision, MakePlan)
    assert decision.reason == Reason.RESUMED


def test_what_the_operator_suspended_it_resumes_as_the_spec_says() -> None:
    decision = decide(seen(mpijob=mpijob(suspended=True, suspend_intent=True), plan=TWO))
    assert isinstance(decision, SetSuspend)
    assert not decision.suspend


@pytest.mark.parametrize(("reason", "ours"), [("Suspended", True), ("Queued", False)])
def test_of_an_mpijob_without_a_record_the_status_says_who_suspended_it(reason: str, ours: bool) -> None:
    known = status(StateWord.QUEUED, Condition("Suspended", "True", reason))
    decision = decide(suspended(mpijob=mpijob(suspended=True, suspend_intent=None), status=known))
    assert isinstance(decision, SetSuspend) is ours


def test_a_person_who_resumes_against_the_spec_is_not_overruled_but_no_gate_opens() -> None:
    look = seen(
        ASKED_TO, mpijob=mpijob(suspend_intent=True), plan=TWO, plan_recorded=True, pods=(worker(0, gated=True), worker(1, gated=True))
    )
    decision = decide(look)
    assert isinstance(decision, Wait)
    assert decision.reason == Reason.RESUMED_EXTERNALLY
    (found,) = (each for each in derive(look, decision).conditions if each.type == "Suspended")
    assert (found.status, found.reason) == ("False", "ResumedExternally")


def test_a_person_who_resumes_as_the_spec_says_is_taken_note_of() -> None:
    decision = decide(seen(mpijob=mpijob(suspend_intent=True), plan=TWO, plan_recorded=True))
    assert isinstance(decision, SetSuspend)
    assert not decision.suspend


def test_a_stop_for_others_ends_where_another_resumes_the_mpijob() -> None:
    known = status(StateWord.QUEUED, condition("Preempted"), last_preemption=LAST)
    view = mpijob(suspend_intent=True)
    assert is_preempted(known, mpijob(suspended=True, suspend_intent=True))
    assert not is_preempted(known, view)
    look = seen(mpijob=view, plan=TWO, plan_recorded=True, status=known, pods=(worker(0, gated=True), worker(1, gated=True)))
    assert isinstance(decide(look), MakePlan)


def moved(**changes: Any) -> ReconcileInput:
    """Rank 1 was to move to node-c when another resumed the MPIJob."""
    return seen(
        **{
            "mpijob": mpijob(suspend_intent=True),
            "plan": plan("node-a", "node-c"),
            "plan_recorded": True,
            "migrating": True,
            "status": status(StateWord.STARTING, condition("Migrating")),
            "pods": (worker(0, node="node-a"), worker(1, node="node-b")),
            **changes,
        }
    )


def test_workers_that_still_run_stay_where_another_resumes_a_moving_job() -> None:
    decision = decide(moved())
    assert isinstance(decision, MakePlan)
    assert (decision.pinned, decision.workers_fixed) == ({0: "node-a", 1: "node-b"}, 2)
    assert isinstance(decide(moved(pods=(worker(0, node="node-a"), worker(1, node="node-b", terminating=True)))), Wait)


def test_a_move_that_another_resumed_with_new_pods_goes_on_to_the_planned_nodes() -> None:
    look = moved(pods=(worker(0, gated=True), worker(1, gated=True)))
    decision = decide(look)
    assert isinstance(decision, SetSuspend)
    assert not decision.suspend
    decision = decide(moved(pods=look.gang.pods, mpijob=mpijob(suspend_intent=False)))
    assert isinstance(decision, ReleaseWorkers)
    assert decision.nodes == {"worker-0": "node-a", "worker-1": "node-c"}


ADMITTED = mpijob(workload="mpijob-cora-1a2b3", suspend_intent=False, resizable=True, conditions={"Running": (True, "", "")})


def test_an_mpijob_that_kueue_admitted_without_a_queue_label_belongs_to_kueue() -> None:
    assert "mpijob-cora-1a2b3" in migration_blocker(job_spec(checkpoint={"claimName": "state"}), ADMITTED, 0)
    assert not resizable(job_spec(), ADMITTED)
    decision = decide(seen(ASKED_TO, mpijob=ADMITTED, plan=TWO, plan_recorded=True))
    assert not isinstance(decision, SetSuspend)


@pytest.mark.parametrize("suspend", [True, False])
def test_the_operator_records_what_it_writes_in_the_same_request_and_overwrites_nobody(suspend: bool) -> None:
    view = mpijob(resource_version="41")
    body = suspension(view, seen(mpijob=view, plan=TWO), SetSuspend(Reason.SUSPENDED, suspend=suspend))
    assert body["spec"] == {"runPolicy": {"suspend": suspend}}
    assert body["metadata"]["annotations"] == {constants.SUSPEND_ANNOTATION: str(suspend).lower()}
    assert body["metadata"]["resourceVersion"] == "41"


@pytest.mark.parametrize("suspend", [True, False])
def test_what_was_created_can_be_read_back(suspend: bool) -> None:
    made = render(placement.metadata(), placement.job(runPolicy={"suspend": suspend}), TWO, placement.DEFAULTS)
    view = mpijob_view(made)
    assert (view.suspended, view.suspend_intent) == (suspend, suspend)


def managed(manager: str) -> MpiJobView:
    """An MPIJob whose `suspend` that manager changed last."""
    entries = [
        {"manager": "mpi-operator", "fieldsV1": {"f:status": {}}},
        {"manager": manager, "fieldsV1": {"f:spec": {"f:runPolicy": {"f:suspend": {}}}}},
    ]
    return mpijob_view({"metadata": {"managedFields": entries}})


def test_who_changed_suspend_last_is_known_by_its_field_manager() -> None:
    assert managed("kueue").suspender == "kueue"
    assert managed(constants.FIELD_MANAGER).suspender == ""
