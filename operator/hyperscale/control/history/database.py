"""The database of history: SQLite or PostgreSQL by its URL, and errors that show no password. Blocking: call it in a thread."""

from __future__ import annotations

import contextlib
import logging
import re
import sqlite3
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

import sqlalchemy as sql
from sqlalchemy import event
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.exc import DataError, IntegrityError, SQLAlchemyError

from hyperscale.control.history.database_calls import HistoryError as HistoryError
from hyperscale.control.history.database_calls import RightMissingError, RowRefusedError, note_connection
from hyperscale.control.history.runs_table import METADATA, RUNS
from hyperscale.control.history.table_columns import add_indexes, make_table, present_columns

CONNECT_SECONDS: Final = 5
STATEMENT_SECONDS: Final = 60
"""Of one statement, where the account or the URL sets no limit of its own."""
SERVER_LIMITS: Final = {
    "connect_timeout": CONNECT_SECONDS,
    "tcp_user_timeout": 30_000,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
}
"""Of libpq: a server whose machine is gone is a fault after half a minute."""
BAD_URL: Final = (
    "the history's URL cannot be read; write sqlite:////FILE or postgresql://USER:PASSWORD@HOST/DATABASE, and %40 for an @ in the password"
)
ANOTHER_DATABASE: Final = "name a database with the table that the operator records to"
WRITES: Final = (1 << 2) | (1 << 3) | (1 << 4)
"""Bits of pg_relation_is_updatable for UPDATE, INSERT and DELETE (PostgreSQL's CmdType)."""
PRINTS_ROW: Final = ("23502", "23514", "44000")
"""PostgreSQL's codes whose detail is the whole refused row: a missing value, and a table's or a view's check."""
REFUSES_ROWS: Final = ("44", "54", "P0")
"""Classes of PostgreSQL's codes for what a view's CHECK OPTION or a trigger refuses, and what is too large for an index."""
NO_RIGHT: Final = "42501"
"""PostgreSQL's code for a row that row-level security or a trigger's rights refuse, and for a table without a grant."""
OVERTAKEN: Final = ("23505", "40001", "40P01")
"""PostgreSQL's codes where another writer may have been faster: a key that is there by now, and a transaction to begin again."""
MAX_TRIES: Final = 3
"""Of a transaction that other writers overtake."""
UNKEEPABLE: Final = (DataError, IntegrityError, ValueError, OverflowError)
"""What says that a row holds what the database does not take. sqlite3 raises OverflowError for an integer beyond 64 bits."""
LOST: Final = "the database took the row and does not keep it"
"""As by a rule DO INSTEAD NOTHING, by a trigger, or in a view that does not show the row."""
HIDDEN: Final = "***"
MIN_SECRET: Final = 4
"""Characters. Shorter ones are parts of words: the gaps would tell them."""
SHOWN_OPTIONS: Final = frozenset(
    {
        *("host", "hostaddr", "port", "user", "dbname", "service", "sslmode", "gssencmode", "channel_binding", "options"),
        *("connect_timeout", "keepalives", "tcp_user_timeout", "application_name", "target_session_attrs"),
        *("timeout", "mode", "uri", "check_same_thread"),
    }
)
"""Options of a URL whose values are printed; any other may be a mistyped password."""
T = TypeVar("T")
_LOG = logging.getLogger(__name__)
_MAKING: Final = threading.Lock()
"""Stores of one process open side by side: one makes the tables, the others find them."""
_refused: set[tuple[str, str]] = set()
"""Database and table that could not be made, each named in the log once."""


