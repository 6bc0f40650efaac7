"""Tables that earlier versions made: columns and indexes that they lack are added where that is allowed, and done without elsewhere."""

from __future__ import annotations

import logging

import sqlalchemy as sql
from sqlalchemy.exc import SQLAlchemyError

_LOG = logging.getLogger(__name__)


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
        try:
            with engine.begin() as connection:
                connection.execute(sql.text(f"ALTER TABLE {table.name} ADD COLUMN {column.name} {kind}"))
        except SQLAlchemyError as error:
            _LOG.info("history: column %s of %s was not added: %s", column.name, table.name, " ".join(str(error).split())[:200])
    return _names(engine, table)


def add_indexes(engine: sql.Engine, table: sql.Table) -> None:
    """Make the indexes of the table that the database lacks. Raises SQLAlchemyError where it cannot be read.

    Another operator may do so at the same time, and an account may lack the right: neither is a fault. Without them answers take longer.
    """
    there = {str(index["name"]) for index in sql.inspect(engine).get_indexes(table.name)}
    for index in sorted(table.indexes, key=lambda each: str(each.name)):
        if str(index.name) in there:
            continue
        try:
            index.create(engine)
        except SQLAlchemyError as error:
            _LOG.info("history: index %s of %s was not added: %s", index.name, table.name, " ".join(str(error).split())[:200])


def _names(engine: sql.Engine, table: sql.Table) -> frozenset[str]:
    wanted = {column.name for column in table.columns}
    return frozenset(column["name"] for column in sql.inspect(engine).get_columns(table.name) if column["name"] in wanted)
