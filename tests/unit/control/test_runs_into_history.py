"""Finished runs on their way into history, and the corrections that come back."""

from __future__ import annotations

import asyncio
from contextlib import closing
from pathlib import Path

import pytest
from msgspec.structs import replace

from hyperscale.control.history.recorder import RunRecorder
from hyperscale.control.history.run_store import RunStore
from hyperscale.control.specs.parsed_specs import JobReader
from hyperscale.control.telemetry.metrics import Telemetry
from hyperscale.model.plan import Correction, Prediction
from hyperscale.model.status import StateWord
from hyperscale.util.rfc3339 import unix_seconds
from tests.builders.history import open_files
from tests.builders.seen import seen, status
from tests.unit.control.partition_cases import (
    SAID,
    TWO,
    ended,
)


def test_finished_runs_reach_history_and_come_back_as_a_correction(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/history.sqlite"
    reader = JobReader()

    async def play() -> None:
        recorder = RunRecorder(reader, Telemetry(), url, 3, lambda: 0.0)
        running = asyncio.create_task(recorder.run())
        for number in range(3):
            look, told = ended(number, SAID)
            recorder.note(look, status(StateWord.RUNNING, measured=told.measured))  # not yet
            recorder.note(look, replace(told, measured=None))
            recorder.note(look, told)
            recorder.note(look, told)
        async with asyncio.timeout(60):
            while not reader.calibrations:  # noqa: ASYNC110 - it sends no event
                await asyncio.sleep(0.02)
        running.cancel()
        await asyncio.wait([running])
        async with asyncio.timeout(60):
            while open_files(tmp_path):  # noqa: ASYNC110 - a thread that was still learning sends no event
                await asyncio.sleep(0.02)
        assert not recorder._waiting

    asyncio.run(play())
    (known,) = reader.calibration(seen().job.spec)
    assert (known.products, known.factor, known.runs) == ("A100", 2.0, 3)
    with closing(RunStore(url)) as kept:
        assert len(kept.runs(10)) == 3


@pytest.mark.parametrize(("generated", "observed"), [(False, 1.0), (True, 0.0)])
def test_how_good_predictions_are_is_not_told_by_a_stand_in(tmp_path: Path, generated: bool, observed: float) -> None:
    telemetry = Telemetry()
    recorder = RunRecorder(JobReader(), telemetry, f"sqlite:///{tmp_path}/h", 1, lambda: 0.0)
    recorder.note(*ended(0, replace(SAID, generated=generated)))
    (family,) = telemetry.prediction_ratio.collect()
    assert sum(sample.value for sample in family.samples if sample.name.endswith("_count")) == observed
    assert recorder._waiting, "it is recorded all the same"


def test_what_was_corrected_is_taken_back_before_it_teaches_again(tmp_path: Path) -> None:
    corrected = replace(TWO, predicted=Prediction(2.0, 0.2, calibration=Correction("A100", 2.0, 0.1, 5)))
    recorder = RunRecorder(JobReader(), Telemetry(), f"sqlite:///{tmp_path}/h", 1, lambda: 0.0)
    recorder.note(*ended(0, SAID, corrected))
    (run,) = recorder._waiting.values()
    assert (run.predicted_seconds, run.correction, run.ratio) == (1.0, 2.0, 2.0)


def test_without_a_url_nothing_is_kept() -> None:
    recorder = RunRecorder(JobReader(), Telemetry(), "", 1, lambda: 0.0)
    recorder.note(*ended(0, SAID))
    asyncio.run(recorder.run())
    assert recorder._waiting == {}


def test_a_database_that_is_away_keeps_runs_waiting(tmp_path: Path) -> None:
    telemetry = Telemetry()
    recorder = RunRecorder(JobReader(), telemetry, f"sqlite:///{tmp_path}/missing/h", 1, lambda: 0.0)
    recorder.note(*ended(0, SAID))

    def failures() -> float | None:
        return telemetry.registry.get_sample_value("hyperscale_history_failures_total")

    async def play() -> None:
        running = asyncio.create_task(recorder.run())
        async with asyncio.timeout(60):
            while not failures():  # noqa: ASYNC110 - it sends no event
                await asyncio.sleep(0.02)
        running.cancel()

    asyncio.run(play())
    assert len(recorder._waiting) == 1


def test_runs_that_are_too_old_are_deleted_and_not_recorded_again(tmp_path: Path) -> None:
    url, day, reader = f"sqlite:///{tmp_path}/history.sqlite", 86_400.0, JobReader()
    finished = unix_seconds("2026-01-01T00:00:00Z")
    now = finished + day

    async def play(runs: int, *numbers: int) -> None:
        recorder = RunRecorder(reader, Telemetry(), url, 1, lambda: now, days=30.0)
        for number in numbers:
            recorder.note(*ended(number, SAID))
        running = asyncio.create_task(recorder.run())
        async with asyncio.timeout(60):
            with closing(RunStore(url)) as kept:
                while len(kept.runs(10)) != runs:  # noqa: ASYNC110 - it sends no event
                    await asyncio.sleep(0.02)
        running.cancel()

    asyncio.run(play(2, 0, 1))
    now = finished + 31 * day
    asyncio.run(play(0))
    old = RunRecorder(reader, Telemetry(), url, 1, lambda: now, days=30.0)
    old.note(*ended(0, SAID))
    assert old._waiting == {}
