"""Rows that a database refuses: each is given up once, alone and named, and holds up no other, however slow the database is."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import event
from sqlalchemy.engine import Engine

from hyperscale.control.history.database_calls import RowWriter, call_database
from hyperscale.control.history.recorder import BATCH
from hyperscale.control.history.run_store import RunStore
from tests.unit.control.history.recording import Desk, named
from tests.unit.control.history.test_finished_runs import run, server
from tests.unit.control.history.test_lost_rows import database

__all__ = ["database", "server"]
REFUSE = "CREATE TRIGGER refuse BEFORE INSERT ON hyperscale_runs WHEN NEW.namespace = 'lost' BEGIN SELECT RAISE(ABORT, 'not this one'); END"
SLOW_SECONDS = 0.005
"""Of each transaction: BATCH of them take far longer than a call may."""
CALL_SECONDS = 1.0
RAISING = [
    "CREATE OR REPLACE FUNCTION refuse() RETURNS trigger AS $$ BEGIN"
    " IF NEW.namespace = 'lost' THEN RAISE EXCEPTION 'not this one'; END IF; RETURN NEW; END $$ LANGUAGE plpgsql",
    "CREATE TRIGGER refuse BEFORE INSERT ON hyperscale_runs FOR EACH ROW EXECUTE FUNCTION refuse()",
]
ROW_SECURITY = [
    "ALTER TABLE hyperscale_runs ENABLE ROW LEVEL SECURITY",
    "CREATE POLICY others ON hyperscale_runs USING (true) WITH CHECK (namespace <> 'lost')",
]
ACCOUNT = [
    "DROP ROLE IF EXISTS clerk",
    "CREATE ROLE clerk LOGIN",
    "GRANT USAGE ON SCHEMA public TO clerk",
    "GRANT SELECT, INSERT, DELETE, UPDATE ON ALL TABLES IN SCHEMA public TO clerk",
]


def desk_with(url: str, runs: int, *lost: int) -> Desk:
    return Desk(url, *(run(number, namespace="lost" if number in lost else "team") for number in range(runs)))


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hyperscale.control.history.recorder.RETRY_SECONDS", 0.01)
    monkeypatch.setattr("hyperscale.control.history.recorder.SETTLE_SECONDS", 0.0)


@pytest.fixture
def slow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A file that refuses the namespace "lost", and whose every transaction takes a while."""
    url = f"sqlite:///{tmp_path}/h"
    RunStore(url).close()
    with closing(sqlite3.connect(tmp_path / "h")) as file, file:
        file.execute(REFUSE)
    monkeypatch.setattr(call_database, "__defaults__", (CALL_SECONDS,))

    def wait(_: object) -> None:
        time.sleep(SLOW_SECONDS)

    event.listen(Engine, "begin", wait)
    yield url
    event.remove(Engine, "begin", wait)


