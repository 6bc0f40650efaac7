"""More bytes of jobs than one answer of the API server may have. The operator asks for fewer at a time, and the small ones get on."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from e2e.jobs import Job
from tests.fault.conftest import Stage
from tests.fault.process import OperatorProcess, running
from tests.fault.watching import wait_created

LARGE = {"workers": {"minReplicas": 2, "maxReplicas": 2, "template": {"metadata": {"annotations": {"note": "x" * 1_400_000}}}}}


@pytest.fixture
def flooded(stage: Stage, space: str) -> list[Job]:
    """More bytes of jobs than one answer of the API server may have, and a small job behind them."""
    jobs = [Job(stage.api, space, f"large-{number:02d}") for number in range(50)]
    for each in jobs:
        each.create(**LARGE)
    small = Job(stage.api, space, "small")
    small.create()
    return [*jobs, small]


@pytest.fixture
def late(stage: Stage, flooded: list[Job]) -> Iterator[OperatorProcess]:
    """An operator that starts when it is all there."""
    with running(stage.operator(), stage.api) as process:
        process.wait_ready()
        yield process


def test_seventy_megabytes_of_jobs_do_not_keep_the_operator_from_starting(flooded: list[Job], late: OperatorProcess) -> None:
    *_, last, small = flooded
    wait_created(small)
    last.wait_reason("InvalidSpec")
    assert last.condition("Stalled")["message"].startswith("spec: larger than")
    assert late.peak_memory_bytes() < 2**30
