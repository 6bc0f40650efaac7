"""Running jobs judged on a cluster whose links change: hold-down, advice, acts, and silence where nothing is new."""

from __future__ import annotations

import math
from typing import Any

import msgspec
import pytest

from hyperscale.control.cache.records import Key
from hyperscale.control.lifecycle.movable import ADVISES, is_moving
from hyperscale.model.api.measured import Measured
from hyperscale.model.plan import Plan
from hyperscale.model.running_query import RunningJob
from hyperscale.model.status import JobStatus, LastMigration
from tests.builders.seen import plan
from tests.corpus.watched_cluster import CORA, PLAN, SPEC, Cluster


async def test_nothing_is_said_where_nothing_changed() -> None:
    cluster = Cluster()
    await cluster.pass_time(300)
    assert len(cluster.planner.asked) > 3
    assert cluster.woken == []
    view = cluster.watch.view(CORA)
    assert view is not None
    assert (view.proposal, view.plan) == (None, None)


async def test_a_job_is_asked_about_no_more_often_than_the_policy_says() -> None:
    cluster = Cluster()
    for _ in range(40):
        cluster.now += 1.0
        cluster.read()
        await cluster.watch.check()
    assert len(cluster.planner.asked) == 3


async def test_a_slow_node_is_told_after_the_hold_down_and_not_again() -> None:
    cluster = Cluster()
    await cluster.pass_time(60, slow=["node-b"])
    assert cluster.woken == []
    await cluster.pass_time(60, slow=["node-b"])
    view = cluster.watch.view(CORA)
    assert view is not None
    assert view.proposal is not None
    assert view.plan is None
    assert (view.proposal.migrated_workers, view.proposal.workers, view.proposal.blocker) == (1, 2, ADVISES)
    assert view.proposal.worker_migrations[0].source_node in ("node-b", "node-a")
    assert view.proposal.saved_seconds > view.proposal.cost_seconds
    cluster.see_job(JobStatus(plan=PLAN, proposed_migration=view.proposal))
    woken = len(cluster.woken)
    await cluster.pass_time(120, slow=["node-b"])
    assert len(cluster.woken) == woken
    again = cluster.watch.view(CORA)
    assert again is not None
    assert again.proposal == view.proposal


async def test_a_gain_that_comes_and_goes_is_not_told() -> None:
    cluster = Cluster()
    for _ in range(6):
        await cluster.pass_time(40, slow=["node-b"])
        await cluster.pass_time(20)
    assert cluster.woken == []


async def test_a_told_move_is_taken_back_when_the_links_are_well_again() -> None:
    cluster = Cluster()
    await cluster.pass_time(120, slow=["node-b"])
    view = cluster.watch.view(CORA)
    assert view is not None
    cluster.see_job(JobStatus(plan=PLAN, proposed_migration=view.proposal))
    cluster.woken.clear()
    await cluster.pass_time(20)
    assert cluster.woken
    after = cluster.watch.view(CORA)
    assert after is not None
    assert after.proposal is None


async def test_after_a_restart_the_hold_down_goes_on_where_the_status_says() -> None:
    cluster = Cluster()
    await cluster.pass_time(120, slow=["node-b"])
    told = cluster.watch.view(CORA)
    assert told is not None
    cluster.see_job(JobStatus(plan=PLAN, proposed_migration=told.proposal))
    cluster.start()
    cluster.woken.clear()
    assert cluster.watch.view(CORA) is None
    await cluster.pass_time(30, slow=["node-b"])
    view = cluster.watch.view(CORA)
    assert view is not None
    assert view.proposal == told.proposal
    assert cluster.woken == []


async def test_act_offers_the_plan_once_and_takes_its_gpus() -> None:
    cluster = Cluster("Automatic")
    await cluster.pass_time(120, slow=["node-b"])
    view = cluster.watch.view(CORA)
    assert view is not None
    assert view.plan is not None
    assert cluster.woken[-1] == CORA
    policy = cluster.reader.policy_named("default", cluster.cache.policies)
    assert await cluster.planning.begin_move(CORA, view.plan, policy) is not None
    taken = cluster.watch.view(CORA)
    assert taken is not None
    assert taken.plan is None
    moved = {worker.node for worker in view.plan.workers} - {"node-a", "node-b"}
    snapshot = cluster.cache.snapshot(policy, cluster.now)
    others = cluster.cache.assumed_plans.free_gpus(snapshot, Key("team", "other"))
    assert moved
    assert all(others[name] == 0 for name in moved)
    cluster.cache.assume(CORA, None)
    assert cluster.cache.assumed_plans.free_gpus(snapshot, Key("team", "other")) == {}


