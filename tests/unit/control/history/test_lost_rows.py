"""Rows that a database takes and does not keep, as by a rule DO INSTEAD NOTHING: each is given up alone, named and counted."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psycopg
import pytest
import sqlalchemy as sql

from hyperscale.control.history.decision_recorder import NotedDecision, _record
from hyperscale.control.history.decision_store import DecisionStore
from hyperscale.control.history.decisions_table import DecisionKind, PersonDecision, decision
from hyperscale.control.history.recorder import RunRecorder
from hyperscale.control.history.run_store import HistoryError, RunStore
from hyperscale.control.specs.parsed_specs import JobReader
from hyperscale.control.telemetry.metrics import Telemetry
from hyperscale.evaluate.calibration.lessons import NodeLife
from tests.unit.control.history.test_finished_runs import run, server

__all__ = ["server"]
LOSE = "CREATE RULE lose AS ON INSERT TO hyperscale_runs DO INSTEAD NOTHING"
LOSE_SOME = "CREATE RULE lose AS ON INSERT TO hyperscale_runs WHERE NEW.namespace = 'lost' DO INSTEAD NOTHING"


@pytest.fixture
def database(server: str) -> Iterator[psycopg.Connection]:
    """With all tables, empty."""
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute("DROP SCHEMA public CASCADE")
        connection.execute("CREATE SCHEMA public")
        RunStore(server).close()
        yield connection


def named(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if "cannot be kept" in record.getMessage()]


def answer(namespace: str, plan: str = "a" * 16) -> PersonDecision:
    return decision(1.0, namespace, DecisionKind.APPROVED, plan, job="cora", uid=f"uid of {namespace}")


def test_a_run_that_a_rule_loses_is_given_up_alone_and_named(
    server: str, database: psycopg.Connection, caplog: pytest.LogCaptureFixture
) -> None:
    database.execute(LOSE_SOME)
    with closing(RunStore(server)) as store:
        assert store.record([run(1), run(2, namespace="lost", name="gone"), run(3)]) == 2
        assert {each.uid for each in store.runs(10)} == {"1", "3"}
        assert store.given_up == 1
    (said,) = named(caplog)
    assert said.startswith("history: the run of lost/gone cannot be kept: ")
    assert said.endswith("the database took the row and does not keep it")


def test_a_run_that_is_told_anew_and_lost_stays_as_it_was(server: str, database: psycopg.Connection) -> None:
    with closing(RunStore(server)) as store:
        store.record([run(1)])
        database.execute(LOSE)
        assert store.record([run(1, measured="{}")]) == 0
        assert [each.measured for each in store.runs(10)] == [run(1).measured]


def test_a_run_that_a_view_does_not_show_is_named(server: str, database: psycopg.Connection, caplog: pytest.LogCaptureFixture) -> None:
    database.execute("ALTER TABLE hyperscale_runs RENAME TO kept")
    database.execute("CREATE VIEW hyperscale_runs AS SELECT * FROM kept WHERE namespace = 'other'")
    with closing(RunStore(server)) as store:
        assert store.record([run(1), run(2, namespace="other")]) == 1
    assert len(named(caplog)) == 1


def test_a_trigger_that_drops_rows_of_a_file_is_noticed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    url = f"sqlite:///{tmp_path / 'history.sqlite'}"
    with closing(RunStore(url)) as store:
        with sql.create_engine(url).begin() as connection:
            connection.execute(sql.text("CREATE TRIGGER lose BEFORE INSERT ON hyperscale_runs BEGIN SELECT RAISE(IGNORE); END"))
        assert store.record([run(1)]) == 0
    assert len(named(caplog)) == 1


def test_lost_runs_are_counted_and_end_no_recorder(server: str, database: psycopg.Connection) -> None:
    database.execute(LOSE_SOME)
    telemetry = Telemetry()
    recorder = RunRecorder(JobReader(), telemetry, server, 5, lambda: 5000.0)
    recorder._waiting = {"1": run(1, namespace="lost"), "2": run(2)}
    with closing(RunStore(server)) as store:
        asyncio.run(recorder._write(store))
        assert [each.uid for each in store.runs(10)] == ["2"]
    assert not recorder._waiting
    assert telemetry.history_failures._value.get() == 1


def test_a_lost_life_of_a_node_is_named_and_the_others_are_kept(
    server: str, database: psycopg.Connection, caplog: pytest.LogCaptureFixture
) -> None:
    database.execute("CREATE RULE lose AS ON INSERT TO hyperscale_node_lives WHERE NEW.node = 'a' DO INSTEAD NOTHING")
    with closing(RunStore(server)) as store:
        store.keep_lives("one", [NodeLife(name, "H100", 1.0) for name in ("a", "b", "c")])
        assert [life.node for life in store.node_lives("one")] == ["b", "c"]
        assert store.given_up == 1
    (said,) = named(caplog)
    assert "node a" in said


REFUSING = [
    ["CREATE RULE lose AS ON INSERT TO hyperscale_decisions WHERE NEW.namespace = 'lost' DO INSTEAD NOTHING"],
    [
        "ALTER TABLE hyperscale_decisions RENAME TO kept",
        "CREATE VIEW hyperscale_decisions AS SELECT * FROM kept WHERE namespace <> 'lost' WITH CHECK OPTION",
    ],
]


@pytest.mark.parametrize("changes", REFUSING)
def test_a_decision_that_is_refused_or_lost_keeps_back_no_other(
    server: str, database: psycopg.Connection, caplog: pytest.LogCaptureFixture, changes: list[str]
) -> None:
    caplog.set_level(logging.WARNING)
    for change in changes:
        database.execute(change.encode())
    with closing(DecisionStore(server)) as store:
        rows = [answer("one"), answer("lost"), answer("two")]
        assert _record(store, tuple(NotedDecision(row, first_look=False) for row in rows)) == 1
        assert {row.namespace for row in store.decisions()} == {"one", "two"}
        with pytest.raises(HistoryError):
            store.record([answer("lost")])
    (said,) = named(caplog)
    assert said.startswith("decisions: Approved of lost/cora cannot be kept: ")


def test_a_decision_that_is_lost_leaves_the_earlier_one(server: str, database: psycopg.Connection) -> None:
    with closing(DecisionStore(server)) as store:
        store.record([answer("team")])
        database.execute("CREATE RULE lose AS ON INSERT TO hyperscale_decisions DO INSTEAD NOTHING")
        with pytest.raises(HistoryError):
            store.record([decision(2.0, "team", DecisionKind.APPROVED, "a" * 16, job="cora", uid="uid of team", because="later")])
        assert store.decisions() == (answer("team"),)
