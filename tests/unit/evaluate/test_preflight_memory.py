"""Memory that was held between two looks of the watcher counts as well."""

from __future__ import annotations

import pytest

from hyperscale.evaluate.preflight.trial_record import TrialRecord
from hyperscale.evaluate.preflight.trial_types import Limits, Said, Sandbox, TrialEvent
from hyperscale.model.api.preflight_report import PreflightFault
from tests.builders.preflights import case, tried, wrong

LIMITS = Limits(steps=3, seconds=10.0, memory_bytes=1 << 30)


@pytest.mark.parametrize(("held", "faults"), [(0, []), (1 << 30, []), ((1 << 30) + 1, [(PreflightFault.OUT_OF_MEMORY, 1)])])
def test_the_peak_that_is_told_at_the_end_counts_in_the_last_step(held: int, faults: list[tuple[PreflightFault, int]]) -> None:
    record = TrialRecord(LIMITS)
    for event in (TrialEvent(Said.READY), TrialEvent(Said.STEP, step=1), TrialEvent(Said.DONE, held_bytes=held)):
        record.take(event, 1.0)
    assert [(fault.kind, fault.step) for fault in record.faults] == faults


def test_code_that_holds_too_much_in_its_last_step_alone_is_told_every_time() -> None:
    pytest.importorskip("torch")
    for _ in range(3):
        assert wrong(case("oom_grows"), tried(case("oom_grows"), Sandbox.NONE, 60.0)) == ()
