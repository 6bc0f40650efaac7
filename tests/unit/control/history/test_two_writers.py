"""Two operators that write to one database, as during a hand-over: a row that the other one wrote is not lost."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import psycopg
import pytest
from msgspec.structs import asdict, replace

from hyperscale.control.history.database_calls import RowRefusedError
from hyperscale.control.history.run_store import RunStore
from hyperscale.control.history.runs_table import FinishedRun
from hyperscale.evaluate.calibration.lessons import NodeLife
from tests.unit.control.history.recording import Desk, named
from tests.unit.control.history.test_finished_runs import run, server
from tests.unit.control.history.test_lost_rows import database

__all__ = ["database", "server"]
ISOLATIONS = ["read committed", "repeatable read", "serializable"]


def at(server: str, isolation: str) -> str:
    """URL whose transactions have this isolation, as an administrator may set for an account."""
    return f"{server}&options=-c%20default_transaction_isolation%3D{isolation.replace(' ', '%5C%20')}"


def overtaken(server: str, work: Callable[[], int], *other: FinishedRun) -> int:
    """Return what `work` returns while another operator has written these runs and not committed them yet."""
    with psycopg.connect(server) as connection, ThreadPoolExecutor(1) as pool, psycopg.connect(server, autocommit=True) as watch:
        for each in other:
            row = asdict(each)
            connection.execute("DELETE FROM hyperscale_runs WHERE uid = %s", [each.uid])
            names, values = ", ".join(row), ", ".join(f"%({name})s" for name in row)
            connection.execute(f"INSERT INTO hyperscale_runs ({names}) VALUES ({values})".encode(), row)  # noqa: S608 - of our own table
        answer = pool.submit(work)
        while not watch.execute("SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock'").rowcount and not answer.done():
            threading.Event().wait(0.01)
        connection.commit()
        return answer.result(20.0)


@pytest.mark.parametrize("isolation", ISOLATIONS)
def test_a_run_that_another_operator_writes_in_the_same_moment_is_not_lost(
    server: str, database: psycopg.Connection, isolation: str
) -> None:
    with closing(RunStore(at(server, isolation))) as store:
        assert overtaken(server, lambda: store.record([run(1)]), run(1)) == 0
        assert overtaken(server, lambda: store.record([run(1), run(2)]), run(1)) == 1
        assert {each.uid for each in store.runs(10)} == {"1", "2"}


@pytest.mark.parametrize("isolation", ISOLATIONS)
def test_a_run_that_both_tell_anew_is_there_once(server: str, database: psycopg.Connection, isolation: str) -> None:
    told = replace(run(1), measured="{}")
    with closing(RunStore(at(server, isolation))) as store:
        store.record([run(1)])
        assert overtaken(server, lambda: store.record([told]), told) == 0
        assert store.runs(10) == (told,)


def test_a_unique_index_of_an_administrator_still_refuses(server: str, database: psycopg.Connection) -> None:
    database.execute("CREATE UNIQUE INDEX once ON hyperscale_runs (name)")
    with closing(RunStore(server)) as store:
        store.record([run(1)])
        with pytest.raises(RowRefusedError, match="once"):
            store.record([run(2)])
        assert [each.uid for each in store.runs(10)] == ["1"]


async def test_two_operators_that_write_the_same_runs_count_no_failure(
    server: str, database: psycopg.Connection, caplog: pytest.LogCaptureFixture
) -> None:
    runs = [run(number) for number in range(300)]
    desks = [Desk(server, *runs), Desk(server, *reversed(runs))]
    with closing(RunStore(server)) as store:
        for batch in (1, 7, 300):
            database.execute("DELETE FROM hyperscale_runs")
            for desk, order in zip(desks, (runs, runs[::-1]), strict=True):
                desk.recorder._waiting = {each.uid: each for each in order[:batch]}
                desk.recorder._run_writer._at_once = batch
            await asyncio.gather(*(desk.recorder._write_runs(store) for desk in desks))
    assert [desk.failures for desk in desks] == [0, 0]
    assert named(caplog) == []
    assert database.execute("SELECT FROM hyperscale_runs").rowcount == 300


def test_a_life_of_a_node_that_both_write_is_kept(server: str, database: psycopg.Connection) -> None:
    lives = [NodeLife(name, "H100", 1.0) for name in "abcdefgh"]
    with closing(RunStore(server)) as store, ThreadPoolExecutor(2) as pool:
        for _ in range(20):
            database.execute("DELETE FROM hyperscale_node_lives")
            written = [pool.submit(store.keep_lives, "one", order) for order in (lives, lives[::-1])]
            assert [each.result(20.0) for each in written] == [8, 8]
            assert len(store.node_lives("one")) == 8