class Database:
    """An engine for one URL."""

    def __init__(self, url: str | sql.URL, table: str, *, make: bool = True) -> None:
        """url: as SQLAlchemy writes it; postgresql:// means psycopg. Makes the tables where they are missing, or raises HistoryError.

        Another table than `table` that the account may not make is done without.
        `make` False only looks: where `table` is not there that is an error, and no other's database gets a table.
        """
        try:
            self._address = address = database_address(url)
        except ValueError as error:
            raise HistoryError(str(error)) from error
        self._shown = shown_address(address)
        try:
            self.engine = _engine(address)
            with contextlib.ExitStack() as refused:
                refused.callback(self.engine.dispose)
                if make:
                    with _MAKING:
                        self._make_tables(table)
                elif fault := self._absence(address, table):
                    raise HistoryError(f"{self._shown}: {fault}")
                self.tables = self._usable_tables(table, make)
                """Those that the database has: an account may lack the right to make them."""
                self.columns = present_columns(self.engine, METADATA.tables[table], add=make)
                """Of `table`, those that the database has."""
                if lacking := [
                    column.name for column in METADATA.tables[table].columns if not column.nullable and column.name not in self.columns
                ]:
                    raise HistoryError(f"{self._shown}: {table} lacks {', '.join(lacking)}; {ANOTHER_DATABASE}")
                if make:
                    add_indexes(self.engine, METADATA.tables[table])
                refused.pop_all()
        except (SQLAlchemyError, ImportError, TypeError, ValueError) as error:  # drivers raise the last two for options of the URL
            raise self.fault(error) from error

    def _make_tables(self, wanted: str) -> None:
        """Make each missing table alone; raises SQLAlchemyError where `wanted` stays missing."""
        for table in METADATA.sorted_tables:
            if sql.inspect(self.engine).has_table(table.name):
                continue
            try:
                make_table(self.engine, table)
            except SQLAlchemyError as error:
                if table.name == wanted:
                    raise
                self._warn_once(table.name, f"table {table.name} is missing and was not made, it is done without: {self.fault(error)}")

    def _usable_tables(self, wanted: str, record: bool) -> frozenset[str]:
        """The tables, and on PostgreSQL the views that serve instead. Raises HistoryError where `wanted` is none of them.

        record: leave out views that take no rows, as those over several tables and materialized ones
        """
        tables = _tables(self.engine)
        if wanted not in tables:
            raise HistoryError(f"{self._shown}: {wanted} is a view; {ANOTHER_DATABASE}")
        read_only = _read_only(self.engine) if record else dict[str, str]()
        if wanted in read_only:
            fault = f"{wanted} is a view that takes no rows{read_only[wanted]}"
            raise HistoryError(f"{self._shown}: {fault}; rename it, so that a table is made, or {ANOTHER_DATABASE}")
        for name, why in sorted(read_only.items()):
            self._warn_once(name, f"{name} is a view that takes no rows{why}, it is done without; rename it, so that a table is made")
        return tables - read_only.keys()

    def _warn_once(self, table: str, fault: str) -> None:
        if (self._shown, table) not in _refused:
            _refused.add((self._shown, table))
            _LOG.warning("history: %s", fault)

    def _absence(self, address: sql.URL, wanted: str) -> str:
        """Why `wanted` is not in the database, and what to do; "" where it is."""
        if _is_there(address) and sql.inspect(self.engine).has_table(wanted):
            return ""
        if not _is_there(address) or not sql.inspect(self.engine).has_table(RUNS.name):
            return "no history of runs is there; write the database that the operator records to"
        return (
            f"it has no table {wanted}, as an earlier version made it; start the operator of this version with it once, "
            "with an account that may make tables"
        )

    def close(self) -> None:
        """Close all connections."""
        self.engine.dispose()

    def write(self, work: Callable[[sql.Connection], T]) -> T:
        """Return what `work` returns, in one transaction; where another writer overtakes it, it begins again. Raises HistoryError.

        RowRefusedError: a row is not kept. A row that the other one wrote in the same moment is no such row: the next try finds it.
        """
        for left in reversed(range(MAX_TRIES)):
            try:
                with self.engine.begin() as connection:
                    return work(connection)
            except (SQLAlchemyError, *UNKEEPABLE) as error:
                if not left or _state(error) not in OVERTAKEN:
                    raise self.fault(error) from error
        raise AssertionError("the last try has returned or raised")

    def fault(self, error: Exception) -> HistoryError:
        """Return an error as one line; a RowRefusedError where it is about a row, and a RightMissingError where perhaps about every row."""
        said, state = without_password(cause_text(error), self._address), _state(error)
        kind = RowRefusedError if isinstance(error, UNKEEPABLE) or state.startswith(REFUSES_ROWS) else HistoryError
        return (RightMissingError if state == NO_RIGHT else kind)(f"{self._shown}: {said[:300]}")


def _state(error: Exception) -> str:
    """PostgreSQL's code of an error; "" where it has none."""
    return str(getattr(getattr(error, "orig", None), "sqlstate", None) or "")


def cause_text(error: Exception) -> str:
    """Return what the database or its driver says of an error, as one line without the values of a refused row."""
    cause: Any = getattr(error, "orig", None) or error
    primary = cause.diag.message_primary if getattr(cause, "sqlstate", None) in PRINTS_ROW else None
    return " ".join(str(primary or cause).split())


def _engine(address: sql.URL) -> sql.Engine:
    """Connections are opened for each transaction: a thread that is still reading at the end, or was given up, closes its own."""
    server = address.get_backend_name() == "postgresql"
    limits = SERVER_LIMITS if server else {"timeout": CONNECT_SECONDS}
    unstated = {name: value for name, value in limits.items() if name not in address.query}
    engine = sql.create_engine(address, poolclass=sql.NullPool, connect_args=unstated)
    if server:
        event.listen(engine, "do_connect", _connected)
    else:
        event.listen(engine, "connect", _read_any_text)
    return engine


