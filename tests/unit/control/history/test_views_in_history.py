"""Views in place of history's tables on PostgreSQL: commands read them, and the operator says what to do where it cannot record."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from contextlib import closing
from typing import Final, LiteralString

import psycopg
import pytest

from hyperscale.cli.main import main
from hyperscale.control.history.decision_store import DecisionStore
from hyperscale.control.history.nodes_table import NODES
from hyperscale.control.history.run_store import HistoryError, RunStore
from hyperscale.control.history.runs_table import RUNS
from hyperscale.evaluate.calibration.lessons import NodeLife
from tests.unit.control.history.recording import Desk, named
from tests.unit.control.history.test_finished_runs import run, server

__all__ = ["server"]
READ_ONLY: Final[list[LiteralString]] = [
    "CREATE VIEW hyperscale_runs AS SELECT * FROM kept ORDER BY uid LIMIT 100",
    "CREATE MATERIALIZED VIEW hyperscale_runs AS SELECT * FROM kept",
]


@pytest.fixture
def database(server: str) -> Iterator[psycopg.Connection]:
    """With six runs in the table "kept", and none by the name that history looks for."""
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute("DROP SCHEMA public CASCADE")
        connection.execute("CREATE SCHEMA public")
        with closing(RunStore(server)) as store:
            store.record([run(number) for number in range(6)])
        connection.execute("ALTER TABLE hyperscale_runs RENAME TO kept")
        yield connection


@pytest.mark.parametrize("view", READ_ONLY)
def test_commands_read_a_view(server: str, database: psycopg.Connection, view: LiteralString, capsys: pytest.CaptureFixture[str]) -> None:
    database.execute(view)
    with closing(RunStore(server, make=False)) as store:
        assert len(store.runs(10)) == len(store.brief_runs(10)) == 6
        ((known,),) = store.calibrations(5).values()
        assert known.runs == 6
    assert main(["history", "--url", server, "-o", "json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["runs"]) == 6


@pytest.mark.parametrize("view", READ_ONLY)
def test_an_operator_that_cannot_record_to_a_view_says_so_at_once(server: str, database: psycopg.Connection, view: LiteralString) -> None:
    database.execute(view)
    with pytest.raises(HistoryError, match="hyperscale_runs is a view that takes no rows; rename it, so that a table is made, or name"):
        RunStore(server)


def computing(column: str, name: str) -> str:
    """SQL of a view over "kept" that computes a column under a name."""
    rest = [each.name for each in RUNS.columns if each.name != name]
    return f"CREATE VIEW hyperscale_runs AS SELECT {', '.join([*rest, f'{column} * 1 AS {name}'])} FROM kept"  # noqa: S608 - names of our own table


@pytest.mark.parametrize("column", ["measured_seconds", "preemptions"])
def test_a_view_that_computes_a_column_is_named_with_it_at_once(server: str, database: psycopg.Connection, column: str) -> None:
    database.execute(computing(column, column).encode())
    with pytest.raises(HistoryError, match=rf"hyperscale_runs is a view that takes no rows, it computes {column}; rename it, so that"):
        RunStore(server)
    with closing(RunStore(server, make=False)) as store:
        assert len(store.runs(10)) == 6


def test_a_view_that_computes_what_history_does_not_write_is_recorded_to(server: str, database: psycopg.Connection) -> None:
    database.execute(computing("epochs", "twice").encode())
    with closing(RunStore(server)) as store:
        assert store.record([run(6)]) == 1


def test_a_run_that_a_view_refuses_is_given_up_alone_and_named_without_its_values(
    server: str, database: psycopg.Connection, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    database.execute("CREATE VIEW hyperscale_runs AS SELECT * FROM kept WHERE namespace = 'other' WITH CHECK OPTION")
    Desk(server, run(6, name="mine"), run(7, namespace="other")).work()
    with closing(RunStore(server)) as store:
        assert [each.uid for each in store.runs(10)] == ["7"]
    (said,) = named(caplog)
    assert said.startswith("history: the run of team/mine cannot be kept: ")
    assert said.endswith('new row violates check option for view "hyperscale_runs"')


def test_a_view_that_takes_rows_is_recorded_to(server: str, database: psycopg.Connection) -> None:
    database.execute("CREATE VIEW hyperscale_runs AS SELECT * FROM kept")
    with closing(RunStore(server)) as store:
        assert store.record([run(6)]) == 1
        assert store.prune(1002.5) == 3
        assert len(store.runs(10)) == 4


def test_another_table_that_is_a_view_is_done_without_and_named_once(
    server: str, database: psycopg.Connection, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    database.execute("ALTER TABLE kept RENAME TO hyperscale_runs")
    database.execute("ALTER TABLE hyperscale_node_lives RENAME TO lives")
    database.execute("CREATE MATERIALIZED VIEW hyperscale_node_lives AS SELECT * FROM lives")
    for _ in range(2):
        with closing(RunStore(server)) as store:
            store.keep_lives("one", [NodeLife("a", "H100", 1.0)])
            assert (store.node_lives("one"), store.prune(1000.5)) in [((), 1), ((), 0)]
    said = [record.getMessage() for record in caplog.records if NODES.name in record.getMessage()]
    assert said == [f"history: {NODES.name} is a view that takes no rows, it is done without; rename it, so that a table is made"]
    with closing(DecisionStore(server)) as decisions:
        assert decisions.decisions() == ()


def test_a_view_without_a_column_is_named_with_what_it_lacks(server: str, database: psycopg.Connection) -> None:
    database.execute("CREATE VIEW hyperscale_runs AS SELECT uid, namespace, name, finished_at, phase FROM kept")
    with pytest.raises(HistoryError, match=r"hyperscale_runs lacks architecture, layers, .*, measured; name a database with the table"):
        RunStore(server, make=False)
