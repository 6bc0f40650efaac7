"""A table of an earlier version that others hold locked: history opens soon without new indexes and columns, and adds them later."""

from __future__ import annotations

import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import pytest
import sqlalchemy as sql

from hyperscale.control.history.run_store import RunStore
from hyperscale.control.history.runs_table import RUNS
from tests.builders.history import RUN
from tests.unit.control.history.test_finished_runs import server as server

INDEXES = tuple(sorted(str(index.name) for index in RUNS.indexes))
LAST_COLUMNS = ("preemptions", "created_at")
PATIENCE_SECONDS = 30.0
"""Less than the limit of one statement."""


@pytest.fixture(params=["SQLite", "PostgreSQL"])
def earlier(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A database of an earlier version with one run, without indexes and without the newest columns."""
    url = f"sqlite:///{tmp_path}/h" if request.param == "SQLite" else str(request.getfixturevalue("server"))
    with closing(RunStore(url)) as store:
        store.record([RUN])
        with store._engine.begin() as connection:
            for name in INDEXES:
                connection.exec_driver_sql(f"DROP INDEX {name}")
            for name in LAST_COLUMNS:
                connection.exec_driver_sql(f"ALTER TABLE {RUNS.name} DROP COLUMN {name}")
    return url


def opened(url: str) -> tuple[frozenset[str], tuple[str, ...]]:
    """Columns that a store of an operator has, and the indexes that are there then."""
    with closing(RunStore(url)) as store:
        names = tuple(sorted(str(index["name"]) for index in sql.inspect(store._engine).get_indexes(RUNS.name)))
        return store._columns, names


def test_history_opens_while_a_transaction_holds_its_table(earlier: str, caplog: pytest.LogCaptureFixture) -> None:
    answers: list[tuple[frozenset[str], tuple[str, ...]]] = []
    opening = threading.Thread(target=lambda: answers.append(opened(earlier)), daemon=True)
    with closing(RunStore(earlier, make=False)) as other, other._engine.begin() as idle:
        idle.execute(sql.update(RUNS).values(accuracy=0.5))
        opening.start()
        opening.join(PATIENCE_SECONDS)
        assert not opening.is_alive(), "the opening waits for the other's transaction"
    assert len(answers) == 1
    assert not set(LAST_COLUMNS) & answers[0][0]
    assert answers[0][1] == ()
    tried = [record.getMessage() for record in caplog.records if "was not added, the table is in use" in record.getMessage()]
    assert len(tried) == 2, "the first column and the first index"


def test_a_later_start_adds_what_is_missing(earlier: str) -> None:
    columns, indexes = opened(earlier)
    assert set(LAST_COLUMNS) <= columns
    assert indexes == INDEXES


def test_indexes_that_cannot_be_read_keep_no_history_from_opening(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = f"sqlite:///{tmp_path}/h"
    RunStore(url).close()

    def refuse(*_: object, **__: object) -> None:
        raise sql.exc.OperationalError("PRAGMA", {}, sqlite3.OperationalError("disk I/O error"))

    monkeypatch.setattr("sqlalchemy.engine.reflection.Inspector.get_indexes", refuse)
    with closing(RunStore(url)) as store:
        assert store.record([RUN]) == 1