@pytest.mark.parametrize(("checkpoint", "most_kept"), [({"claimName": "state", "everyEpochs": 1}, 99.0), (None, 0.0)])
async def test_a_silent_run_past_its_predicted_end_keeps_no_more_epochs_than_it_has(
    checkpoint: dict[str, Any] | None, most_kept: float
) -> None:
    cluster = Cluster("Automatic", model=SPEC["model"] | {"epochs": 100}, checkpoint=checkpoint)
    await cluster.pass_time(300, slow=["node-a"])
    view = cluster.watch.view(CORA)
    assert view is not None
    assert 0.0 <= view.epochs_done <= most_kept


async def test_a_move_that_does_not_fit_any_more_is_not_begun() -> None:
    cluster = Cluster("Automatic")
    await cluster.pass_time(120, slow=["node-b"])
    view = cluster.watch.view(CORA)
    assert view is not None
    assert view.plan is not None
    cluster.cache.assume(Key("team", "other"), plan("node-c", "node-d"))
    policy = cluster.reader.policy_named("default", cluster.cache.policies)
    assert await cluster.planning.begin_move(CORA, view.plan, policy) is None


async def test_act_without_a_checkpoint_only_tells_why_it_does_not() -> None:
    cluster = Cluster("Automatic", checkpoint=None)
    await cluster.pass_time(200, slow=["node-b"])
    view = cluster.watch.view(CORA)
    assert view is not None
    assert view.plan is None
    assert view.proposal is not None
    assert "checkpoint" in view.proposal.blocker


async def test_so_soon_after_a_move_nothing_is_proposed() -> None:
    cluster = Cluster()
    await cluster.pass_time(60)
    recent = LastMigration("2027-01-15T08:00:50Z", 1, 100.0)
    cluster.see_job(JobStatus(plan=PLAN, last_migration=recent))
    start = cluster.now
    while not cluster.woken and cluster.now < start + 300:
        await cluster.pass_time(10, slow=["node-b"])
    assert cluster.now - 1_800_000_050.0 >= 60.0


async def test_without_measurements_nothing_is_judged() -> None:
    cluster = Cluster()
    for _ in range(10):
        cluster.now += 10.0
        cluster.read(available=False)
        await cluster.watch.check()
    assert cluster.planner.asked == []


async def test_a_planner_that_fails_is_left_alone_for_a_while() -> None:
    cluster = Cluster()
    cluster.planner.fails = True
    await cluster.pass_time(60)
    assert 1 <= len(cluster.planner.asked) <= 2


async def test_a_policy_that_is_switched_off_takes_back_what_was_told() -> None:
    cluster = Cluster()
    await cluster.pass_time(120, slow=["node-b"])
    view = cluster.watch.view(CORA)
    assert view is not None
    cluster.see_job(JobStatus(plan=PLAN, proposed_migration=view.proposal))
    off = {"migration": {"mode": "Never"}}
    cluster.cache.see_policy({"metadata": {"name": "default", "uid": "p", "generation": 2}, "spec": off})
    cluster.woken.clear()
    await cluster.pass_time(20, slow=["node-b"])
    after = cluster.watch.view(CORA)
    assert cluster.woken == [CORA]
    assert after is not None
    assert after.proposal is None


async def test_progress_counts_slow_epochs_as_slow() -> None:
    cluster = Cluster()
    policy = cluster.reader.policy_named("default", cluster.cache.policies)
    await cluster.pass_time(30, slow=["node-b"])
    snapshot = cluster.cache.snapshot(policy, cluster.now)
    before = cluster.watch.running_job(CORA, policy, snapshot)
    cluster.now += 100.0
    after = cluster.watch.running_job(CORA, policy, snapshot)
    assert before is not None
    assert after is not None
    assert before.remaining_epochs - after.remaining_epochs < 100.0 / PLAN.predicted.epoch_seconds
    assert after.redone_epochs == pytest.approx(10.0)


