"""The database of history: SQLite or PostgreSQL by its URL, and errors that show no password. Blocking: call it in a thread."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Final

import sqlalchemy as sql
from sqlalchemy.exc import SQLAlchemyError

from hyperscale.control.history.runs_table import METADATA
from hyperscale.control.history.table_columns import present_columns

CONNECT_SECONDS: Final = 5


class HistoryError(OSError):
    """The database cannot be used; one line, without the password of its URL."""


class Database:
    """An engine for one URL."""

    def __init__(self, url: str, table: str, *, make: bool = True) -> None:
        """url: as SQLAlchemy writes it; postgresql:// means psycopg. Makes the tables where they are missing, or raises HistoryError.

        `make` False only looks: where `table` is not there that is an error, and no other's database gets a table.
        """
        try:
            address = sql.make_url(url)
        except (SQLAlchemyError, ValueError) as error:
            raise HistoryError(_BAD_URL) from error
        kind = address.get_backend_name()
        if kind not in ("sqlite", "postgresql"):
            raise HistoryError(_BAD_URL)
        limits = {"connect_timeout": CONNECT_SECONDS} if kind == "postgresql" else {"timeout": CONNECT_SECONDS}
        if address.drivername == "postgresql":
            address = address.set(drivername="postgresql+psycopg")
        # libpq takes passwords in the query too, and SQLAlchemy hides none there.
        secret = [key for key in address.query if "password" in key.lower()]
        self._shown = address.difference_update_query(secret).render_as_string(hide_password=True)
        try:
            # A file is opened for each transaction: a thread that is still reading at the end closes what it opened.
            pool = sql.NullPool if kind == "sqlite" else None
            self.engine = sql.create_engine(address, poolclass=pool, pool_pre_ping=True, connect_args=limits)
            with contextlib.ExitStack() as refused:
                refused.callback(self.engine.dispose)
                if make:
                    METADATA.create_all(self.engine)
                elif not _is_there(address) or not sql.inspect(self.engine).has_table(table):
                    raise HistoryError(f"{self._shown}: no history of runs is there; write the database that the operator records to")
                self.columns = present_columns(self.engine, METADATA.tables[table], add=make)
                """Of `table`, those that the database has."""
                refused.pop_all()
        except (SQLAlchemyError, ImportError) as error:
            raise self.fault(error) from error

    def close(self) -> None:
        """Close all connections."""
        self.engine.dispose()

    def fault(self, error: Exception) -> HistoryError:
        """Return an error as one line."""
        cause = getattr(error, "orig", None) or error
        return HistoryError(f"{self._shown}: {' '.join(str(cause).split())[:300]}")


def _is_there(address: sql.URL) -> bool:
    """False where connecting would make an empty file."""
    return address.get_backend_name() != "sqlite" or Path(address.database or "").is_file()


_BAD_URL: Final = "the history's URL cannot be read; write sqlite:////FILE or postgresql://USER:PASSWORD@HOST/DATABASE"
