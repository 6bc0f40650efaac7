"""What people decided, in the database of history. Blocking: call it in a thread."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec
import sqlalchemy as sql
from sqlalchemy.exc import SQLAlchemyError

from hyperscale.control.history.database import Database
from hyperscale.control.history.decisions_table import DECISIONS, PersonDecision

MAX_READ: Final = 20_000
"""Newest decisions that are read at once."""


class DecisionStore:
    """The table of decisions."""

    def __init__(self, url: str, *, make: bool = True) -> None:
        """Open the database of that URL, as `Database` does; raises HistoryError."""
        self._database = Database(url, DECISIONS.name, make=make)

    def close(self) -> None:
        """Close all connections."""
        self._database.close()

    def record(self, decisions: Sequence[PersonDecision]) -> int:
        """Keep those that are not there; how many were new. Raises HistoryError."""
        rows = {one.identifier: msgspec.structs.asdict(one) for one in decisions}
        if not rows:
            return 0
        try:
            with self._database.engine.begin() as connection:
                kept = set(connection.scalars(sql.select(DECISIONS.c.identifier).where(DECISIONS.c.identifier.in_(rows))))
                new = [row for identifier, row in rows.items() if identifier not in kept]
                if new:
                    connection.execute(sql.insert(DECISIONS), new)
        except SQLAlchemyError as error:
            raise self._database.fault(error) from error
        return len(new)

    def last(self, uid: str, kind: str) -> PersonDecision | None:
        """Return the newest decision of a kind about a job. Raises HistoryError."""
        wanted = sql.select(DECISIONS).where(DECISIONS.c.uid == uid, DECISIONS.c.kind == kind)
        return next(iter(self._read(wanted.order_by(DECISIONS.c.at.desc(), DECISIONS.c.identifier).limit(1))), None)

    def decisions(self, limit: int = MAX_READ, namespace: str | None = None) -> tuple[PersonDecision, ...]:
        """Return the newest decisions, newest first. Raises HistoryError."""
        wanted = sql.select(DECISIONS).order_by(DECISIONS.c.at.desc(), DECISIONS.c.identifier).limit(limit)
        return self._read(wanted if namespace is None else wanted.where(DECISIONS.c.namespace == namespace))

    def prune(self, before: float) -> int:
        """Delete decisions about jobs that are older than this time (Unix seconds); their number. Raises HistoryError."""
        try:
            with self._database.engine.begin() as connection:
                return connection.execute(sql.delete(DECISIONS).where(DECISIONS.c.at < before, DECISIONS.c.uid != "")).rowcount
        except SQLAlchemyError as error:
            raise self._database.fault(error) from error

    def _read(self, wanted: sql.Select[Any]) -> tuple[PersonDecision, ...]:
        try:
            with self._database.engine.connect() as connection:
                return tuple(PersonDecision(**row) for row in connection.execute(wanted).mappings())
        except SQLAlchemyError as error:
            raise self._database.fault(error) from error