def test_a_refused_run_holds_up_no_other_on_a_slow_database(slow: str, caplog: pytest.LogCaptureFixture) -> None:
    desk = desk_with(slow, BATCH, BATCH // 2)
    desk.work()
    with closing(RunStore(slow)) as store:
        assert {each.uid for each in store.runs(BATCH)} == {str(number) for number in range(BATCH) if number != BATCH // 2}
    (said,) = named(caplog)
    assert said.startswith("history: the run of lost/cora cannot be kept: ")
    assert said.endswith("not this one")
    assert desk.failures == 1


def test_runs_that_are_all_refused_end_over_rounds_though_calls_fail_between(slow: str, caplog: pytest.LogCaptureFixture) -> None:
    record, calls = RunStore.record, list[int]()

    def cut(store: RunStore, runs: object) -> int:
        calls.append(1)
        if len(calls) % 40 == 0:
            raise OSError("the connection is cut")
        return record(store, runs)  # type: ignore[arg-type]

    desk = desk_with(slow, 120, *range(100))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RunStore, "record", cut)
        desk.work()
    assert len(named(caplog)) == 100
    with closing(RunStore(slow)) as store:
        assert len(store.runs(BATCH)) == 20


def test_a_database_that_is_too_slow_for_a_batch_is_asked_for_less(slow: str, monkeypatch: pytest.MonkeyPatch) -> None:
    record, sizes = RunStore.record, list[int]()

    def by_row(store: RunStore, runs: tuple[object, ...]) -> int:
        sizes.append(len(runs))
        time.sleep(0.004 * len(runs))
        return record(store, runs)  # type: ignore[arg-type]

    monkeypatch.setattr(RunStore, "record", by_row)
    desk_with(slow, BATCH).work()
    assert sizes[0] == BATCH
    assert min(sizes) < BATCH // 2


@pytest.fixture
def clerk(server: str, database: psycopg.Connection) -> str:
    """URL of an account that owns nothing: PostgreSQL applies row security to it."""
    for change in ("DROP OWNED BY clerk", *ACCOUNT):
        if not change.startswith("DROP OWNED") or database.execute("SELECT FROM pg_roles WHERE rolname = 'clerk'").rowcount:
            database.execute(change.encode())
    return server.replace("hyperscale@", "clerk@")


@pytest.mark.parametrize("changes", [RAISING, ROW_SECURITY], ids=["trigger", "row security"])
def test_a_run_that_a_trigger_or_row_security_refuses_is_given_up_alone(
    database: psycopg.Connection, clerk: str, changes: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    for change in changes:
        database.execute(change.encode())
    desk = desk_with(clerk, 40, 0, 7)
    desk.work()
    assert database.execute("SELECT FROM hyperscale_runs").rowcount == 38
    said = named(caplog)
    assert len(said) == desk.failures == 2
    assert all("not this one" in each or "row-level security" in each for each in said)


@pytest.mark.parametrize("runs", [1, 120])
def test_runs_that_are_all_refused_for_a_missing_right_wait_until_it_is_granted(
    database: psycopg.Connection, clerk: str, runs: int, caplog: pytest.LogCaptureFixture
) -> None:
    database.execute("REVOKE INSERT ON hyperscale_runs FROM clerk")
    desk = desk_with(clerk, runs)
    desk.work_until(lambda: desk.failures >= 4)
    assert named(caplog) == []
    assert len(desk.recorder._waiting) == runs
    assert "permission denied for table hyperscale_runs" in caplog.text
    database.execute("GRANT INSERT ON hyperscale_runs TO clerk")
    desk.work()
    assert database.execute("SELECT FROM hyperscale_runs").rowcount == runs


def test_a_run_that_row_security_refuses_waits_until_another_is_taken(
    database: psycopg.Connection, clerk: str, caplog: pytest.LogCaptureFixture
) -> None:
    for change in ROW_SECURITY:
        database.execute(change.encode())
    desk = desk_with(clerk, 1, 0)
    desk.work_until(lambda: desk.failures >= 2)
    assert (len(desk.recorder._waiting), named(caplog)) == (1, []), "perhaps every run is refused"
    desk.wait(run(1))
    desk.work()
    assert len(named(caplog)) == 1


def test_many_runs_that_row_security_refuses_hold_up_no_other(
    database: psycopg.Connection, clerk: str, caplog: pytest.LogCaptureFixture
) -> None:
    for change in ROW_SECURITY:
        database.execute(change.encode())
    desk_with(clerk, 200, *range(199)).work()
    assert database.execute("SELECT FROM hyperscale_runs").rowcount == 1
    assert len(named(caplog)) == 199


async def test_a_row_whose_fault_looks_like_the_database_s_holds_up_none_behind_it() -> None:
    waiting, given_up = {number: number for number in range(20)}, []
    writer: RowWriter[int, int] = RowWriter(20, lambda count: None, lambda row, error: given_up.append(row))

    def write(rows: tuple[int, ...]) -> int:
        if 0 in rows:
            raise OSError("cancelled by a trigger")
        return len(rows)

    for _ in range(10):
        with suppress(OSError):
            await writer.write(waiting, write)
    assert (waiting, given_up) == ({0: 0}, [])