async def test_a_run_that_reports_its_epochs_is_judged_by_them() -> None:
    cluster = Cluster()
    cluster.cache.progress[CORA] = Measured(epoch=40, epochs=100)
    await cluster.pass_time(30, slow=["node-b"])
    snapshot = cluster.cache.snapshot(cluster.reader.policy_named("default", cluster.cache.policies), cluster.now)
    job = cluster.watch.running_job(CORA, cluster.reader.policy_named("default", cluster.cache.policies), snapshot)
    assert cluster.planner.asked
    assert job is not None
    assert SPEC["model"]["epochs"] - 41 <= job.remaining_epochs <= SPEC["model"]["epochs"] - 40


def asked_job(cluster: Cluster) -> RunningJob:
    policy = cluster.reader.policy_named("default", cluster.cache.policies)
    job = cluster.watch.running_job(CORA, policy, cluster.cache.snapshot(policy, cluster.now))
    assert job is not None
    return job


LONG = 7200.0
"""Seconds of an epoch; the job has run for 3,600."""


def test_a_run_that_reports_no_finished_epoch_loses_the_running_one() -> None:
    cluster = Cluster()
    cluster.cache.progress[CORA] = Measured(epoch=0, epochs=100, epoch_seconds=LONG)
    first = asked_job(cluster)
    assert first.redone_epochs == pytest.approx(0.5)
    cluster.now += LONG / 4
    later = asked_job(cluster)
    assert later.redone_epochs == pytest.approx(0.75)
    assert later.remaining_epochs + later.redone_epochs == pytest.approx(SPEC["model"]["epochs"])
    cluster.now += 10 * LONG
    assert asked_job(cluster).redone_epochs == pytest.approx(1.0)


def test_the_running_epoch_counts_from_the_last_look_before_the_end_of_the_one_before() -> None:
    cluster = Cluster(checkpoint={"claimName": "state", "everyEpochs": 1000})
    cluster.cache.progress[CORA] = Measured(epoch=0, epochs=100, epoch_seconds=LONG)
    asked_job(cluster)
    cluster.now += 10.0
    cluster.cache.progress[CORA] = Measured(epoch=1, epochs=100, epoch_seconds=LONG)
    assert asked_job(cluster).redone_epochs == pytest.approx(1.0 + 10.0 / LONG)
    cluster.now += 20.0
    assert asked_job(cluster).redone_epochs == pytest.approx(1.0 + 30.0 / LONG)


def test_a_new_operator_counts_the_running_epoch_by_the_pace_since_the_start() -> None:
    cluster = Cluster(checkpoint={"claimName": "state", "everyEpochs": 1000})
    cluster.cache.progress[CORA] = Measured(epoch=3, epochs=100, epoch_seconds=1000.0)
    assert asked_job(cluster).redone_epochs == pytest.approx(3.6)
    cluster.start()
    cluster.cache.progress[CORA] = Measured(epoch=50, epochs=100, epoch_seconds=1000.0, resumed_epoch=49)
    assert asked_job(cluster).redone_epochs == pytest.approx(51.0)


@pytest.mark.parametrize("pace", [None, 0.0, -1.0, math.nan])
def test_a_pace_that_is_none_leaves_the_predicted_one(pace: float | None) -> None:
    cluster = Cluster()
    cluster.cache.progress[CORA] = Measured(epoch=0, epochs=100, epoch_seconds=pace)
    assert asked_job(cluster).redone_epochs == pytest.approx(1.0)  # an hour is more than the predicted epoch


async def test_judging_a_run_moves_none_of_what_it_reports() -> None:
    cluster = Cluster()
    cluster.cache.progress[CORA] = Measured(epoch=0, epochs=100, epoch_seconds=LONG)
    await cluster.pass_time(60)
    assert cluster.planner.asked
    assert asked_job(cluster).redone_epochs == pytest.approx((3600.0 + 60.0) / LONG)


def test_a_status_with_the_condition_counts_as_moving() -> None:
    wire = {"conditions": [{"type": "Migrating", "status": "True", "reason": "Migrating"}]}
    assert is_moving(msgspec.convert(wire, JobStatus))
    assert isinstance(PLAN, Plan)
