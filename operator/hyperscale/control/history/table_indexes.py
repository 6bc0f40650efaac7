"""Indexes that tables of earlier versions lack are added where that is allowed, and done without where it is not."""

from __future__ import annotations

import logging

import sqlalchemy as sql
from sqlalchemy.exc import SQLAlchemyError

_LOG = logging.getLogger(__name__)


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
