"""Tables that earlier versions made: columns and indexes that they lack are added where that is allowed, and done without elsewhere.

While a change waits for a table's lock, all later writes of that table wait behind it. So no change waits long.
"""

from __future__ import annotations

import logging
from typing import Final

import sqlalchemy as sql
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.schema import CreateIndex

LOCK_SECONDS: Final = 1
"""For which a change waits for the lock of its table."""
_BUSY_STATES: Final = ("55P03", "57014")
"""PostgreSQL's codes where a lock or a statement took too long."""
_BUSY_CODES: Final = (5, 6)
"""SQLITE_BUSY and SQLITE_LOCKED."""
_LOG = logging.getLogger(__name__)


def make_table(engine: sql.Engine, table: sql.Table) -> None:
    """Make a table; raises SQLAlchemyError where it is still missing then: another operator may make it in the same moment."""
    try:
        table.create(engine, checkfirst=True)
    except SQLAlchemyError:
        if not sql.inspect(engine).has_table(table.name):
            raise


def present_columns(engine: sql.Engine, table: sql.Table, *, add: bool) -> frozenset[str]:
    """Return the names of the table's columns that the database has. Raises SQLAlchemyError where it cannot be read.

    add: add the missing ones first. Another operator may do so at the same time, and an account may lack the right: neither is a fault.
    """
    there = _names(engine, table)
    missing = [column for column in table.columns if column.name not in there]
    if not add or not missing:
        return there
    for column in missing:
        kind = column.type.compile(engine.dialect)
        change = sql.text(f"ALTER TABLE {table.name} ADD COLUMN {column.name} {kind}")
        if not _is_free_after(engine, change, f"column {column.name} of {table.name}"):
            break
    return _names(engine, table)


def add_indexes(engine: sql.Engine, table: sql.Table) -> None:
    """Make the indexes of the table that the database lacks.

    Another operator may do so at the same time, and an account may lack the right: neither is a fault. Without them answers take longer.
    The first change that waits too long is the last; a later start tries again.
    """
    try:
        present = {str(index["name"]) for index in sql.inspect(engine).get_indexes(table.name)}
    except SQLAlchemyError as error:
        _LOG.info("history: indexes of %s were not read: %s", table.name, _line(error))
        return
    for index in sorted(table.indexes, key=lambda each: str(each.name)):
        if str(index.name) not in present and not _is_free_after(engine, CreateIndex(index), f"index {index.name} of {table.name}"):
            return


def _is_free_after(engine: sql.Engine, change: sql.Executable, name: str) -> bool:
    """Make a change of a table; False where the table was in use for too long. Any other fault is logged only."""
    limit = (
        f"SET LOCAL lock_timeout = '{LOCK_SECONDS}s'" if engine.dialect.name == "postgresql" else f"PRAGMA busy_timeout = {LOCK_SECONDS}000"
    )
    try:
        with engine.begin() as connection:
            connection.exec_driver_sql(limit)
            connection.execute(change)
    except SQLAlchemyError as error:
        if _is_busy(error):
            _LOG.warning("history: %s was not added, the table is in use; the next start tries again: %s", name, _line(error))
            return False
        _LOG.info("history: %s was not added: %s", name, _line(error))
    return True


def _is_busy(error: SQLAlchemyError) -> bool:
    """Whether a lock, or a statement, took too long."""
    cause = getattr(error, "orig", None)
    return getattr(cause, "sqlstate", None) in _BUSY_STATES or getattr(cause, "sqlite_errorcode", 0) & 0xFF in _BUSY_CODES


def _line(error: SQLAlchemyError) -> str:
    return " ".join(str(getattr(error, "orig", None) or error).split())[:200]


def _names(engine: sql.Engine, table: sql.Table) -> frozenset[str]:
    wanted = {column.name for column in table.columns}
    return frozenset(column["name"] for column in sql.inspect(engine).get_columns(table.name) if column["name"] in wanted)
