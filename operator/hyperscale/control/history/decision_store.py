"""What people decided, in the database of history. Blocking: call it in a thread."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import msgspec
import sqlalchemy as sql
from sqlalchemy.exc import SQLAlchemyError

from hyperscale.control.history.database import LOST, Database
from hyperscale.control.history.decisions_table import DECISIONS, PersonDecision

MAX_EACH: Final = 1_000
"""Newest decisions about jobs that are kept of one namespace, and read at once."""


STEP_SECONDS: Final = 0.001
"""Between two decisions about a namespace, at least."""


class NamespaceEdition(NamedTuple):
    """Of the decisions about one namespace and its jobs; another one where any of them is another."""

    rows: int
    newest_at: float
    sum_of_times: float


class DecisionStore:
    """The table of decisions."""

    def __init__(self, url: str, *, make: bool = True) -> None:
        """Open the database of that URL, as `Database` does; raises HistoryError."""
        self._database = Database(url, DECISIONS.name, make=make)

    def close(self) -> None:
        """Close all connections."""
        self._database.close()

    def record(self, decisions: Sequence[PersonDecision]) -> int:
        """Keep those that are not there; how many were new. Raises HistoryError, RowRefusedError where the database does not keep one.

        A decision about a job takes the place of the earlier one of its kind about the same plan, and its offers where it has none.
        The newest MAX_EACH about the jobs of a namespace stay.
        """

        def keep(connection: sql.Connection) -> int:
            new = sum(_keep(connection, one) for one in decisions)
            namespaces = sorted({one.namespace for one in decisions if one.uid})
            if new and namespaces:
                _prune_namespaces(connection, DECISIONS.c.namespace.in_(namespaces))
            return new

        return self._database.write(keep)

    def last(self, uid: str, kind: str) -> PersonDecision | None:
        """Return the newest decision of a kind about a job. Raises HistoryError."""
        wanted = _newest_first().where(DECISIONS.c.uid == uid, DECISIONS.c.kind == kind)
        return next(iter(self._read(wanted.limit(1))), None)

    def decisions(self, each: int = MAX_EACH, namespace: str | None = None) -> tuple[PersonDecision, ...]:
        """Return all decisions about namespaces, and the newest about jobs, `each` of one namespace; newest first. Raises HistoryError."""
        places = _places(DECISIONS.c.uid != "", *([] if namespace is None else [DECISIONS.c.namespace == namespace]))
        about_jobs = DECISIONS.c.identifier.in_(sql.select(places.c.identifier).where(places.c.place <= each))
        wanted = _newest_first().where(sql.or_(DECISIONS.c.uid == "", about_jobs))
        return self._read(wanted if namespace is None else wanted.where(DECISIONS.c.namespace == namespace))

    def editions(self) -> dict[str, NamespaceEdition]:
        """Return what shows by namespace whether rows were added, replaced or deleted. Raises HistoryError."""
        at = DECISIONS.c.at
        wanted = sql.select(DECISIONS.c.namespace, sql.func.count(), sql.func.max(at), sql.func.sum(at)).group_by(DECISIONS.c.namespace)
        try:
            with self._database.engine.connect() as connection:
                return {row[0]: NamespaceEdition(*row[1:]) for row in connection.execute(wanted)}
        except SQLAlchemyError as error:
            raise self._database.fault(error) from error

    def newest(self, limit: int) -> tuple[PersonDecision, ...]:
        """Return the newest decisions of all namespaces together, newest first. Raises HistoryError."""
        return self._read(_newest_first().limit(limit))

    def prune(self, before: float) -> int:
        """Delete decisions about jobs that are older than this time (Unix seconds), and all but the newest MAX_EACH of each namespace.

        Their number. Raises HistoryError.
        """
        old = sql.delete(DECISIONS).where(DECISIONS.c.at < before, DECISIONS.c.uid != "")
        return self._database.write(lambda connection: connection.execute(old).rowcount + _prune_namespaces(connection))

    def _read(self, wanted: sql.Select[Any]) -> tuple[PersonDecision, ...]:
        try:
            with self._database.engine.connect() as connection:
                return tuple(PersonDecision(**row) for row in connection.execute(wanted).mappings())
        except SQLAlchemyError as error:
            raise self._database.fault(error) from error


def _newest_first() -> sql.Select[Any]:
    return sql.select(DECISIONS).order_by(DECISIONS.c.at.desc(), DECISIONS.c.identifier)


def _places(*which: sql.ColumnElement[bool]) -> sql.Subquery:
    """Identifiers of decisions with their place in their namespace, the newest first."""
    place = sql.func.row_number().over(partition_by=DECISIONS.c.namespace, order_by=(DECISIONS.c.at.desc(), DECISIONS.c.identifier))
    return sql.select(DECISIONS.c.identifier, place.label("place")).where(*which).subquery()


def _keep(connection: sql.Connection, one: PersonDecision) -> bool:
    """Write one decision; False where it is there. ValueError: the database does not keep it.

    It is the newest of its namespace, whatever clock dated the others: what is written later takes back what was written earlier.
    """
    own = sql.select(DECISIONS.c.identifier).where(DECISIONS.c.identifier == one.identifier)
    if connection.scalar(own) is not None:
        return False
    row = msgspec.structs.asdict(one)
    newest = connection.scalar(sql.select(sql.func.max(DECISIONS.c.at)).where(DECISIONS.c.namespace == one.namespace))
    if newest is not None:
        row["at"] = max(one.at, newest + STEP_SECONDS)
    if one.uid:
        same = [DECISIONS.c[name] == row[name] for name in ("uid", "kind", "plan_id")]
        earlier = connection.scalars(sql.select(DECISIONS.c.offers).where(*same).order_by(DECISIONS.c.at.desc())).all()
        if earlier:
            row["offers"] = row["offers"] or next(filter(None, earlier), "")  # else the answer that it was would be lost
            connection.execute(sql.delete(DECISIONS).where(*same))
    connection.execute(sql.insert(DECISIONS), row)
    if connection.scalar(own) is None:
        raise ValueError(LOST)
    return True


def _prune_namespaces(connection: sql.Connection, *which: sql.ColumnElement[bool]) -> int:
    """Delete decisions about jobs beyond the newest MAX_EACH of a namespace; their number."""
    places = _places(DECISIONS.c.uid != "", *which)
    beyond = sql.select(places.c.identifier).where(places.c.place > MAX_EACH)
    return connection.execute(sql.delete(DECISIONS).where(DECISIONS.c.identifier.in_(beyond))).rowcount
