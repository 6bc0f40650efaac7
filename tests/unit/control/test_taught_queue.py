"""What finished runs teach, or an author edits, while jobs wait: the jobs that wait are no new arrivals."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from hyperscale.control.cache.records import Key
from hyperscale.control.scheduler import pending
from hyperscale.control.scheduler.planner_client import Planning
from tests.corpus.queue_stage import CREATED, POLICY, Stage, gpu_node


async def test_jobs_that_wait_are_counted_as_arrivals_once_however_often_history_teaches(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage(nodes=1, gpus=2)
    keys = [stage.add(f"job-{number}") for number in range(4)]
    await stage.ask(keys[0])
    queue = stage.planning.pending
    before = queue.arrivals.arrivals
    asked = [entry.asked for key in keys[1:] if (entry := queue.entry(key, POLICY)) is not None]
    monkeypatch.setattr(pending, "taught_since", lambda entry, reader: True)
    again = [entry.asked for key in keys[1:] if (entry := queue.entry(key, POLICY)) is not None]
    assert again == asked
    assert True in asked
    await stage.ask(keys[1])
    assert queue.arrivals.arrivals == before


async def test_a_job_that_its_author_edits_again_and_again_makes_all_others_neither_short_nor_many() -> None:
    stage = Stage(nodes=2, gpus=2)
    keys = [stage.add(f"job-{number}", created=CREATED + 60.0 * number) for number in range(4)]
    stage.now = CREATED + 300.0
    huge = stage.add("huge", epochs=10**6, created=CREATED + 240.0)
    await stage.ask(keys[0])
    queue = stage.planning.pending
    before = queue.arrivals
    assert before.arrivals == 5
    for version in range(2, 12):
        stage.now += 1.0
        stage.add("huge", epochs=10**6, created=CREATED + 240.0, version=version, queueWeight=version)
        await stage.ask(huge)
    assert queue.arrivals == before


async def test_a_job_counts_once_it_fits_and_another_of_its_name_counts_too() -> None:
    stage = Stage(nodes=2, gpus=2)
    key = stage.add("job", workers={"minReplicas": 64, "maxReplicas": 64})
    await stage.ask(key)
    queue = stage.planning.pending
    assert queue.arrivals.arrivals == 0
    stage.add("job", version=2)
    await stage.ask(key)
    assert queue.arrivals.arrivals == 1
    record = stage.cache.jobs[key]
    again = {**record.resource, "metadata": {**record.resource["metadata"], "uid": "uid-again"}}
    stage.cache.see_job(again)
    await stage.ask(key)
    assert queue.arrivals.arrivals == 2


async def interval_seconds(others: Callable[[Stage, int], Key | None]) -> float:
    """Mean time between jobs that come every ten minutes, while `others` come or are edited in between."""
    stage = Stage(nodes=2, gpus=2)
    await stage.ask(stage.add("first"))
    for number in range(40):
        stage.now += 590.0
        if (other := others(stage, number)) is not None:
            await stage.ask(other)
        stage.now += 10.0
        await stage.ask(stage.add(f"job-{number}", created=stage.now))
    return stage.planning.pending.arrivals.interval_seconds


def edited(stage: Stage, number: int) -> Key:
    """A waiting job whose length its author changes, so that its wait starts again."""
    return stage.add("edited", epochs=10**6 - number, version=number + 1)


def fits_nowhere(stage: Stage, number: int) -> Key:
    return stage.add(f"huge-{number}", created=stage.now, workers={"minReplicas": 64, "maxReplicas": 64})


@pytest.mark.parametrize("others", [edited, fits_nowhere])
async def test_neither_edits_nor_jobs_that_fit_nowhere_shorten_the_time_between_arrivals(others: Callable[[Stage, int], Key]) -> None:
    alone = await interval_seconds(lambda stage, number: None)
    assert alone == pytest.approx(600.0, rel=0.05)
    assert await interval_seconds(others) == pytest.approx(alone, rel=0.05)


async def test_a_job_that_fitted_nowhere_counts_when_it_is_planned_alone() -> None:
    stage = Stage(nodes=2, gpus=2)
    key = stage.add("job", workers={"minReplicas": 6, "maxReplicas": 6})
    other = stage.add("other")
    await stage.ask(key)
    queue = stage.planning.pending
    assert queue.arrivals.arrivals == 1
    for _ in range(2):
        stage.planning.end_reconcile(other)
    stage.cache.see_job(stage.cache.jobs[other].resource, deleted=True)
    stage.planning.forget(other)
    stage.cache.replace("Node", [gpu_node(f"node-{number}", 2) for number in range(4)])
    await stage.ask(key)
    assert queue.arrivals.arrivals == 2


async def test_a_job_that_had_started_before_a_restart_is_no_new_arrival_when_its_pods_are_deleted() -> None:
    stage = Stage(nodes=2, gpus=2)
    key = stage.add("job")
    (plan,) = (await stage.run(key)).values()
    assert plan.workers
    stage.planning = Planning(stage.context, stage.planner)
    queue = stage.planning.pending
    assert queue.arrivals.arrivals == 1
    mpijob = {
        "metadata": {
            "namespace": "team",
            "name": "job",
            "uid": "mpi",
            "resourceVersion": "9",
            "ownerReferences": [{"uid": "uid-job", "controller": True}],
        },
        "spec": {"mpiReplicaSpecs": {}},
        "status": {},
    }
    stage.cache.see_mpijob(mpijob, deleted=True)
    assert key in stage.cache.unstarted
    await stage.ask(key)
    assert queue.arrivals.arrivals == 1
