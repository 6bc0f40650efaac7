"""What finished runs teach, or an author edits, while jobs wait: the jobs that wait are no new arrivals."""

from __future__ import annotations

import pytest

from hyperscale.control.scheduler import pending
from tests.corpus.queue_stage import CREATED, POLICY, Stage


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
