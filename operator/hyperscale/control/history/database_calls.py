"""Calls of the database of history, in threads of their own and for a bounded time."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import threading
from collections.abc import Callable
from typing import Final, Protocol, TypeVar

from hyperscale.util.threads import in_daemon_thread

T = TypeVar("T")

CALL_SECONDS: Final = 120.0
LEARN_SECONDS: Final = 900.0
"""Of a call that also computes."""
MOST_LEFT: Final = 8
"""Threads that were given up and are still busy; beyond that no call is begun."""


class SilentDatabaseError(OSError):
    """The database answered nothing in time."""


class ServerConnection(Protocol):
    """A connection over a socket, as psycopg makes it."""

    def fileno(self) -> int:
        """Of the socket; raises where the connection is closed."""
        ...


class _Call:
    """One call, and the connections that it made."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._connections: list[ServerConnection] = []
        self._ended = False
        self._finished = False

    def add(self, connection: ServerConnection) -> None:
        with self._lock:
            self._connections.append(connection)
            if self._ended:
                _cut(connection)

    def finish(self) -> None:
        """Its thread is done."""
        with self._lock:
            self._finished = True
            _LEFT.discard(self)

    def end(self) -> None:
        """Give it up: cut its connections, and those that it still makes, so that its thread ends with an error."""
        with self._lock:
            self._ended = True
            if not self._finished:
                _LEFT.add(self)
            for connection in self._connections:
                _cut(connection)


_HERE: Final = threading.local()
_LEFT: Final[set[_Call]] = set()


async def call_database(work: Callable[[], T], seconds: float = CALL_SECONDS) -> T:
    """Return the outcome of `work`, which runs in a thread. Raises what it raises, and SilentDatabaseError after `seconds`."""
    if len(_LEFT) >= MOST_LEFT:
        raise SilentDatabaseError(f"{MOST_LEFT} earlier calls of the database have not ended yet")
    call = _Call()

    def run() -> T:
        _HERE.call = call
        try:
            return work()
        finally:
            call.finish()

    deadline = asyncio.timeout(seconds)
    try:
        async with deadline:
            return await in_daemon_thread(run)
    except TimeoutError as error:
        if not deadline.expired():
            raise
        raise SilentDatabaseError(f"the database has not answered in {seconds:.0f} s") from error
    finally:
        if deadline.expired():
            call.end()


def note_connection(connection: ServerConnection) -> None:
    """Make a new connection one of the call whose thread this is, if it is one's."""
    call: _Call | None = getattr(_HERE, "call", None)
    if call is not None:
        call.add(connection)


def _cut(connection: ServerConnection) -> None:
    """Shut the socket down; the connection itself belongs to its thread."""
    with contextlib.suppress(Exception), socket.socket(fileno=os.dup(connection.fileno())) as duplicate:  # it may be closed by now
        duplicate.shutdown(socket.SHUT_RDWR)
