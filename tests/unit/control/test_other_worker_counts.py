"""Jobs that go on with another number of workers than they had: after a suspension, and where lost ranks find no room."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from hyperscale.control.decide.chain import decide
from hyperscale.control.lifecycle.movable import MIGRATING_CONDITION, arrived
from hyperscale.control.scheduler.queue_entry import read_entry
from hyperscale.control.status.conditions import derive
from hyperscale.model.decision import MakePlan, Reason, SetSuspend, Stop, Wait
from hyperscale.model.observed.reconcile_input import ReconcileInput
from hyperscale.model.plan import Infeasible, Plan
from hyperscale.model.status import LastPreemption, StateWord
from hyperscale.util.rfc3339 import timestamp, unix_seconds
from tests.builders.seen import GONE, MEASURED, changed, condition, job_spec, mpijob, plan, seen, status, worker
from tests.corpus.queue_stage import POLICY, Stage, gpu_node

THREE, TWO = plan("node-a", "node-b", "node-c"), plan("node-a", "node-c", plan_id="fedcba9876543210")
NO_ROOM = Infeasible(reason="InsufficientGPUs", message="needs 3 GPUs, 2 are free. Wait until GPUs are free.")
AFTER_SECONDS = 60
PLACED_LOST_AT = unix_seconds("2026-01-01T00:00:00Z")
"""Transition time of the builders' conditions."""
JOB = job_spec(checkpoint={"claimName": "state"}, recovery={"shrinkAfterSeconds": AFTER_SECONDS})
RUNS = {"Running": (True, "MPIJobRunning", "")}


def suspended(job: Any = JOB, **changes: Any) -> ReconcileInput:
    """Three workers were suspended, their pods are gone, and the person wants it to go on."""
    of = mpijob(workers=3, suspended=True, resizable=True)
    look = seen(job, mpijob=of, plan=THREE, plan_recorded=True, status=status(StateWord.QUEUED, condition("Suspended")))
    return changed(look, **changes)


def lost(job: Any = JOB, waited_seconds: float = AFTER_SECONDS, **changes: Any) -> ReconcileInput:
    """One of three ranks was lost with its node; its new pod is gated, the others run."""
    pods = (worker(0, node="node-a", ready=True), worker(1, gated=True), worker(2, node="node-c", ready=True))
    look = seen(
        job,
        mpijob=mpijob(workers=3, resizable=True, conditions=RUNS),
        plan=THREE,
        plan_recorded=True,
        pods=pods,
        misfits=(GONE,),
        status=status(StateWord.RUNNING, condition("Placed", "False")),
        now=PLACED_LOST_AT + waited_seconds,
    )
    return changed(look, **changes)


def shrinking(**changes: Any) -> ReconcileInput:
    """A plan with two workers is in force; the pods are still the old ones."""
    written = status(StateWord.RUNNING, condition(MIGRATING_CONDITION))
    return lost(**{"plan": TWO, "migrating": True, "misfits": (), "status": written, **changes})


def test_a_job_with_a_range_is_planned_anew_with_any_count_before_it_is_resumed() -> None:
    decision = decide(suspended())
    assert isinstance(decision, MakePlan)
    assert decision.workers_fixed is None
    assert not decision.counts_as_replan


def test_its_last_pods_are_waited_for() -> None:
    decision = decide(suspended(pods=(worker(2, node="node-c", terminating=True),)))
    assert isinstance(decision, Wait)
    assert decision.message == "1 of its pods are still ending"


def test_without_room_it_stays_suspended_and_asks_again() -> None:
    look = suspended(refusal=NO_ROOM)
    decision = decide(look)
    assert isinstance(decision, Wait)
    assert (decision.reason, bool(decision.retry_after_seconds)) == ("InsufficientGPUs", True)
    assert derive(look, decision).state == StateWord.QUEUED


def test_the_new_plan_is_written_down_before_the_mpijob_is_resumed_on_it() -> None:
    made = suspended(plan=TWO, plan_recorded=False, migrating=True, metrics=MEASURED)
    decision = decide(made)
    assert isinstance(decision, Wait)
    assert any(found.type == MIGRATING_CONDITION for found in derive(made, decision).conditions)
    again = decide(suspended(plan=TWO, migrating=True))
    assert isinstance(again, SetSuspend)
    assert not again.suspend


