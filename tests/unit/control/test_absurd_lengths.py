"""A job of absurd length moves what the queue knows of lengths little, and more once it starts."""

from __future__ import annotations

import pytest

from hyperscale.control.scheduler.planner_client import Planning
from tests.corpus.queue_stage import CREATED, Stage

ABSURD_EPOCHS = 1_000_000
FULL = 4
"""Jobs that fill the cluster of the stage."""


async def full(stage: Stage) -> None:
    """A full cluster, and a queue that knows of its jobs."""
    keys = [stage.add(f"job-{number}", created=CREATED + number) for number in range(FULL)]
    stage.now = CREATED + 10.0
    assert len(await stage.run(*keys)) == FULL


@pytest.mark.parametrize("count", [1, 5])
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
    assert before.run_seconds < after.run_seconds <= 2.01 * before.run_seconds


async def test_the_start_of_a_job_counts_once_also_if_its_plan_is_given_up() -> None:
    stage = Stage(nodes=8, gpus=2)
    await full(stage)
    before = stage.planning.pending.arrivals
    key = stage.add("absurd", epochs=ABSURD_EPOCHS, created=CREATED + 20.0)
    stage.now = CREATED + 30.0
    await stage.ask(key)
    begun = stage.planning.pending.arrivals
    assert 10.0 * before.run_seconds < begun.run_seconds < 20.0 * before.run_seconds
    stage.planning.end_reconcile(key)
    stage.add("absurd", epochs=ABSURD_EPOCHS, created=CREATED + 20.0, version=2)
    await stage.ask(key)
    assert stage.planning.pending.arrivals == begun


async def test_after_a_restart_a_long_job_that_runs_counts_as_before() -> None:
    stage = Stage(nodes=8, gpus=2)
    await full(stage)
    long = stage.add("long", epochs=1000, created=CREATED + 20.0)
    stage.now = CREATED + 30.0
    assert await stage.run(long)
    before = stage.planning.pending.arrivals
    stage.add("absurd", epochs=ABSURD_EPOCHS, created=CREATED + 40.0)
    stage.planning = Planning(stage.context, stage.planner)
    assert stage.planning.pending.arrivals.run_seconds == pytest.approx(before.run_seconds, rel=0.2)
