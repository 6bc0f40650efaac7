"""Calls of the database of history, in threads of their own and for a bounded time, how they fail, and rows that they write.

Rows are written as many at once as the database takes. A refused row is found by halving. Each try is a call with a time limit of its
own, and what it wrote waits no longer: a slow database gets further in every round.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import threading
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from itertools import islice
from typing import Final, Generic, NamedTuple, Protocol, TypeVar

from hyperscale.util.threads import in_daemon_thread

T = TypeVar("T")
Key = TypeVar("Key")
Row = TypeVar("Row")

CALL_SECONDS: Final = 120.0
LEARN_SECONDS: Final = 900.0
"""Of a call that also computes."""
MOST_LEFT: Final = 8
"""Threads that were given up and are still busy; beyond that no call is begun."""
MAX_DOUBTED: Final = 50
"""Rows that are refused alone, one after the other and none taken, before the rest waits for the next round."""


class SilentDatabaseError(OSError):
    """The database answered nothing in time."""


class HistoryError(OSError):
    """The database cannot be used; one line, without the password of its URL."""


class RowRefusedError(HistoryError):
    """The database does not keep a row, and will not if asked again."""


class RightMissingError(RowRefusedError):
    """The account may not write a row; perhaps it may write none."""


class ServerConnection(Protocol):
    """A connection over a socket, as psycopg makes it."""

    def fileno(self) -> int:
        """Of the socket; raises where the connection is closed."""
        ...

    def close(self) -> None:
        """End it; nothing where it is closed."""
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
        """Its thread is done; none of its connections outlives it, whatever error ended the call."""
        with self._lock:
            self._finished = True
            _LEFT.discard(self)
            for connection in self._connections:
                with contextlib.suppress(Exception):
                    connection.close()

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


async def fault_of(work: Awaitable[None]) -> Exception | None:
    """Return how work failed: what a database does not do is no reason to leave the rest. Raises SilentDatabaseError."""
    try:
        await work
    except SilentDatabaseError:
        raise  # the rest would be silent too
    except Exception as error:  # the caller raises it, once the rest is done
        return error
    return None


def note_connection(connection: ServerConnection) -> None:
    """Make a new connection one of the call whose thread this is, if it is one's."""
    call: _Call | None = getattr(_HERE, "call", None)
    if call is not None:
        call.add(connection)


def _cut(connection: ServerConnection) -> None:
    """Shut the socket down; the connection itself belongs to its thread."""
    with contextlib.suppress(Exception), socket.socket(fileno=os.dup(connection.fileno())) as duplicate:  # it may be closed by now
        duplicate.shutdown(socket.SHUT_RDWR)


class _Doubt(NamedTuple, Generic[Row]):
    """A row that was refused alone."""

    row: Row
    error: RowRefusedError


class RowWriter(Generic[Key, Row]):
    """Writes rows that wait, the oldest first."""

    def __init__(self, most: int, taken: Callable[[int], None], given_up: Callable[[Row, RowRefusedError], None]) -> None:
        """most: rows at once; `taken` hears how many were written, `given_up` of each row that the database does not keep."""
        self._most = self._at_once = most
        self._taken, self._given_up = taken, given_up

    async def write(self, waiting: dict[Key, Row], write: Callable[[tuple[Row, ...]], int]) -> None:
        """Write all that waits and take it out of `waiting`; rows may come meanwhile. `write` returns how many rows were not there.

        Raises what `write` raises, and SilentDatabaseError: the next round begins with half as many rows at once.
        A missing right may be that of one row or of all. Such a row is given up once the database has taken another one in this round;
        else it still waits, and RightMissingError is raised.
        """
        doubted: dict[Key, _Doubt[Row]] = {}
        some_taken = False
        while len(doubted) < MAX_DOUBTED and (batch := self._next(waiting, doubted)):
            try:
                count = await call_database(partial(write, tuple(batch.values())))
            except RowRefusedError as error:
                if self._halve(waiting, batch):
                    continue
                doubted |= self._doubts(waiting, batch, error, some_taken=some_taken)
            except Exception:
                self._halve(waiting, batch)
                raise
            else:
                self._at_once = min(self._most, 2 * self._at_once)
                _remove(waiting, batch)
                if count:
                    self._taken(count)
                    self._give_up(waiting, doubted)
                    some_taken, doubted = True, {}
        if left := _put_last(waiting, {key: doubt.row for key, doubt in doubted.items()}):
            raise doubted[left[0]].error

    def _halve(self, waiting: dict[Key, Row], batch: Mapping[Key, Row]) -> bool:
        """Whether fewer rows at once can be tried; a row that failed alone goes last: the fault may be its own, whatever its kind says."""
        self._at_once = (len(batch) + 1) // 2
        if len(batch) == 1:
            _put_last(waiting, batch)
        return len(batch) > 1

    def _doubts(
        self, waiting: dict[Key, Row], batch: Mapping[Key, Row], error: RowRefusedError, *, some_taken: bool
    ) -> dict[Key, _Doubt[Row]]:
        """The refused row where the right may be missing for all rows; else it is given up."""
        refused = {key: _Doubt(row, error) for key, row in batch.items()}
        if isinstance(error, RightMissingError) and not some_taken:
            return refused
        self._give_up(waiting, refused)
        return {}

    def _next(self, waiting: Mapping[Key, Row], doubted: Mapping[Key, _Doubt[Row]]) -> dict[Key, Row]:
        untried = ((key, row) for key, row in waiting.items() if key not in doubted or doubted[key].row is not row)
        return dict(islice(untried, self._at_once))

    def _give_up(self, waiting: dict[Key, Row], refused: Mapping[Key, _Doubt[Row]]) -> None:
        _remove(waiting, {key: doubt.row for key, doubt in refused.items()})
        for doubt in refused.values():
            self._given_up(doubt.row, doubt.error)


def _put_last(waiting: dict[Key, Row], rows: Mapping[Key, Row]) -> list[Key]:
    """Let the next round begin with others; those of the rows that still wait."""
    left = [key for key, row in rows.items() if waiting.get(key) is row]
    for key in left:
        waiting[key] = waiting.pop(key)
    return left


def _remove(waiting: dict[Key, Row], done: Mapping[Key, Row]) -> None:
    """Take rows out; what came in the place of one meanwhile stays."""
    for key, row in done.items():
        if waiting.get(key) is row:
            del waiting[key]
