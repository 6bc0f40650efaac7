"""Runs whose figures a tenant made up: they teach nothing, hold up no other run and end no operator."""

from __future__ import annotations

import asyncio
import hashlib
from pathlib import Path

import pytest
from msgspec.structs import replace

from hyperscale.control.history.recorder import RunRecorder
from hyperscale.control.history.run_store import RunStore
from hyperscale.control.history.runs_table import FinishedRun
from hyperscale.control.specs.parsed_specs import JobReader
from hyperscale.control.telemetry.metrics import Telemetry
from hyperscale.model.plan import Correction, Prediction
from hyperscale.observe.run_report import read_measured
from hyperscale.spec.plausible import is_plan
from tests.builders.history import RUN
from tests.unit.control.history.recording import Desk
from tests.unit.control.history.test_finished_runs import history, run, server
from tests.unit.control.partition_cases import SAID, TWO, ended

__all__ = ["history", "server"]


@pytest.mark.parametrize("figure", ["epochSeconds", "computeSeconds", "communicationSeconds", "samplesPerSecond", "peerBytes"])
def test_a_figure_beyond_any_run_voids_what_the_run_says(figure: str) -> None:
    assert read_measured(f'{{"epoch":1,"epochs":1,"{figure}":1.7e308}}') is None
    assert read_measured('{"epoch":1,"epochs":1,"phases":[{"phase":"forward","seconds":1e300}]}') is None
    assert read_measured('{"epoch":1,"epochs":1,"busiestPairs":[{"sender":0,"receiver":1,"bytes":1e300}]}') is None


@pytest.mark.parametrize(("measured", "predicted"), [(1.7e308, 0.007), (5e-324, 1.0), (1.0, 5e-324), (1.0, 1.7e308)])
def test_runs_with_absurd_seconds_teach_no_correction(history: RunStore, measured: float, predicted: float) -> None:
    history.record([run(number, measured_seconds=measured, predicted_seconds=predicted) for number in range(5)])
    history.record([run(number, architecture="GAT") for number in range(5, 10)])
    assert {name: known[0].factor for name, known in history.calibrations(5).items()} == {"GAT": 2.0}


LONG = "".join(hashlib.sha256(bytes([number])).hexdigest() for number in range(200))
"""More than an index of PostgreSQL takes."""


@pytest.mark.parametrize("bad", [{"products": "A\0B"}, {"vertices": 10**30}, {"products": LONG}], ids=["text", "number", "length"])
def test_a_run_that_the_database_refuses_is_given_up_and_the_others_are_kept(
    history: RunStore, bad: dict[str, object], caplog: pytest.LogCaptureFixture
) -> None:
    Desk(history._engine.url.render_as_string(hide_password=False), run(1), run(2, **bad), run(3)).work()
    kept = {one.uid for one in history.runs(10)}
    assert kept >= {"1", "3"}
    assert "2" in kept or "team/cora" in caplog.text, "SQLite keeps a NUL"


def test_a_run_dated_in_the_future_is_the_newest_only_until_now(history: RunStore) -> None:
    history.record([run(1, finished_at=9e9), run(2, finished_at=500.0)])
    assert history.redate(1000.0) == 1
    assert [(one.uid, one.finished_at) for one in history.runs(10)] == [("1", 1000.0), ("2", 500.0)]


def test_a_run_that_says_it_ends_in_the_future_ended_when_it_was_seen(tmp_path: Path) -> None:
    recorder = RunRecorder(JobReader(), Telemetry(), f"sqlite:///{tmp_path}/h", 1, lambda: 1000.0)
    look, status = ended(0, SAID)
    recorder.note(look, replace(status, completion_time="9999-12-31T23:59:59Z"))
    (kept,) = recorder._waiting.values()
    assert kept.finished_at == 1000.0


def test_a_plan_with_a_correction_of_0_or_control_characters_is_none() -> None:
    assert is_plan(TWO)
    corrected = replace(TWO, predicted=Prediction(2.0, 0.2, calibration=Correction("A100", 0.0, 0.1, 5)))
    assert not is_plan(corrected)
    assert not is_plan(replace(TWO, workers=tuple(replace(worker, product="A\0B") for worker in TWO.workers)))
    assert not is_plan(replace(TWO, planner="A\x1b[2J"))


class _Broken(RunStore):
    """A history that fails in a way that no database does."""

    def calibrations(self, least: int) -> dict[str, tuple[object, ...]]:  # type: ignore[override]
        raise ValueError(f"not even {least} runs")

    def record(self, runs: object) -> int:
        raise ZeroDivisionError("a fault of the operator's own")


@pytest.mark.parametrize("fails", ["at start", "at a record"])
def test_no_error_of_history_ends_the_operator(
    tmp_path: Path, fails: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("hyperscale.control.history.recorder._open", _Broken)
    monkeypatch.setattr("hyperscale.control.history.recorder.RETRY_SECONDS", 0.0)
    monkeypatch.setattr("hyperscale.control.history.recorder.SETTLE_SECONDS", 0.0)
    telemetry = Telemetry()
    recorder = RunRecorder(JobReader(), telemetry, f"sqlite:///{tmp_path}/h", 1, lambda: 0.0)
    if fails == "at a record":
        monkeypatch.setattr(_Broken, "calibrations", lambda self, least: {})
        recorder.note(*ended(0, SAID))

    def failures() -> float | None:
        return telemetry.registry.get_sample_value("hyperscale_history_failures_total")

    async def play() -> None:
        running = asyncio.create_task(recorder.run())
        async with asyncio.timeout(60):
            while not running.done() and not failures():  # noqa: ASYNC110 - it sends no event
                await asyncio.sleep(0.01)
        assert not running.done(), "the task of history has ended, and the process with it"
        running.cancel()

    asyncio.run(play())
    assert caplog.text.count("history: ") == 1


def test_the_database_of_a_hostile_tenant_lets_the_operator_start(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/h.sqlite"
    made = RunStore(url)
    rows: list[FinishedRun] = [run(number, measured_seconds=1.7e308, predicted_seconds=0.007) for number in range(5)]
    made.record([*rows, *(replace(RUN, uid=f"good-{number}", architecture="GAT") for number in range(5))])
    made.close()
    reader = JobReader()

    async def play() -> None:
        running = asyncio.create_task(RunRecorder(reader, Telemetry(), url, 5, lambda: 2000.0).run())
        async with asyncio.timeout(60):
            while not running.done() and not reader.calibrations:  # noqa: ASYNC110 - it sends no event
                await asyncio.sleep(0.01)
        assert not running.done()
        running.cancel()

    asyncio.run(play())
    assert set(reader.calibrations) == {"GAT"}
