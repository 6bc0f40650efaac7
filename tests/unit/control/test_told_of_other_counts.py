"""What is reported of a job that continues with another number of workers. Figures of the run before are not those of the run to come."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from hyperscale.control.apply.actions import suspension
from hyperscale.control.decide.chain import decide
from hyperscale.control.lifecycle.movable import MIGRATING_CONDITION
from hyperscale.control.lifecycle.stoppable import epochs_safe
from hyperscale.control.scheduler.running_jobs import Running
from hyperscale.control.status.conditions import derive
from hyperscale.model import constants
from hyperscale.model.api.measured import Measured, PairBytes, PhaseSeconds
from hyperscale.model.decision import Reason, SetSuspend
from hyperscale.model.observed.reconcile_input import MigrationView, ReconcileInput
from hyperscale.model.status import LastMigration, StateWord
from hyperscale.util.rfc3339 import unix_seconds
from tests.builders.seen import changed, condition, job_spec, mpijob, plan, seen, status, worker
from tests.corpus.queue_stage import Stage

TWO = plan("node-a", "node-c", plan_id="fedcba9876543210")
EVERY = 20
JOB = job_spec(checkpoint={"claimName": "state", "everyEpochs": EVERY}, recovery={"shrinkAfterSeconds": 60})
HOW_FAR = Measured(epoch=45, epochs=200, loss=0.57, accuracy=0.81, generated=True)
SAID = msgspec.structs.replace(
    HOW_FAR,
    epoch_seconds=0.067,
    compute_seconds=0.05,
    communication_seconds=0.017,
    samples_per_second=2081.0,
    peer_bytes=9e4,
    phases=(PhaseSeconds("forward", 0.02),),
    busiest_pairs=(PairBytes(2, 0, 3e4),),
)
"""By three workers."""


def shrinking(**changes: Any) -> ReconcileInput:
    """A plan with two workers is in force; the MPIJob has three."""
    look = seen(
        JOB,
        mpijob=mpijob(workers=3, resizable=True, conditions={"Running": (True, "MPIJobRunning", "")}),
        plan=TWO,
        plan_recorded=True,
        migrating=True,
        pods=(worker(0, node="node-a"), worker(2, node="node-c")),
        status=status(StateWord.RUNNING, condition(MIGRATING_CONDITION), measured=SAID),
    )
    return changed(look, **changes)


@pytest.mark.parametrize("said", [None, SAID], ids=["as told before", "told just now"])
def test_how_far_the_run_is_stays_in_the_status_and_the_pace_of_as_many_workers_as_it_had_goes(said: Measured | None) -> None:
    look = shrinking(measured=said)
    assert derive(look, decide(look)).measured == HOW_FAR


def test_the_pace_stays_where_the_number_of_workers_does() -> None:
    look = shrinking(mpijob=mpijob(workers=2, resizable=True))
    assert derive(look, decide(look)).measured == SAID


@pytest.mark.parametrize(("workers", "told"), [(2, HOW_FAR), (3, SAID)])
def test_it_does_not_come_back_once_the_mpijob_has_the_other_number(workers: int, told: Measured) -> None:
    stage = Stage()
    key = stage.add("cora")
    stage.start(key, plan("node-0", "node-1", "node-2"))
    stage.cache.progress[key] = SAID
    stage.start(key, plan(*(f"node-{number}" for number in range(workers))))
    assert stage.cache.progress[key] == told


def test_what_is_left_of_a_run_that_has_not_told_its_pace_is_its_epochs_at_the_predicted_one() -> None:
    stage = Stage()
    key = stage.add("cora", epochs=200)
    stage.start(key, plan("node-0", "node-1"))
    stage.cache.progress[key] = HOW_FAR
    (share,) = Running(stage.cache, stage.reader, lambda: stage.now).shares()
    assert share.remaining_seconds == pytest.approx(155 * 1.0)


@pytest.mark.parametrize(
    ("changes", "safe"),
    [
        ({}, 40.0),
        ({"measured": msgspec.structs.replace(SAID, epoch=60)}, 60.0),
        ({"migration": MigrationView(epochs_done=43.5)}, 43.5),
        ({"status": status(StateWord.RUNNING, last_migration=LastMigration("2026-01-01T00:10:00Z", 1, 20.0))}, 20.0),
        ({"job": job_spec()}, 0.0),
    ],
    ids=["the status tells", "the run tells", "judged later", "nobody tells", "no checkpoint"],
)
def test_what_its_checkpoints_hold_is_by_its_own_words(changes: dict[str, Any], safe: float) -> None:
    look = shrinking(**changes)
    assert (
        epochs_safe(
            look.job.parsed,
            look.gang.measured,
            look.job.status,
            look.restart.migration.epochs_done if look.restart.migration is not None else 0.0,
        )
        == safe
    )


def test_it_is_starting_not_queued_while_a_pod_on_a_lost_node_keeps_it_from_going_on() -> None:
    job = msgspec.structs.replace(JOB, recovery=msgspec.structs.replace(JOB.recovery, force_delete_after_seconds=60))
    stuck = worker(1, node="node-b", terminating=True, deletion="1970-01-12T13:40:00Z")
    stopped = mpijob(workers=3, resizable=True, suspended=True)
    look = shrinking(job=job, mpijob=stopped, pods=(stuck,), unreachable_nodes=("node-b",))
    decision = decide(look)
    assert decision.reason == Reason.NODE_LOST
    assert derive(look, decision).state == StateWord.STARTING


def test_the_mpijob_is_labelled_with_the_plan_that_it_is_resumed_on() -> None:
    stopped = mpijob(workers=3, resizable=True, suspended=True)
    look = shrinking(mpijob=stopped, pods=())
    body = suspension(stopped, look, SetSuspend(Reason.MIGRATING, suspend=False))
    assert body["metadata"]["labels"] == {constants.PLAN_ID_LABEL: TWO.plan_id}
    assert body["spec"] == {"runPolicy": {"suspend": False}, "mpiReplicaSpecs": {"Worker": {"replicas": 2}}}


def test_a_person_who_suspends_a_job_changes_neither_its_plan_nor_its_number_of_workers() -> None:
    look = shrinking(migrating=False, now=unix_seconds("2026-01-01T00:00:00Z"))
    body = suspension(mpijob(), look, SetSuspend(Reason.SUSPENDED, suspend=True))
    assert body == {
        "metadata": {"uid": "mpijob-uid", "annotations": {constants.SUSPEND_ANNOTATION: "true"}},
        "spec": {"runPolicy": {"suspend": True}},
    }