@pytest.mark.parametrize(
    ("job", "view"),
    [
        (JOB, {"resizable": False}),
        (job_spec(startPolicy="Manual", checkpoint={"claimName": "state"}), {}),
    ],
    ids=["the launcher does not go by the plan", "a person approved so many workers"],
)
def test_others_are_resumed_as_they_are_and_planned_when_their_pods_are_there(job: Any, view: dict[str, Any]) -> None:
    of = mpijob(**{"workers": 3, "suspended": True, "resizable": True, **view})
    decision = decide(suspended(job, mpijob=of))
    assert isinstance(decision, SetSuspend)
    assert not decision.suspend


def test_a_plan_of_another_size_than_the_mpijob_that_was_resumed_nevertheless_is_made_anew_with_its_size() -> None:
    pods = tuple(worker(rank, gated=True) for rank in range(3))
    decision = decide(lost(plan=TWO, pods=pods, misfits=(), status=status(StateWord.STARTING)))
    assert isinstance(decision, MakePlan)
    assert decision.workers_fixed == 3


def test_an_mpijob_of_a_queue_keeps_its_count() -> None:
    decision = decide(suspended(mpijob=mpijob(workers=3, suspended=True, resizable=True, queue="gpu")))
    assert isinstance(decision, Wait)
    assert decision.reason == Reason.QUEUED


@pytest.mark.parametrize(("resizable", "fixed"), [(True, None), (False, 3)])
def test_a_job_that_was_stopped_for_others_goes_on_with_any_count_where_it_may(resizable: bool, fixed: int | None) -> None:
    stop = LastPreemption("2026-01-01T00:10:00Z", ("team/short",), 40.0)
    of = mpijob(workers=3, suspended=True, resizable=resizable)
    look = suspended(
        mpijob=of, preempted=True, preemption_recorded=True, status=status(StateWord.QUEUED, condition("Preempted"), last_preemption=stop)
    )
    decision = decide(look)
    assert isinstance(decision, MakePlan)
    assert decision.workers_fixed == fixed


def test_a_lost_rank_without_room_waits_at_first_and_says_until_when() -> None:
    decision = decide(lost(waited_seconds=50, refusal=NO_ROOM))
    assert isinstance(decision, Wait)
    assert decision.retry_after_seconds == 10
    when = timestamp(PLACED_LOST_AT + AFTER_SECONDS)
    assert decision.message == f"needs 3 GPUs, 2 are free. Wait until GPUs are free; from {when} on it may go on with fewer workers"
    asked = decide(lost(waited_seconds=50))
    assert isinstance(asked, MakePlan)
    assert (asked.workers_fixed, asked.may_shrink) == (3, False)


def test_after_that_it_may_go_on_with_fewer() -> None:
    asked = decide(lost())
    assert isinstance(asked, MakePlan)
    assert (asked.workers_fixed, asked.pinned, asked.may_shrink) == (3, {0: "node-a", 2: "node-c"}, True)
    refused = decide(lost(refusal=NO_ROOM))
    assert isinstance(refused, Wait)
    assert refused.message == NO_ROOM.message


@pytest.mark.parametrize(
    "look",
    [
        lost(job_spec(checkpoint={"claimName": "state"})),
        lost(job_spec(recovery={"shrinkAfterSeconds": AFTER_SECONDS})),
        lost(msgspec.structs.replace(JOB, start_policy=job_spec(startPolicy="Manual").start_policy)),
        lost(msgspec.structs.replace(JOB, placement=job_spec(placement={"mode": "Preferred"}).placement)),
        lost(msgspec.structs.replace(JOB, workers=job_spec(workers={"minReplicas": 3, "maxReplicas": 4}).workers)),
        lost(mpijob=mpijob(workers=3, conditions=RUNS)),
        lost(mpijob=mpijob(workers=3, conditions=RUNS, resizable=True, queue="gpu")),
    ],
    ids=["not asked for", "no checkpoint", "manual", "not Strict", "has its fewest", "launcher goes by its variables", "queue"],
)
def test_who_must_not_go_on_with_fewer_does_not(look: ReconcileInput) -> None:
    asked = decide(look)
    assert isinstance(asked, MakePlan)
    assert not asked.may_shrink


def test_when_replans_are_used_up_it_waits_for_a_person() -> None:
    decision = decide(lost(status=status(StateWord.RUNNING, condition("Placed", "False"), plan_changes=3)))
    assert isinstance(decision, Stop)
    assert decision.reason == Reason.PLAN_CHANGES_EXHAUSTED


def test_the_pods_that_are_left_stop_once_the_smaller_plan_is_written_down_although_none_of_them_changes_its_node() -> None:
    assert isinstance(decide(shrinking(plan_recorded=False)), Wait)
    decision = decide(shrinking(pods=(worker(0, node="node-a"), worker(1, node="node-c"))))
    assert isinstance(decision, SetSuspend)
    assert decision.suspend
    assert decision.message == "stops because it continues with 2 workers instead of 3"


