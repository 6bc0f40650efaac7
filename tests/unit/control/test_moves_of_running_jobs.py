"""A move of a running job, decision by decision, and what the status says meanwhile."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from hyperscale.control.decide.chain import decide
from hyperscale.control.lifecycle.movable import (
    MIGRATING_CONDITION,
    PROPOSED_CONDITION,
    held_gpus,
    is_moving,
    material,
    migration_blocker,
    proposed,
)
from hyperscale.control.status.conditions import derive
from hyperscale.model.api.condition import Condition
from hyperscale.model.api.job import JobSpec
from hyperscale.model.decision import BeginMigration, Reason, ReleaseWorkers, SetSuspend, Wait
from hyperscale.model.observed.reconcile_input import MigrationView, ReconcileInput
from hyperscale.model.status import ProposedMigration, StateWord, WorkerMigration
from tests.builders.seen import changed, condition, job_spec, mpijob, plan, seen, status, worker

OLD = plan("node-a", "node-b")
NEW = plan("node-a", "node-c", plan_id="fedcba9876543210")
RUNS = {"Running": (True, "MPIJobRunning", "")}
JOB = job_spec(checkpoint={"claimName": "state"})
MOVE = ProposedMigration(12.0, 8.0, 1, 2, 900.0, 3600.0, 65.0, "2026-01-01T00:00:00Z", (WorkerMigration(1, "node-b", "node-c"),))
MOVING = condition(MIGRATING_CONDITION)


def running(job: JobSpec = JOB, **changes: Any) -> ReconcileInput:
    """Both ranks run where the old plan says."""
    pods = (worker(0, node="node-a", ready=True), worker(1, node="node-b", ready=True))
    base = seen(job, mpijob=mpijob(conditions=RUNS), plan=OLD, plan_recorded=True, pods=pods)
    return changed(base, **changes)


def moving(**changes: Any) -> ReconcileInput:
    """The new plan is in force; the pods are still the old ones."""
    return running(**{"plan": NEW, "migrating": True, "status": status(StateWord.RUNNING, MOVING), **changes})


def of_type(conditions: tuple[Condition, ...], kind: str) -> Condition | None:
    return next((found for found in conditions if found.type == kind), None)


def test_a_move_that_is_only_proposed_changes_nothing() -> None:
    decision = decide(running(migration=MigrationView(MOVE)))
    assert isinstance(decision, Wait)
    assert decision.reason == Reason.RUNNING


def test_a_move_that_is_due_puts_the_new_plan_in_force() -> None:
    decision = decide(running(migration=MigrationView(MOVE, NEW)))
    assert isinstance(decision, BeginMigration)
    assert decision.plan == NEW


@pytest.mark.parametrize(
    ("look", "words"),
    [
        (running(job_spec()), "checkpoint"),
        (running(mpijob=mpijob(conditions=RUNS, queue="gold")), "gold"),
        (running(job_spec(checkpoint={"claimName": "state"}, placement={"mode": "Preferred"})), "Strict"),
        (running(job_spec(checkpoint={"claimName": "state"}, startPolicy="Manual")), "Manual"),
        (running(status=status(StateWord.RUNNING, plan_changes=3)), "maxPlanChanges"),
    ],
)
def test_a_job_that_must_not_be_stopped_is_not(look: ReconcileInput, words: str) -> None:
    assert look.job.parsed is not None
    assert look.gang.mpijob is not None
    assert words in migration_blocker(look.job.parsed, look.gang.mpijob, look.job.status.plan_changes)
    assert not isinstance(decide(changed(look, migration=MigrationView(MOVE, NEW))), BeginMigration)


def test_nothing_is_stopped_before_the_new_plan_is_written_down() -> None:
    decision = decide(moving(plan_recorded=False))
    assert isinstance(decision, Wait)
    assert (decision.reason, decision.retry_after_seconds) == (Reason.MIGRATING, 0.0)


def test_the_pods_stop_once_the_new_plan_is_written_down() -> None:
    decision = decide(moving())
    assert isinstance(decision, SetSuspend)
    assert decision.suspend


def test_the_old_pods_are_waited_for() -> None:
    decision = decide(moving(mpijob=mpijob(suspended=True)))
    assert isinstance(decision, Wait)
    assert decision.reason == Reason.MIGRATING
    assert "2 pods" in decision.message


def test_it_starts_again_when_they_are_gone() -> None:
    decision = decide(moving(mpijob=mpijob(suspended=True), pods=()))
    assert isinstance(decision, SetSuspend)
    assert not decision.suspend


def test_the_new_pods_go_where_the_new_plan_says_without_another_plan() -> None:
    decision = decide(moving(mpijob=mpijob(), pods=(worker(0, gated=True), worker(1, gated=True))))
    assert isinstance(decision, ReleaseWorkers)
    assert decision.nodes == {"worker-0": "node-a", "worker-1": "node-c"}


def test_a_person_who_suspends_the_job_meanwhile_is_obeyed() -> None:
    job = job_spec(checkpoint={"claimName": "state"}, runPolicy={"suspend": True})
    decision = decide(moving(job=job))
    assert isinstance(decision, SetSuspend)
    assert (decision.suspend, decision.reason) == (True, Reason.SUSPENDED)
    after = decide(moving(job=job, mpijob=mpijob(suspended=True)))
    assert after.reason == Reason.SUSPENDED
    assert of_type(derive(moving(job=job), after).conditions, MIGRATING_CONDITION) is None


def test_the_status_says_moving_from_the_first_write_until_every_rank_is_there() -> None:
    first = moving(plan_recorded=False, status=status(StateWord.RUNNING))
    written = derive(first, decide(first))
    assert is_moving(written)
    assert written.plan is not None
    assert written.plan.plan_id == NEW.plan_id
    stopped = moving(mpijob=mpijob(suspended=True))
    assert derive(stopped, decide(stopped)).state is StateWord.STARTING
    arriving = moving(mpijob=mpijob(), pods=(worker(0, node="node-a"), worker(1, gated=True)))
    assert is_moving(derive(arriving, Wait(Reason.STARTING)))
    there = moving(mpijob=mpijob(conditions=RUNS), pods=(worker(0, node="node-a"), worker(1, node="node-c")))
    assert not is_moving(derive(there, Wait(Reason.RUNNING)))


def test_a_proposal_is_a_condition_and_a_field_and_goes_with_the_job() -> None:
    look = running(migration=MigrationView(MOVE))
    told = derive(look, decide(look))
    found = of_type(told.conditions, PROPOSED_CONDITION)
    assert told.proposed_migration == MOVE
    assert found is not None
    assert (found.status, found.reason) == ("True", "BetterPlacementFound")
    for figure in ("12 s", "8 s", "1 of 2", "1: node-b → node-c", "900 epochs", "3600 s", "65 s"):
        assert figure in found.message
    again = changed(look, status=told, migration=None)
    assert derive(again, decide(again)) == told  # after a restart, before it is judged again
    gone = changed(look, status=told, migration=MigrationView())
    assert derive(gone, decide(gone)).proposed_migration is None
    ended = changed(look, status=told, mpijob=mpijob(conditions={"Succeeded": (True, "Done", "")}))
    assert of_type(derive(ended, decide(ended)).conditions, PROPOSED_CONDITION) is None


def test_why_the_operator_does_not_do_it_is_part_of_the_message() -> None:
    blocked = msgspec.structs.replace(MOVE, blocker="the PlannerPolicy only advises")
    assert proposed(blocked).message.endswith("not done because the PlannerPolicy only advises")


def test_only_what_differs_by_a_tenth_is_told_again() -> None:
    fresh = msgspec.structs.replace(MOVE, current_epoch_seconds=12.9, saved_seconds=100.0, remaining_epochs=20.0)
    assert not material(MOVE, fresh)
    assert material(MOVE, msgspec.structs.replace(MOVE, current_epoch_seconds=13.5))
    assert material(MOVE, msgspec.structs.replace(MOVE, migrated_workers=2))
    assert material(MOVE, msgspec.structs.replace(MOVE, blocker="x"))


def test_a_rank_that_moves_holds_its_new_node_while_the_old_pod_is_there() -> None:
    pods = (worker(0, node="node-a"), worker(1, node="node-b"))
    assert held_gpus(NEW, pods, moving=True) == {"node-c": 1}
    assert held_gpus(NEW, pods, moving=False) == {}
    assert held_gpus(NEW, (), moving=True) == {"node-a": 1, "node-c": 1}
