"""Databases whose account may not make tables, and stores that open side by side."""

from __future__ import annotations

import logging
import sqlite3
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event
from sqlalchemy.dialects import sqlite
from sqlalchemy.engine import Engine
from sqlalchemy.schema import CreateTable

from hyperscale.control.history.decision_store import DecisionStore
from hyperscale.control.history.nodes_table import NODES
from hyperscale.control.history.run_store import HistoryError, RunStore
from hyperscale.control.history.runs_table import RUNS
from hyperscale.evaluate.calibration.lessons import NodeLife
from tests.builders.history import RUN

DENIED = {sqlite3.SQLITE_CREATE_TABLE, sqlite3.SQLITE_CREATE_INDEX, sqlite3.SQLITE_ALTER_TABLE}


@pytest.fixture
def earlier(tmp_path: Path) -> str:
    """A database that only has the table of runs."""
    with closing(RunStore(f"sqlite:///{tmp_path}/h")):
        pass
    with closing(sqlite3.connect(tmp_path / "h")) as file, file:
        file.execute(f"DROP TABLE {NODES.name}")
        file.execute("DROP TABLE IF EXISTS hyperscale_decisions")
    return f"sqlite:///{tmp_path}/h"


@pytest.fixture
def without_create(earlier: str) -> Iterator[str]:
    def deny(connection: Any, _: Any) -> None:
        connection.set_authorizer(lambda action, *_: sqlite3.SQLITE_DENY if action in DENIED else sqlite3.SQLITE_OK)

    event.listen(Engine, "connect", deny)
    yield earlier
    event.remove(Engine, "connect", deny)


def test_an_account_that_may_make_no_table_keeps_runs_and_says_once_what_is_missing(
    without_create: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    for _ in range(2):
        with closing(RunStore(without_create)) as store:
            store.record([RUN])
            assert len(store.runs(5)) == 1
            store.keep_lives("one", [NodeLife("a", "H100", 1.0)])
            assert (store.node_lives("one"), store.prune(1.0)) == ((), 0)
    said = [record.getMessage() for record in caplog.records if NODES.name in record.getMessage()]
    assert len(said) == 1
    assert "not authorized" in said[0]


def test_a_store_whose_own_table_cannot_be_made_says_so(without_create: str) -> None:
    with pytest.raises(HistoryError, match="not authorized"):
        DecisionStore(without_create)


def test_stores_that_open_a_new_database_side_by_side_all_open(tmp_path: Path) -> None:
    for number in range(10):
        url, together = f"sqlite:///{tmp_path}/h{number}", threading.Barrier(4)

        def opened(kind: type[RunStore] | type[DecisionStore], url: str = url, together: threading.Barrier = together) -> None:
            together.wait(10.0)
            kind(url).close()

        with ThreadPoolExecutor(4) as pool:
            assert list(pool.map(opened, (RunStore, DecisionStore, RunStore, DecisionStore))) == [None] * 4


def test_a_table_that_another_operator_makes_in_the_same_moment_is_used(tmp_path: Path) -> None:
    def make_first(*_: Any, **__: Any) -> None:
        with closing(sqlite3.connect(tmp_path / "h")) as file, file:
            file.execute(str(CreateTable(RUNS).compile(dialect=sqlite.dialect())))

    event.listen(RUNS, "before_create", make_first)
    try:
        with closing(RunStore(f"sqlite:///{tmp_path}/h")) as store:
            assert (store.record([RUN]), store.runs(5)) == (1, (RUN,))
    finally:
        event.remove(RUNS, "before_create", make_first)


def test_a_database_of_an_earlier_version_says_which_table_it_lacks(earlier: str, tmp_path: Path) -> None:
    with pytest.raises(HistoryError, match=r"no table hyperscale_decisions.*start the operator of this version"):
        DecisionStore(earlier, make=False)
    with pytest.raises(HistoryError, match="no history of runs is there"):
        DecisionStore(f"sqlite:///{tmp_path}/none", make=False)
