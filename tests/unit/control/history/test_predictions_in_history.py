"""What was predicted before a run is kept with what happened, also in databases that earlier versions made."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest
import sqlalchemy as sql
from msgspec.structs import replace

from hyperscale.control.history.calibration import calibrate
from hyperscale.control.history.run_lessons import lessons_and_report, past_run
from hyperscale.control.history.run_record import RunBeginnings, finished_run
from hyperscale.control.history.run_store import RunStore
from hyperscale.control.history.runs_table import RUNS, FinishedRun
from hyperscale.evaluate.calibration.past_run import FORECAST, TWIN
from hyperscale.evaluate.calibration.stage_verdict import CoverageVerdict
from hyperscale.model.api.condition import Condition
from hyperscale.model.evaluation import EvaluationStatus, Interval, StageState, StageSummary
from hyperscale.model.history.corrections import COST_MODEL
from hyperscale.model.status import JobStatus, StateWord
from tests.builders.history import RUN
from tests.builders.seen import changed, mpijob, seen, status
from tests.unit.control.history.test_finished_runs import server  # noqa: F401 - a fixture
from tests.unit.control.partition_cases import SAID, TWO

SAYING = EvaluationStatus(
    TWO.plan_id,
    (StageSummary("twin", StageState.PASSED, 0.9),),
    epoch_seconds=Interval(2.0, 1.0, 4.0),
    end_seconds=Interval(100.0, 50.0, 200.0),
    deadline_seconds=150.0,
)
NEW = ("hosts", "low_seconds", "high_seconds", "evaluation", "run_seconds", "deadline_seconds", "restarts", "preemptions")


def run(number: int, **changes: Any) -> FinishedRun:
    evaluated = {"evaluation": msgspec.json.encode(SAYING).decode(), "run_seconds": 100.0, "deadline_seconds": 150.0, "hosts": 1}
    return replace(RUN, **({"uid": str(number), "finished_at": 1000.0 + number} | evaluated | changes))


def old_database(file: Path) -> str:
    """A database as the version before predictions were kept made it, with one run."""
    url = f"sqlite:///{file}"
    with closing(RunStore(url)) as store:
        store.record([RUN])
    with contextlib.closing(sqlite3.connect(file)) as connection:
        for name in NEW:
            connection.execute(f"ALTER TABLE hyperscale_runs DROP COLUMN {name}")
        connection.execute("DROP TABLE hyperscale_node_lives")
        connection.commit()
    return url


@pytest.fixture(params=["SQLite", "PostgreSQL"])
def history(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[RunStore]:
    url = f"sqlite:///{tmp_path}/history.sqlite" if request.param == "SQLite" else request.getfixturevalue("server")
    made = RunStore(url)
    with made._engine.begin() as connection:
        connection.execute(sql.delete(RUNS))
    yield made
    made.close()


def test_a_database_of_an_earlier_version_gets_the_new_columns_and_keeps_its_runs(tmp_path: Path) -> None:
    url = old_database(tmp_path / "old.sqlite")
    with closing(RunStore(url)) as store:
        assert store.runs(10) == (RUN,)
        assert store.record([run(1)]) == 1
        assert store.runs(1) == (run(1),)
    with closing(RunStore(url)) as store:
        assert len(store.runs(10)) == 2


def test_an_old_database_that_is_only_looked_at_stays_as_it_is(tmp_path: Path) -> None:
    url = old_database(tmp_path / "old.sqlite")
    with closing(RunStore(url, make=False)) as store:
        assert store.runs(10) == (RUN,)
        lessons, report = lessons_and_report(store, (), 0.0)
    assert (len(lessons.runs), lessons.past, report.verdict) == (1, (), CoverageVerdict.UNKNOWN)
    with contextlib.closing(sqlite3.connect(tmp_path / "old.sqlite")) as connection:
        assert "evaluation" not in {row[1] for row in connection.execute("PRAGMA table_info(hyperscale_runs)")}


def test_an_account_that_may_not_change_tables_goes_on_as_before(server: str) -> None:  # noqa: F811 - the fixture
    with closing(RunStore(server)) as store, store._engine.begin() as connection:
        connection.execute(sql.delete(RUNS))
        for name in NEW:
            connection.exec_driver_sql(f"ALTER TABLE hyperscale_runs DROP COLUMN {name}")
        connection.exec_driver_sql("DROP ROLE IF EXISTS clerk")
        connection.exec_driver_sql("CREATE ROLE clerk LOGIN")
        connection.exec_driver_sql("GRANT SELECT, INSERT, UPDATE, DELETE ON hyperscale_runs, hyperscale_node_lives TO clerk")
    with closing(RunStore(server.replace("hyperscale@", "clerk@"))) as store:
        assert store.record([run(1)]) == 1
        assert [each.evaluation for each in store.runs(10)] == [None]
        assert store.brief_runs(10)[0][1]
    with closing(RunStore(server)) as store, store._engine.begin() as connection:
        assert store._columns == frozenset(RUNS.columns.keys())
        connection.exec_driver_sql("DROP OWNED BY clerk")
        connection.exec_driver_sql("DROP ROLE clerk")


def test_runs_are_read_without_their_plans_and_say_whether_they_teach(history: RunStore) -> None:
    spread = f'{{"ranksByNode":{{"a":0,"b":1}},"predicted":{{"costModel":{COST_MODEL}}}}}'
    history.record([run(0, plan='{"predicted":{}}'), run(1), run(2, hosts=None, plan=spread), run(3, phase="Failed")])
    (third, third_teaches), (second, _), (first, first_teaches), (earlier, earlier_teaches) = history.brief_runs(10)
    assert (third.uid, third_teaches, first_teaches) == ("3", False, True)
    assert (first.plan, second.plan != "", first.evaluation) == ("", True, run(1).evaluation)
    assert (earlier_teaches, earlier.evaluation) == (False, None), "an earlier cost model predicted it"
    lessons, _ = lessons_and_report(history, (), 5.0)
    assert [row.hosts for row in lessons.runs] == [1, 2]
    assert len(lessons.past) == 3


def test_whether_it_ended_in_time_is_said_only_with_a_deadline() -> None:
    assert run(1).ended_in_time is True
    assert run(1, run_seconds=151.0).ended_in_time is False
    assert run(1, phase="Failed", run_seconds=None).ended_in_time is False
    assert run(1, run_seconds=None).ended_in_time is None
    assert run(1, deadline_seconds=None).ended_in_time is None
    assert RUN.ended_in_time is None


def test_a_prediction_is_compared_only_with_what_it_was_about() -> None:
    plain, moved, stopped = past_run(run(1), True), past_run(run(1), False), past_run(run(1, preemptions=1), True)
    assert plain is not None
    assert moved is not None
    assert stopped is not None
    assert plain.stated(FORECAST) is not None
    assert moved.stated(FORECAST) is None
    assert moved.stated(TWIN) is not None
    assert stopped.stated(TWIN) is None
    assert stopped.ended_in_time is None


@pytest.mark.parametrize("evaluation", [None, "", "{", "[]", '{"planId":1}', '{"planId":"a","fault":"killed"}', "[" * 5000], ids=str)
def test_a_prediction_that_cannot_be_read_is_none(evaluation: str | None) -> None:
    assert past_run(run(1, evaluation=evaluation), True) is None


def _running(at: str, **fields: Any) -> JobStatus:
    return status(StateWord.RUNNING, conditions=(Condition("Running", "True", "", last_transition_time=at),), **fields)


def test_the_prediction_that_counts_is_the_one_from_before_the_run() -> None:
    beginnings = RunBeginnings()
    waiting, running = seen(plan=TWO), seen(plan=TWO, mpijob=mpijob())
    beginnings.look(waiting, status(StateWord.PLANNED, evaluation=replace(SAYING, deadline_seconds=1.0)))
    assert beginnings.of(waiting).evaluation is None, "it may still be evaluated again"
    beginnings.look(running, _running("2026-01-01T00:00:10Z", evaluation=SAYING))
    beginnings.look(running, _running("2026-01-01T00:05:00Z", evaluation=None))
    beginning = beginnings.of(running)
    assert (beginning.evaluation, beginning.began) == (SAYING, "2026-01-01T00:00:10Z")
    end = status(StateWord.SUCCEEDED, measured=SAID, start_time="2026-01-01T00:00:00Z", completion_time="2026-01-01T00:01:40Z", restarts=2)
    made = finished_run(running.job.metadata, running.job.spec, TWO, end, 2e9, beginning)
    assert (made.run_seconds, made.deadline_seconds, made.restarts, made.ended_in_time) == (90.0, 150.0, 2, True)
    assert made.evaluation == msgspec.json.encode(SAYING).decode()


@pytest.mark.parametrize("fault", ["EvaluatorBusy: too many plans wait", "killed"])
def test_a_run_whose_evaluation_came_after_a_fault_is_scored(fault: str) -> None:
    failed = EvaluationStatus(TWO.plan_id, fault=fault)
    beginnings, running = RunBeginnings(), seen(plan=TWO, mpijob=mpijob())
    beginnings.look(running, status(StateWord.STARTING, evaluation=failed))
    beginnings.look(running, _running("2026-01-01T00:00:10Z", evaluation=failed))
    assert beginnings.of(changed(running, status=_running("2026-01-01T00:00:10Z", evaluation=failed))).evaluation is None
    assert beginnings.of(changed(running, status=_running("2026-01-01T00:00:10Z", evaluation=SAYING))).evaluation == SAYING
    end = status(StateWord.SUCCEEDED, measured=SAID, completion_time="2026-01-01T00:01:40Z", evaluation=failed)
    made = finished_run(running.job.metadata, running.job.spec, TWO, end, 2e9, beginnings.of(running))
    assert (made.evaluation, made.deadline_seconds) == (None, None)


def test_after_a_restart_of_the_operator_the_status_says_what_was_predicted() -> None:
    state = changed(seen(plan=TWO, mpijob=mpijob()), status=_running("2026-01-01T00:00:10Z", evaluation=SAYING))
    assert RunBeginnings().of(state) == (SAYING, "2026-01-01T00:00:10Z")


@pytest.mark.parametrize("completed", [None, "", "9999-12-31T23:59:59Z", "2025-01-01T00:00:00Z"])
def test_a_run_whose_end_is_unknown_has_no_length(completed: str | None) -> None:
    state = seen(plan=TWO)
    end = status(StateWord.SUCCEEDED, start_time="2026-01-01T00:00:00Z", completion_time=completed)
    assert finished_run(state.job.metadata, state.job.spec, TWO, end, 1.8e9).run_seconds is None


def test_a_spread_is_widened_until_it_covers_runs_predicted_from_those_before() -> None:
    steady = calibrate("A100", [2.0 * 1.1 ** ((7 * place) % 5 - 2) for place in range(60)])
    waves = calibrate("A100", [2.0 * 1.3 ** (place // 12 % 2 * 4) * 1.01 ** (place % 3) for place in range(60)])
    assert steady.spread == pytest.approx(1.4826 * 0.0953, rel=0.5)
    assert waves.spread > 0.3, "what the runs before taught missed by a factor of 2.9 at every change"
    assert calibrate("A100", [2.0] * 60).spread == 0.0
