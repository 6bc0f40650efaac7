"""A server that logs an account in and then answers nothing: a fault like any other, and no thread stays behind."""

from __future__ import annotations

import asyncio
import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import closing, nullcontext, suppress

import psycopg
import pytest
import sqlalchemy as sql

from hyperscale.control.history import database_calls
from hyperscale.control.history.database_calls import SilentDatabaseError, call_database
from hyperscale.control.history.decision_recorder import DecisionRecorder
from hyperscale.control.history.decision_store import DecisionStore
from hyperscale.control.history.recorder import RunRecorder
from hyperscale.control.specs.parsed_specs import JobReader
from hyperscale.control.telemetry.metrics import Telemetry
from tests.unit.control.history.test_finished_runs import server as server

READY = b"Z" + struct.pack("!I", 5) + b"I"


def logged_in() -> bytes:
    """Return what PostgreSQL sends to an account that needs no password."""
    answer = b"R" + struct.pack("!II", 8, 0)
    for parameter in (b"server_version\x0016.0\0", b"client_encoding\0UTF8\0", b"standard_conforming_strings\0on\0"):
        answer += b"S" + struct.pack("!I", 4 + len(parameter)) + parameter
    return answer + b"K" + struct.pack("!III", 12, 1, 2) + READY


@pytest.fixture
def silent() -> Iterator[str]:
    """The URL of such a server."""
    server = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        with suppress(OSError):
            while True:
                threading.Thread(target=hear, args=(server.accept()[0],), daemon=True).start()

    def hear(client: socket.socket) -> None:
        with client, suppress(OSError):
            client.recv(4096)
            client.sendall(logged_in())
            while client.recv(4096):
                pass

    threading.Thread(target=serve, daemon=True).start()
    yield f"postgresql://u@127.0.0.1:{server.getsockname()[1]}/h?sslmode=disable&gssencmode=disable"
    server.close()


@pytest.mark.parametrize(("more", "limit"), [("", "1min"), ("&options=-c%20statement_timeout%3D5s", "5s")])
def test_a_statement_ends_in_a_minute_where_the_url_sets_no_other_limit(server: str, more: str, limit: str) -> None:
    with closing(DecisionStore(server + more)) as store, store._database.engine.connect() as connection:
        assert connection.scalar(sql.text("SHOW statement_timeout")) == limit


async def until_no_thread_is_left() -> None:
    async with asyncio.timeout(20.0):
        while database_calls._LEFT:  # noqa: ASYNC110 - threads end, which no task sees
            await asyncio.sleep(0.01)


async def test_a_call_ends_in_time_and_its_thread_ends_too(silent: str) -> None:
    with pytest.raises(SilentDatabaseError, match="has not answered in 0 s"):
        await call_database(lambda: DecisionStore(silent), 0.3)
    await until_no_thread_is_left()


async def test_both_recorders_count_and_name_the_fault(
    silent: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(call_database, "__defaults__", (0.3,))
    telemetry, reader = Telemetry(), JobReader()
    decisions, runs = DecisionRecorder(reader, telemetry, silent, time.time), RunRecorder(reader, telemetry, silent, 1, time.time)
    tasks = [asyncio.create_task(decisions.run()), asyncio.create_task(runs.run())]
    async with asyncio.timeout(20.0):
        while sum("has not answered" in record.getMessage() for record in caplog.records) < 2:  # noqa: ASYNC110 - nothing else tells
            await asyncio.sleep(0.01)
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    assert telemetry.history_failures._value.get() == 2.0
    await until_no_thread_is_left()


async def test_threads_that_cannot_be_ended_are_few() -> None:
    blocked = threading.Event()
    for _ in range(database_calls.MOST_LEFT):
        with pytest.raises(SilentDatabaseError):
            await call_database(blocked.wait, 0.01)
    with pytest.raises(SilentDatabaseError, match="earlier calls"):
        await call_database(blocked.wait)
    blocked.set()
    await until_no_thread_is_left()
    assert await call_database(lambda: 7) == 7


async def test_a_call_that_raises_a_timeout_of_its_own_is_no_silence() -> None:
    def work() -> None:
        raise TimeoutError("of the file")

    with pytest.raises(TimeoutError, match="of the file"):
        await call_database(work)


@pytest.mark.parametrize("fails", [False, True])
async def test_no_connection_outlives_its_call(server: str, fails: bool) -> None:
    connections: list[psycopg.Connection] = []

    def work() -> None:
        connections.append(psycopg.connect(server.replace("+psycopg", "")))
        database_calls.note_connection(connections[0])
        if fails:
            connections[0].execute("SELECT FROM nowhere")

    with pytest.raises(psycopg.Error) if fails else nullcontext():
        await call_database(work)
    assert connections[0].closed


async def test_a_connection_that_comes_after_the_end_of_its_call_is_cut() -> None:
    here, there = socket.socketpair()
    late = threading.Event()

    def work() -> None:
        late.wait()
        database_calls.note_connection(here)

    with closing(here), closing(there):
        with pytest.raises(SilentDatabaseError):
            await call_database(work, 0.01)
        late.set()
        await until_no_thread_is_left()
        assert there.recv(1) == b""
