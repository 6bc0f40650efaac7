"""What the runs in history teach the cost model, fitted again only where they have changed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec

from hyperscale.evaluate.calibration.taught_run import TaughtRun
from hyperscale.model.history.corrections import Corrections, PredictedPart

if TYPE_CHECKING:
    import sqlalchemy as sql

    from hyperscale.control.history.run_store import RunStore


class _Predicted(msgspec.Struct):
    parts: tuple[PredictedPart, ...] = ()


class _Parted(msgspec.Struct):
    predicted: _Predicted


class Speeds:
    """Corrections by architecture; the same object until other runs teach. Blocking: call it in a thread."""

    def __init__(self) -> None:
        self._runs: tuple[TaughtRun, ...] = ()
        self._taught: Mapping[str, Corrections] = {}

    def learn(self, history: RunStore, least: int) -> Mapping[str, Corrections]:
        """Return what the newest runs teach, by architecture, "" for others; none from fewer than `least`. Raises HistoryError."""
        from hyperscale.evaluate.calibration.speed_fit import MAX_TAUGHT, corrections_of  # numpy, see workload_curves.py

        runs = history.taught_runs(MAX_TAUGHT)
        if runs != self._runs:
            self._runs, self._taught = runs, corrections_of(runs, least)
        return self._taught


def read_taught(
    connection: sql.Connection, chosen: sql.Select[tuple[str]], parts: dict[str, tuple[PredictedPart, ...]]
) -> list[tuple[str, TaughtRun]]:
    """Return chosen runs with their uids, oldest first; `parts` by uid gains those of plans that were not read yet."""
    import sqlalchemy as sql

    from hyperscale.control.history.runs_table import RUNS, row_fault

    figures = (RUNS.c.uid, RUNS.c.namespace, RUNS.c.architecture, RUNS.c.predicted_seconds, RUNS.c.measured_seconds, RUNS.c.compute_seconds)
    rows = connection.execute(sql.select(*figures).where(RUNS.c.uid.in_(chosen)).order_by(RUNS.c.finished_at, RUNS.c.uid)).all()
    rows = [row for row in rows if not row_fault(row._mapping)]
    unread = [row.uid for row in rows if row.uid not in parts]
    if unread:
        for uid, plan in connection.execute(sql.select(RUNS.c.uid, RUNS.c.plan).where(RUNS.c.uid.in_(unread))):
            parts[uid] = stated_parts_of(plan)
    return [
        (uid, TaughtRun(namespace, architecture, parts[uid], predicted, measured, compute))
        for uid, namespace, architecture, predicted, measured, compute in rows
        if uid in parts  # another operator may have removed the run between both selects
    ]


def stated_parts_of(plan: str) -> tuple[PredictedPart, ...]:
    """The parts of the epoch in a plan's JSON; none where it cannot be read."""
    try:
        return msgspec.json.decode(plan, type=_Parted).predicted.parts
    except (msgspec.DecodeError, RecursionError):
        return ()
