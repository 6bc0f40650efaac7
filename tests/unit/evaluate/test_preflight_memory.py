"""Memory that was held between two looks of the watcher counts as well."""

from __future__ import annotations

from pathlib import Path

import pytest

from hyperscale.evaluate.preflight.trial_record import TrialRecord
from hyperscale.evaluate.preflight.trial_types import Limits, Said, Sandbox, TrialEvent, TrialRequest
from hyperscale.evaluate.preflight.trials import observe
from hyperscale.model.api.preflight_report import PreflightFault
from tests.builders.preflights import case, tried, wrong

LIMITS = Limits(steps=3, seconds=10.0, memory_bytes=1 << 30)


@pytest.mark.parametrize(("held", "faults"), [(0, []), (1 << 30, []), ((1 << 30) + 1, [(PreflightFault.OUT_OF_MEMORY, 1)])])
def test_the_peak_that_is_told_at_the_end_counts_in_the_last_step(held: int, faults: list[tuple[PreflightFault, int]]) -> None:
    record = TrialRecord(LIMITS)
    for event in (TrialEvent(Said.READY), TrialEvent(Said.STEP, step=1), TrialEvent(Said.DONE, held_bytes=held)):
        record.take(event, 1.0)
    assert [(fault.kind, fault.step) for fault in record.faults] == faults


MAPPED = """
import numpy as np, torch
from torch import nn
with open("big", "wb") as file:
    for _ in range(200):
        file.write(bytes(1 << 20))

def read():
    return 1.0 + float(np.memmap("big", np.uint8, "r").max())

model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for _ in range(3):
    optimizer.zero_grad()
    (model(torch.ones(2, 4)).sum() * read()).backward()
    optimizer.step()
"""


def test_pages_of_a_file_that_was_read_through_a_map_are_no_memory_of_the_code(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    (tmp_path / "mapped.py").write_text(MAPPED)
    limits = Limits(steps=3, seconds=60.0, memory_bytes=440 << 20, processes=8)
    request = TrialRequest(script=str(tmp_path / "mapped.py"), readable=(str(tmp_path),), limits=limits, sandbox=Sandbox.NONE)
    observation = observe(request)
    assert observation.faults == ()
    assert observation.steps == 3


def test_code_that_holds_too_much_in_its_last_step_alone_is_told_every_time() -> None:
    pytest.importorskip("torch")
    for _ in range(3):
        assert wrong(case("oom_grows"), tried(case("oom_grows"), Sandbox.NONE, 60.0)) == ()