def _read_any_text(connection: sqlite3.Connection, _: object) -> None:
    """Texts that are not UTF-8 are read all the same: one of them hides no other row."""
    connection.text_factory = partial(str, encoding="utf-8", errors="replace")


def _connected(dialect: sql.Dialect, _: object, arguments: Sequence[Any], named: Mapping[str, Any]) -> DBAPIConnection:
    """A connection to a server, whose statements end; the call that makes it can cut it."""
    connection: Any = dialect.connect(*arguments, **named)
    note_connection(connection)
    # No startup option: poolers refuse those.
    connection.execute(
        "SELECT set_config('statement_timeout', %s, false) WHERE current_setting('statement_timeout') = '0'", [f"{STATEMENT_SECONDS}s"]
    )
    connection.commit()
    ready: DBAPIConnection = connection
    return ready


def _tables(engine: sql.Engine) -> frozenset[str]:
    """Tables of history that a database has. Of a SQLite file no views: one over an endless query is never read to its end."""
    inspector = sql.inspect(engine)
    if engine.dialect.name == "sqlite":
        return frozenset(inspector.get_table_names()) & METADATA.tables.keys()
    return frozenset(name for name in METADATA.tables if inspector.has_table(name))


def _read_only(engine: sql.Engine) -> dict[str, str]:
    """History's tables that are views, or foreign tables, to which PostgreSQL writes no rows or from which it deletes none.

    By name, with the columns that alone prevent it: those that a view computes.
    """
    if engine.dialect.name != "postgresql":
        return {}
    wanted = sql.text(
        "SELECT relname, attname, pg_relation_is_updatable(pg_class.oid, true) & :writes = :writes AS takes_rows"
        " FROM pg_class JOIN pg_attribute ON attrelid = pg_class.oid"
        " WHERE relname = ANY(:names) AND pg_table_is_visible(pg_class.oid) AND attnum > 0 AND NOT attisdropped"
        " AND NOT (pg_relation_is_updatable(pg_class.oid, true) & :writes = :writes AND pg_column_is_updatable(pg_class.oid, attnum, true))"
        " ORDER BY relname, attnum"
    )
    computed: dict[str, list[str]] = {}
    with engine.connect() as connection:
        for name, column, takes_rows in connection.execute(wanted, {"names": sorted(METADATA.tables), "writes": WRITES}):
            if column in METADATA.tables[name].columns:
                computed.setdefault(name, []).extend([column] if takes_rows else [])
    return {name: f", it computes {', '.join(columns)}" if columns else "" for name, columns in computed.items()}


def _is_there(address: sql.URL) -> bool:
    """False where connecting would make an empty file."""
    try:
        return address.get_backend_name() != "sqlite" or Path(address.database or "").is_file()
    except OSError:  # such as a name that is too long
        return False


def database_address(url: str | sql.URL) -> sql.URL:
    """Return the URL of a kind that history knows, with its driver. Raises ValueError, whose text repeats nothing from the URL."""
    try:
        address = sql.make_url(url)
    except (SQLAlchemyError, ValueError) as error:
        raise ValueError(BAD_URL) from error
    kind = address.get_backend_name()
    # SQLAlchemy ends a password at its first "@": the rest would be printed as a host or a database.
    if kind not in ("sqlite", "postgresql") or (kind == "postgresql" and "@" in f"{address.host or ''}{address.database or ''}"):
        raise ValueError(BAD_URL)
    return address.set(drivername="postgresql+psycopg") if address.drivername == "postgresql" else address


def shown_address(address: sql.URL) -> str:
    """Return a URL as it may be printed: of the password, and of options that are not SHOWN_OPTIONS, the name only."""
    query = {name: value if name in SHOWN_OPTIONS else "" for name, value in address.query.items()}
    return address.set(query=query).render_as_string(hide_password=True)


def without_password(text: str, address: sql.URL) -> str:
    """Return a fault of a driver without the secrets of the address."""
    options = [value for name, value in address.query.items() if name not in SHOWN_OPTIONS]
    secrets = [each for value in options for each in ([value] if isinstance(value, str) else value)]
    for secret in map(str, filter(None, [address.password, *secrets])):
        if len(secret) >= MIN_SECRET:
            text = text.replace(secret, HIDDEN)
    return text


def masked_source(text: str) -> str:
    """Return the name of a file, which may be a mistyped URL: everything from the first ":" to the last "@" is hidden."""
    return re.sub(r":.*@", f":{HIDDEN}@", text, count=1, flags=re.DOTALL)
