"""`hyperscale plan --history`: the plan with what finished runs teach, as the operator would make it."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from hyperscale.cli.plan.inputs import read_jobs
from hyperscale.cli.plan.plan_history import read_lessons, sizes_of
from hyperscale.control.history.run_store import RunStore
from hyperscale.control.history.runs_table import RUNS
from hyperscale.control.history.teaching import Teacher
from hyperscale.control.specs.parsed_specs import JobReader
from hyperscale.model.api.policy import PolicySpec
from hyperscale.model.plan import Plan
from hyperscale.model.planning import AskedSize
from tests.builders.history import RUN
from tests.unit.cli.cli_samples import Files, files_fixture, job, run

__all__ = ["files_fixture"]

SLOWER = 2.5


@pytest.fixture
def history(files: Files) -> Path:
    """A database of eight runs that took two and a half times as long as predicted, on the plan that the sample job gets."""
    plan = msgspec.json.decode(files.plan("-o", "json").out, type=Plan)
    seconds = plan.predicted.epoch_seconds
    products = "+".join(sorted({worker.product for worker in plan.workers if worker.product}))
    one = replace(RUN, architecture="GraphSAGE", products=products, workers=3, gpus=6, predicted_seconds=seconds, compute_seconds=None)
    one = replace(one, measured_seconds=SLOWER * seconds, plan=msgspec.json.encode(plan).decode())
    file = files.folder / "history.sqlite"
    store = RunStore(f"sqlite:///{file}")
    store.record([replace(one, uid=str(number), finished_at=float(number)) for number in range(8)])
    store.close()
    return file


def planned(files: Files, *more: str) -> dict[str, Any]:
    ran = files.plan("-o", "json", *more)
    assert (ran.code, ran.err) == (0, "")
    answer: dict[str, Any] = json.loads(ran.out)
    return answer


def test_the_plan_is_made_with_what_runs_took(files: Files, history: Path) -> None:
    plain, taught = planned(files), planned(files, "--history", str(history))
    assert taught["predicted"]["epochSeconds"] > 1.1 * plain["predicted"]["epochSeconds"]
    assert planned(files, "--history", f"sqlite:///{history}") == taught, "a file is the database in it"
    assert planned(files, "--history", str(history), "--min-runs", "9")["predicted"] == plain["predicted"]


def test_the_lessons_are_those_of_the_operator(files: Files, history: Path) -> None:
    store = RunStore(f"sqlite:///{history}")
    lessons = Teacher(5).teach(store, "", 0.0)
    store.close()
    reader, (asked,) = JobReader(), read_jobs([files.job], None)
    reader.calibrations, reader.taught, reader.corrections = dict(lessons.calibrations), dict(lessons.curves), dict(lessons.corrections)
    read = read_lessons(str(history), 5, [asked.spec])
    assert read.calibration(asked.spec) == reader.calibration(asked.spec)
    assert read.placement_corrections(asked.spec, PolicySpec()) == reader.placement_corrections(asked.spec, PolicySpec()) is not None


def test_the_figures_say_how_many_runs_count(files: Files, history: Path) -> None:
    assert "with 8 finished runs, 8 of them correct placements" in files.plan("--history", str(history)).out
    assert "too few of which can correct placements: that takes 9" in files.plan("--history", str(history), "--min-runs", "9").out


def test_several_jobs_are_planned_with_it_too(files: Files, history: Path) -> None:
    other = job()
    other["metadata"]["name"] = "second"
    second = files.write("second.yaml", other)
    ran = run("plan", "-f", files.job, "-f", second, "--snapshot", files.snapshot, "--history", str(history))
    assert ran.code == 0
    assert "with 8 finished runs" in ran.out


def test_sizes_are_those_of_the_runs_pods() -> None:
    runs = [replace(RUN, workers=3, gpus=6), replace(RUN, workers=1, gpus=8), replace(RUN, workers=2, gpus=4), replace(RUN, workers=0)]
    assert sizes_of(runs) == (AskedSize(2, 0.0, 0.0, 5.0), AskedSize(8, 0.0, 0.0, 1.0))


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("absent.sqlite", "--history: there is no file 'absent.sqlite'; write a SQLite file"),
        ("sqlite:////absent/h", "no history of runs is there"),
        ("mysql://host/db", "the history's URL cannot be read"),
        ("u:SECRET@h/db", "there is no file 'u:***@h/db'"),
        ("a" * 5000, "there is no file"),
    ],
)
def test_a_history_that_cannot_be_read_is_one_line(files: Files, source: str, message: str) -> None:
    ran = files.plan("--history", source)
    assert (ran.code, ran.out) == (2, "")
    assert message in ran.err
    assert len(ran.err.splitlines()) == 1


@pytest.mark.parametrize("name", ["a?b", "a#b", "a%41", "a b@c", "x:y", "x:y@z"])
def test_a_file_may_have_any_name(files: Files, history: Path, name: str) -> None:
    other = history.rename(history.with_name(name))
    assert read_lessons(str(other), 5, ()).shown == "8 finished runs, 8 of them correct placements"


def test_a_file_that_is_no_database_is_one_line(files: Files) -> None:
    ran = files.plan("--history", files.job)
    assert (ran.code, len(ran.err.splitlines())) == (2, 1)
    assert "--history: " in ran.err


def test_a_view_that_never_ends_is_one_line(files: Files) -> None:
    file = files.folder / "view.sqlite"
    with closing(sqlite3.connect(file)) as database, database:
        columns = ",".join(f"n AS {column.name}" for column in RUNS.columns)
        endless = "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r)"
        database.execute(f"CREATE VIEW {RUNS.name} AS {endless} SELECT {columns} FROM r")  # noqa: S608 - names of the table itself
    ran = files.plan("--history", str(file))
    assert (ran.code, len(ran.err.splitlines())) == (2, 1)
    assert "hyperscale_runs is a view; name a database with the table" in ran.err


def test_it_does_not_go_with_a_question_to_the_operator(files: Files, history: Path) -> None:
    ran = run("plan", "-f", files.job, "--from", "job", "--history", str(history))
    assert (ran.code, ran.out) == (2, "")
    assert "--history: is of no use with --from job" in ran.err