def test_it_is_moving_until_the_smaller_mpijob_is_where_it_was_planned() -> None:
    there = (worker(0, node="node-a"), worker(1, node="node-c"))
    assert not arrived(shrinking(pods=there))
    assert arrived(shrinking(pods=there, mpijob=mpijob(workers=2, conditions=RUNS)))


def test_a_person_who_suspends_it_meanwhile_is_obeyed() -> None:
    decision = decide(shrinking(job=msgspec.structs.replace(JOB, run_policy=job_spec(runPolicy={"suspend": True}).run_policy)))
    assert isinstance(decision, SetSuspend)
    assert (decision.suspend, decision.reason) == (True, Reason.SUSPENDED)


async def test_a_smaller_plan_is_made_on_the_cluster_without_the_pods_that_are_left() -> None:
    stage = Stage(nodes=3, gpus=2)
    key = stage.add("cora", workers={"minReplicas": 1, "maxReplicas": 3, "resources": {"limits": {"nvidia.com/gpu": 2}}})
    stage.start(key, plan("node-0", "node-1", "node-2"))
    for rank, node in ((0, "node-0"), (2, "node-2")):
        stage.cache.see_pod(_running_pod(rank, node))
    stage.cache.see_node({**gpu_node("node-1", 2), "spec": {"unschedulable": True}})
    left = (worker(0, node="node-0", gpus=2), worker(2, node="node-2", gpus=2))
    look = changed(stage.seen(key), mpijob=mpijob(workers=3, resizable=True), plan=THREE, pods=left)
    step = MakePlan(Reason.PLAN_STALE, workers_fixed=3, pinned={0: "node-0", 2: "node-2"}, excluded_nodes=("node-1",))
    assert isinstance((await stage.planning.make(key, look, step, POLICY)).outcome, Infeasible)
    found = (await stage.planning.make(key, look, msgspec.structs.replace(step, may_shrink=True), POLICY)).outcome
    assert isinstance(found, Plan)
    assert len(found.workers) in (1, 2)
    assert {placed.node for placed in found.workers} <= {"node-0", "node-2"}


async def test_where_fewer_workers_find_no_room_either_it_says_so() -> None:
    stage = Stage(nodes=1, gpus=2)
    key = stage.add("cora", workers={"minReplicas": 2, "maxReplicas": 3, "resources": {"limits": {"nvidia.com/gpu": 2}}})
    look = changed(stage.seen(key), mpijob=mpijob(workers=3, resizable=True), plan=THREE)
    step = MakePlan(Reason.PLAN_STALE, workers_fixed=3, may_shrink=True)
    found = (await stage.planning.make(key, look, step, POLICY)).outcome
    assert isinstance(found, Infeasible)
    assert found.message.endswith("; fewer workers find no room either")
    assert ".;" not in found.message


@pytest.mark.parametrize(("resizable", "counts"), [(True, (1, 3)), (False, (2, 2))])
def test_the_queue_decides_on_the_count_of_a_stopped_job_where_it_may_change(resizable: bool, counts: tuple[int, int]) -> None:
    stage = Stage()
    key = stage.add("cora", workers={"minReplicas": 1, "maxReplicas": 3})
    record = stage.cache.jobs[key]
    stop = LastPreemption("2026-01-01T00:10:00Z", ("team/short",), 4.0)
    record = replace(record, status=status(StateWord.QUEUED, condition("Preempted"), last_preemption=stop))
    job, _ = stage.reader.read(record.resource, {})
    entry = read_entry(key, record, job, POLICY, (), mpijob(workers=2, suspended=True, resizable=resizable))
    assert entry is not None
    asked = entry.request.job.workers
    assert (asked.min_replicas, asked.max_replicas) == counts
    assert entry.request.job.model.epochs == 6


def _running_pod(rank: int, node: str) -> dict[str, Any]:
    labels = {"job-name": "cora", "job-role": "worker", "replica-index": str(rank)}
    return {
        "metadata": {
            "namespace": "team",
            "name": f"cora-worker-{rank}",
            "uid": f"worker-{rank}",
            "labels": {f"training.kubeflow.org/{name}": value for name, value in labels.items()},
            "ownerReferences": [{"uid": "mpi-cora", "kind": "MPIJob", "controller": True}],
        },
        "spec": {"nodeName": node, "containers": [{"resources": {"limits": {"nvidia.com/gpu": "2"}}}]},
        "status": {"phase": "Running"},
    }
