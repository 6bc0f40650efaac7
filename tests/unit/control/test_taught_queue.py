"""What finished runs teach while jobs wait: the jobs that wait are no new arrivals, and their answers stand."""

from __future__ import annotations

import pytest

from hyperscale.control.scheduler import pending
from tests.corpus.queue_stage import POLICY, Stage


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
