"""Rows that a database takes and does not keep, as by a rule DO INSTEAD NOTHING: each is given up alone, named and counted."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psycopg
import pytest
import sqlalchemy as sql

from hyperscale.control.history.decision_recorder import DecisionRecorder, NotedDecision
from hyperscale.control.history.decision_store import DecisionStore
from hyperscale.control.history.decisions_table import DecisionKind, PersonDecision, decision
from hyperscale.control.history.run_store import HistoryError, RunStore
from hyperscale.control.specs.parsed_specs import JobReader
from hyperscale.control.telemetry.metrics import Telemetry
from hyperscale.evaluate.calibration.lessons import NodeLife
from tests.unit.control.history.recording import Desk, named
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


def answer(namespace: str, plan: str = "a" * 16) -> PersonDecision:
    return decision(1.0, namespace, DecisionKind.APPROVED, plan, job="cora", uid=f"uid of {namespace}")


def test_a_run_that_a_rule_loses_is_given_up_alone_named_and_counted(
    server: str, database: psycopg.Connection, caplog: pytest.LogCaptureFixture
) -> None:
    database.execute(LOSE_SOME)
    desk = Desk(server, run(1), run(2, namespace="lost", name="gone"), run(3))
    desk.work()
    with closing(RunStore(server)) as store:
        assert {each.uid for each in store.runs(10)} == {"1", "3"}
    assert desk.failures == 1
    (said,) = named(caplog)
    assert said.startswith("history: the run of lost/gone cannot be kept: ")
    assert said.endswith("the database took the row and does not keep it")


def test_a_run_that_is_told_anew_and_lost_stays_as_it_was(server: str, database: psycopg.Connection) -> None:
    with closing(RunStore(server)) as store:
        store.record([run(1)])
        database.execute(LOSE)
        with pytest.raises(HistoryError, match="does not keep it"):
            store.record([run(1, measured="{}")])
        assert [each.measured for each in store.runs(10)] == [run(1).measured]


def test_a_run_that_a_view_does_not_show_is_named(server: str, database: psycopg.Connection, caplog: pytest.LogCaptureFixture) -> None:
    database.execute("ALTER TABLE hyperscale_runs RENAME TO kept")
    database.execute("CREATE VIEW hyperscale_runs AS SELECT * FROM kept WHERE namespace = 'other'")
    Desk(server, run(1), run(2, namespace="other")).work()
    assert database.execute("SELECT FROM kept").rowcount == 1
    assert len(named(caplog)) == 1


def test_a_trigger_that_drops_rows_of_a_file_is_noticed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    url = f"sqlite:///{tmp_path / 'history.sqlite'}"
    RunStore(url).close()
    with sql.create_engine(url).begin() as connection:
        connection.execute(sql.text("CREATE TRIGGER lose BEFORE INSERT ON hyperscale_runs BEGIN SELECT RAISE(IGNORE); END"))
    Desk(url, run(1)).work()
    assert len(named(caplog)) == 1


async def test_a_lost_life_of_a_node_is_named_and_the_others_are_kept(
    server: str, database: psycopg.Connection, caplog: pytest.LogCaptureFixture
) -> None:
    database.execute("CREATE RULE lose AS ON INSERT TO hyperscale_node_lives WHERE NEW.node = 'a' DO INSTEAD NOTHING")
    desk = Desk(server)
    desk.recorder._watch.pending = {(name, 1.0): NodeLife(name, "H100", 1.0) for name in ("a", "b", "c")}
    with closing(RunStore(server)) as store:
        await desk.recorder._write_lives(store)
        assert [life.node for life in store.node_lives("")] == ["b", "c"]
    assert desk.failures == 1
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
async def test_a_decision_that_is_refused_or_lost_keeps_back_no_other(
    server: str, database: psycopg.Connection, caplog: pytest.LogCaptureFixture, changes: list[str]
) -> None:
    caplog.set_level(logging.WARNING)
    for change in changes:
        database.execute(change.encode())
    telemetry = Telemetry()
    recorder = DecisionRecorder(JobReader(), telemetry, server, lambda: 5000.0)
    recorder._waiting = {(name, "", ""): NotedDecision(answer(name), first_look=False) for name in ("one", "lost", "two")}
    with closing(DecisionStore(server)) as store:
        await recorder._write(store)
        assert {row.namespace for row in store.decisions()} == {"one", "two"}
        with pytest.raises(HistoryError):
            store.record([answer("lost")])
    assert telemetry.history_failures._value.get() == 1
    (said,) = named(caplog)
    assert said.startswith("decisions: Approved of lost/cora cannot be kept: ")


def test_a_decision_that_is_lost_leaves_the_earlier_one(server: str, database: psycopg.Connection) -> None:
    with closing(DecisionStore(server)) as store:
        store.record([answer("team")])
        database.execute("CREATE RULE lose AS ON INSERT TO hyperscale_decisions DO INSTEAD NOTHING")
        with pytest.raises(HistoryError):
            store.record([decision(2.0, "team", DecisionKind.APPROVED, "a" * 16, job="cora", uid="uid of team", because="later")])
        assert store.decisions() == (answer("team"),)
