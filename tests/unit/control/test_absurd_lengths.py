"""A job of absurd length moves what the queue knows of lengths little until it has run, and counts once."""

from __future__ import annotations

import msgspec
import pytest

from hyperscale.control.cache.records import Key
from hyperscale.control.scheduler.planner_client import Planning
from hyperscale.model.plan import Plan
from hyperscale.util.rfc3339 import timestamp
from tests.corpus.queue_stage import CREATED, Stage

ABSURD_EPOCHS = 1_000_000
FULL = 4
"""Jobs that fill the cluster of the stage."""
RUNS = {"Running": True}


async def full(stage: Stage) -> None:
    """A full cluster, and a queue that knows of its jobs."""
    keys = [stage.add(f"job-{number}", created=CREATED + number) for number in range(FULL)]
    stage.now = CREATED + 10.0
    assert len(await stage.run(*keys)) == FULL


async def begun(stage: Stage, name: str = "absurd") -> tuple[Key, Plan]:
    """A job of absurd length that has got its plan."""
    key = stage.add(name, epochs=ABSURD_EPOCHS, created=CREATED + 20.0)
    stage.now = CREATED + 30.0
    plan = (await stage.ask(key)).outcome
    assert isinstance(plan, Plan)
    return key, plan


@pytest.mark.parametrize("count", [1, 5, 20])
async def test_jobs_that_wait_hardly_move_the_mean_run(count: int) -> None:
    stage = Stage(nodes=4, gpus=2)
    await full(stage)
    before = stage.planning.pending.arrivals
    for number in range(count):
        key = stage.add(f"absurd-{number}", epochs=ABSURD_EPOCHS, created=CREATED + 20.0 + number)
        stage.now = CREATED + 30.0
        await stage.ask(key)
    after = stage.planning.pending.arrivals
    assert after.arrivals == FULL + count
    assert before.run_seconds < after.run_seconds < before.run_seconds * (FULL + 1 + count) / FULL


async def test_a_job_that_gets_a_plan_and_never_runs_counts_as_one_that_waits() -> None:
    stage = Stage(nodes=8, gpus=2)
    await full(stage)
    before = stage.planning.pending.arrivals
    key, plan = await begun(stage)
    for conditions in ({}, {"Running": False}, {"Failed": True}):
        stage.start(key, plan, conditions, timestamp(CREATED + 31.0))
        stage.now = CREATED + 10_000.0
        assert stage.planning.pending.arrivals.run_seconds < 1.3 * before.run_seconds


async def test_a_job_that_has_run_for_a_mean_run_counts_more_and_once() -> None:
    stage = Stage(nodes=8, gpus=2)
    await full(stage)
    key, plan = await begun(stage)
    before = stage.planning.pending.arrivals
    stage.start(key, plan, RUNS, timestamp(CREATED + 31.0))
    stage.now = CREATED + 31.0
    assert stage.planning.pending.arrivals == before
    stage.now += 1.0
    after = stage.planning.pending.arrivals
    assert 10.0 * before.run_seconds < after.run_seconds < 20.0 * before.run_seconds
    stage.now += 1000.0
    assert stage.planning.pending.arrivals == after
    stage.add("absurd", epochs=ABSURD_EPOCHS, created=CREATED + 20.0, version=2)
    assert stage.planning.pending.arrivals == after


async def test_a_job_that_is_deleted_before_it_has_run_never_counts_more() -> None:
    stage = Stage(nodes=8, gpus=2)
    await full(stage)
    key, plan = await begun(stage)
    before = stage.planning.pending.arrivals
    stage.start(key, plan, RUNS, timestamp(CREATED + 31.0))
    del stage.cache.jobs[key]
    stage.now = CREATED + 10_000.0
    assert stage.planning.pending.arrivals == before


async def test_a_job_that_failed_at_once_is_forgotten() -> None:
    stage = Stage(nodes=8, gpus=2)
    await full(stage)
    key, plan = await begun(stage)
    before = stage.planning.pending.arrivals
    stage.start(key, plan, {"Failed": True}, timestamp(CREATED + 31.0))
    stage.cache.recount()
    assert stage.planning.pending.arrivals == before
    stage.start(key, plan, RUNS, timestamp(CREATED + 31.0))
    stage.now = CREATED + 10_000.0
    assert stage.planning.pending.arrivals == before


async def test_after_a_restart_the_mean_run_is_the_same_also_where_the_long_job_is_the_oldest() -> None:
    stage = Stage(nodes=16, gpus=2)
    key, plan = await begun(stage, "a-long")
    stage.start(key, plan, RUNS, timestamp(CREATED + 31.0))
    for number in range(8):
        other = stage.add(f"job-{number}", created=CREATED + 40.0 + number)
        stage.now = CREATED + 100.0
        await stage.run(other)
    before = stage.planning.pending.arrivals
    stage.planning = Planning(stage.context, stage.planner)
    after = stage.planning.pending.arrivals
    assert after.arrivals == before.arrivals
    assert after.run_seconds == pytest.approx(before.run_seconds, rel=0.5)
    assert after.run_seconds < 100.0 * plan.predicted.epoch_seconds * 10


async def test_a_clock_that_was_ahead_once_spoils_one_gap() -> None:
    stage = Stage(nodes=4, gpus=2)
    await full(stage)
    for number, ahead in enumerate((2_592_000.0, 0.0, 0.0)):
        stage.now = CREATED + 1000.0 * (number + 1) + ahead
        status = msgspec.structs.replace(stage.cache.jobs[Key("team", "job-0")].status)
        await stage.ask(stage.add(f"late-{number}", created=stage.now, status=status))
    assert stage.planning.pending.since_last_arrival() == 0.0
    stage.now += 500.0
    assert stage.planning.pending.since_last_arrival() == pytest.approx(500.0)
