"""Rows of a SQLite file that hold no run: they are left out with a count, and the others teach as before."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from hyperscale.control.history.run_store import RunStore
from hyperscale.control.history.runs_table import RUNS
from hyperscale.control.history.teaching import Teacher
from hyperscale.evaluate.calibration.speed_fit import corrections_of
from hyperscale.evaluate.calibration.taught_run import TaughtRun
from hyperscale.model.history.corrections import COST_MODEL, MAX_NAMED, PartKind, PredictedPart
from tests.builders.history import RUN

MODEL = f'"costModel":{COST_MODEL}'
PARTED = '{"workers":[{"node":"a","gpus":2}],"predicted":{MODEL,"parts":[{"kind":"Compute","seconds":1.0,"name":"A100"}]}}'.replace(
    "MODEL", MODEL
)
GOOD = 14
DEEP = '{"x":' + "[" * 200_000 + "]" * 200_000 + ',"predicted":{' + MODEL + ',"parts":[]},"workers":[]}'


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Runs of one workload; the last row is there to be spoilt."""
    with closing(RunStore(f"sqlite:///{tmp_path}/h")) as store:
        store.record([replace(RUN, uid=f"{number:02}", finished_at=1000.0 + number, plan=PARTED) for number in range(GOOD + 1)])
    return tmp_path / "h"


def spoil(file: Path, column: str, value: Any) -> None:
    with closing(sqlite3.connect(file)) as database, database:
        database.execute(f"UPDATE {RUNS.name} SET {column} = ? WHERE uid = '{GOOD}'", (value,))  # noqa: S608 - names of this test


@pytest.mark.parametrize(
    ("column", "value", "fault"),
    [
        ("gpus", "many", "gpus is no whole number"),
        ("gpus", 1.5, "gpus is no whole number"),
        ("workers", "x", "workers is no whole number"),
        ("workers", -1, "workers is below 0"),
        ("batch_size", 0, "batch_size is below 1"),
        ("batch_size", "x", "batch_size is no whole number"),
        ("vertices", "x", "vertices is no whole number"),
        ("compute_seconds", "abc", "compute_seconds is no finite number"),
        ("compute_seconds", b"abc", "compute_seconds is no finite number"),
        ("finished_at", "yesterday", "finished_at is no finite number"),
        ("created_at", float("inf"), "created_at is no finite number"),
        ("architecture", b"GCN", "architecture is no text"),
        ("products", b"A100", "products is no text"),
        ("namespace", b"x", "namespace is no text"),
        ("plan", b"{" + MODEL.encode() + b',"parts":[\xff', "plan is no text"),
    ],
)
def test_a_row_that_cannot_be_read_is_counted_and_the_others_teach(
    file: Path, caplog: pytest.LogCaptureFixture, column: str, value: Any, fault: str
) -> None:
    spoil(file, column, value)
    with closing(RunStore(f"sqlite:///{file}")) as store:
        taught = Teacher(5).teach(store, "", 0.0)
        Teacher(5).teach(store, "", 0.0)
        assert len(store.runs(100)) == GOOD
    assert taught.corrections["GCN"].runs >= GOOD
    assert taught.calibrations["GCN"][0].runs >= GOOD
    (line,) = [record.getMessage() for record in caplog.records if "cannot be read" in record.getMessage()]
    assert line == f"history: rows of hyperscale_runs that cannot be read: 1; of the run '14' its {fault}"


@pytest.mark.parametrize("text", [b"{" + MODEL.encode() + b',"parts":[\xff\xfe', DEEP.encode()], ids=["not UTF-8", "deep"])
def test_a_plan_that_is_no_plan_teaches_nothing(file: Path, text: bytes) -> None:
    with closing(sqlite3.connect(file)) as database, database:
        database.execute(f"UPDATE {RUNS.name} SET plan = CAST(? AS TEXT), hosts = NULL WHERE uid = '{GOOD}'", (text,))  # noqa: S608
    with closing(RunStore(f"sqlite:///{file}")) as store:
        assert Teacher(5).teach(store, "", 0.0).corrections["GCN"].runs == GOOD
        assert len(store.runs(100)) == GOOD + 1


def test_the_architectures_with_the_most_runs_are_corrected() -> None:
    part = (PredictedPart(PartKind.COMPUTE, 1.0, "A100", 1e13),)
    once = [TaughtRun("team", f"A{number:03}", part, 1.0, 2.0) for number in range(MAX_NAMED + 10)]
    often = [TaughtRun("team", "Z", part, 1.0, 2.0)] * 5
    corrections = corrections_of([*often, *once])
    assert len(corrections) == MAX_NAMED + 1
    assert corrections["Z"].runs == 5
