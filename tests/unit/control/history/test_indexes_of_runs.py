"""Questions about a long history read an index, not every row with its texts."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sql
from msgspec.structs import replace
from sqlalchemy import event
from sqlalchemy.engine import Engine

from hyperscale.control.history.run_store import MOST_RUNS, TEXTS_SEARCHED, RunStore
from hyperscale.control.history.runs_table import RUNS
from tests.builders.history import RUN

NAMES = {"hyperscale_runs_taught", "hyperscale_runs_newest", "hyperscale_runs_figures"}
STAND_IN = '{"epoch":9,"generated":true}'


def indexes(file: Path) -> set[str]:
    with closing(sqlite3.connect(file)) as database:
        names = database.execute("SELECT name FROM sqlite_master WHERE type = 'index' AND name LIKE 'hyperscale%'")
        return {str(name) for (name,) in names}


@pytest.fixture
def earlier(tmp_path: Path) -> Path:
    """A database of an earlier version, without the indexes."""
    RunStore(f"sqlite:///{tmp_path}/h").close()
    with closing(sqlite3.connect(tmp_path / "h")) as file, file:
        file.execute("DROP INDEX hyperscale_runs_newest")
        file.execute("DROP INDEX hyperscale_runs_figures")
    return tmp_path / "h"


@pytest.fixture
def statements() -> Iterator[list[tuple[str, Any]]]:
    """Every statement that any database gets."""
    asked: list[tuple[str, Any]] = []

    def note(_connection: Any, _cursor: Any, statement: str, parameters: Any, *_: Any) -> None:
        asked.append((statement, parameters))

    event.listen(Engine, "before_cursor_execute", note)
    yield asked
    event.remove(Engine, "before_cursor_execute", note)


def test_an_operator_adds_the_indexes_that_an_earlier_version_did_not_make(earlier: Path) -> None:
    RunStore(f"sqlite:///{earlier}", make=False).close()
    assert not {"hyperscale_runs_newest", "hyperscale_runs_figures"} & indexes(earlier), "who only looks changes nothing"
    RunStore(f"sqlite:///{earlier}").close()
    assert indexes(earlier) >= NAMES


def test_an_account_that_may_make_no_index_does_without(earlier: Path) -> None:
    def deny(connection: Any, _: Any) -> None:
        refused = sqlite3.SQLITE_CREATE_INDEX
        connection.set_authorizer(lambda action, *_: sqlite3.SQLITE_DENY if action == refused else sqlite3.SQLITE_OK)

    event.listen(Engine, "connect", deny)
    try:
        with closing(RunStore(f"sqlite:///{earlier}")) as store:
            store.record([RUN])
            assert len(store.runs(5)) == 1
    finally:
        event.remove(Engine, "connect", deny)
    assert "hyperscale_runs_figures" not in indexes(earlier)


def test_no_question_scans_the_rows_with_their_texts(tmp_path: Path, statements: list[tuple[str, Any]]) -> None:
    url = f"sqlite:///{tmp_path}/h"
    with closing(RunStore(url)) as store:
        store.record([replace(RUN, uid=str(number), finished_at=float(number)) for number in range(40)])
        statements.clear()
        store.calibrations(5)
        store.steps(5)
        store.taught_runs(10)
        store.runs(5)
    engine = sql.create_engine(url)
    with engine.connect() as connection:
        for statement, parameters in [each for each in statements if each[0].startswith("SELECT") and RUNS.name in each[0]]:
            steps = [row[3] for row in connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", parameters)]
            scans = [step for step in steps if step.startswith(f"SCAN {RUNS.name}")]
            assert all("USING" in step and "INDEX" in step for step in scans), (statement, steps)
    engine.dispose()


def test_runs_behind_many_stand_ins_still_teach(tmp_path: Path) -> None:
    with closing(RunStore(f"sqlite:///{tmp_path}/h")) as store:
        store.record([replace(RUN, uid=f"old-{number}", finished_at=float(number)) for number in range(6)])
        store.record([replace(RUN, uid=f"new-{number}", finished_at=100.0 + number, measured=STAND_IN) for number in range(MOST_RUNS)])
        (correction,) = store.calibrations(5)["GCN"]
        assert correction.runs == 6


def test_texts_of_a_bounded_number_of_runs_are_searched(tmp_path: Path) -> None:
    with closing(RunStore(f"sqlite:///{tmp_path}/h")) as store:
        many = TEXTS_SEARCHED * MOST_RUNS
        store.record([replace(RUN, uid=f"old-{number}", finished_at=float(number)) for number in range(6)])
        rows = [replace(RUN, uid=f"new-{number}", finished_at=100.0 + number, measured=STAND_IN) for number in range(many)]
        for begin in range(0, many, 200):
            store.record(rows[begin : begin + 200])
        assert store.calibrations(5) == {}
        assert store.steps(5) == {}
