"""What people decided is read though nothing can be written, and only what changed is worked out again."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from hyperscale.control.history.decision_recorder import DecisionRecorder
from hyperscale.control.history.decision_store import DecisionStore
from hyperscale.control.history.decisions_table import DecisionKind, decision
from hyperscale.control.specs.parsed_specs import JobReader
from hyperscale.control.telemetry.metrics import Telemetry
from hyperscale.model.api.policy import PolicySpec
from tests.unit.control.history.test_decisions_of_people import FAST, state_with, url_of

FIXED = (0.2, 0.6, 0.2)


def stored(folder: Path) -> DecisionStore:
    """Return a database in which an administrator has set weights."""
    store = DecisionStore(url_of(folder))
    store.record([decision(1000.0, "team", DecisionKind.WEIGHTS_SET, offers="[0.2,0.6,0.2]")])
    return store


@pytest.mark.parametrize("waiting", [False, True])
async def test_a_history_that_takes_no_rows_is_still_read_and_the_fault_is_counted(tmp_path: Path, waiting: bool) -> None:
    stored(tmp_path).close()
    telemetry = Telemetry()
    recorder = DecisionRecorder(JobReader(), telemetry, f"sqlite:///file:{tmp_path}/history.sqlite?mode=ro&uri=true", lambda: 2000.0)
    if waiting:
        recorder.note(None, *state_with(approved_plan=FAST.plan_id))
    working = asyncio.create_task(recorder.run())
    async with asyncio.timeout(20.0):
        while not telemetry.history_failures._value.get():  # noqa: ASYNC110 - nothing else tells
            await asyncio.sleep(0.01)
    working.cancel()
    assert recorder.weights("team", PolicySpec()) == pytest.approx(FIXED)
    assert "readonly" in recorder._fault
