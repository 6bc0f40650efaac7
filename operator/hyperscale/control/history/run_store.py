"""Finished runs, what was predicted for them beside what was measured, in SQLite or PostgreSQL; and what that teaches predictions.

Blocking: call it in a thread. A run is its job's uid: recorded twice it is there once, as last told.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

import msgspec
import sqlalchemy as sql
from sqlalchemy.exc import SQLAlchemyError

from hyperscale.control.history.calibration import MeasuredStep, calibrate, heard, heard_steps, placement
from hyperscale.control.history.database import LOST, Database
from hyperscale.control.history.database import HistoryError as HistoryError
from hyperscale.control.history.nodes_table import NODES, prune_lives, read_lives, write_lives
from hyperscale.control.history.runs_table import (
    NEWEST_FIRST,
    PLAUSIBLE_FIGURES,
    RUNS,
    TEACHES,
    TEACHING_FIGURES,
    FinishedRun,
    latest_workloads,
    newest,
    newest_of_mixes,
    predicted_now,
    row_fault,
    with_texts,
)
from hyperscale.control.history.taught_speeds import StatedRun, read_taught
from hyperscale.evaluate.calibration.lessons import NodeLife
from hyperscale.evaluate.calibration.taught_run import TaughtRun
from hyperscale.model.history.step_curves import Workload, one_kind, placed
from hyperscale.model.plan import Calibration
from hyperscale.util.rfc3339 import CLOCK_SKEW_SECONDS

MOST_RUNS: Final = 200
"""Of one architecture and mix of products, the newest, that a correction is made from: older ones ran on older software."""
MOST_WORKLOADS: Final = 32
"""Whose steps are read, those that ran last: a curve takes the time of some fits."""
TEXTS_SEARCHED: Final = 4
"""Times the runs wanted whose texts are searched: stand-ins and plans without parts leave some out."""
_LOG = logging.getLogger(__name__)


class RunStore:
    """The table of finished runs."""

    def __init__(self, url: str | sql.URL, *, make: bool = True) -> None:
        """Open the database of that URL, as `Database` does; raises HistoryError."""
        self._database = Database(url, RUNS.name, make=make)
        self._engine, self._fault = self._database.engine, self._database.fault
        self._placements: dict[str, dict[str, int]] = {}
        self._stated: dict[str, StatedRun] = {}
        self._columns = self._database.columns
        self._keeps_lives = NODES.name in self._database.tables
        self._row_faults: set[str] = set()
        """Each named in the log once."""

    def close(self) -> None:
        """Close all connections."""
        self._database.close()

    def record(self, runs: Sequence[FinishedRun]) -> int:
        """Keep these runs, in one transaction; how many of them were not there just so.

        Raises HistoryError; RowRefusedError where the database refuses one of them for what it holds, or takes and does not keep it.
        """
        # In one order for all writers: two that write the same runs do not wait for each other.
        rows = {run.uid: msgspec.structs.asdict(run) for run in sorted(runs, key=lambda run: run.uid)}
        return self._database.write(partial(self._keep, rows)) if rows else 0

    def _keep(self, rows: Mapping[str, dict[str, Any]], connection: sql.Connection) -> int:
        """Return how many rows were written. ValueError: one is not kept."""
        there = sql.select(RUNS.c.uid, RUNS.c.measured).where(RUNS.c.uid.in_(rows))
        recorded = {row.uid: row.measured for row in connection.execute(there)}
        new = {uid: row for uid, row in rows.items() if recorded.get(uid) != row["measured"]}
        if new:
            connection.execute(sql.delete(RUNS).where(RUNS.c.uid.in_(new)))
            connection.execute(sql.insert(RUNS), [{name: row[name] for name in self._columns} for row in new.values()])
            # No count of inserted rows: a rule or a trigger may have put them elsewhere.
            if new.keys() - set(connection.scalars(sql.select(RUNS.c.uid).where(RUNS.c.uid.in_(new)))):
                raise ValueError(LOST)  # what was there before stays
        return len(new)

    def redate(self, now: float) -> int:
        """Make runs that finished later than `now` (Unix seconds), clock skew aside, runs of now; their number. Raises HistoryError.

        Else they would be the newest for ever.
        """
        late = sql.update(RUNS).where(RUNS.c.finished_at > now + CLOCK_SKEW_SECONDS).values(finished_at=now)
        return self._database.write(lambda connection: connection.execute(late).rowcount)

    def prune(self, before: float) -> int:
        """Delete runs that finished before this time (Unix seconds); their number. Raises HistoryError."""

        def delete(connection: sql.Connection) -> int:
            if self._keeps_lives:
                prune_lives(connection, before)
            return connection.execute(sql.delete(RUNS).where(RUNS.c.finished_at < before)).rowcount

        return self._database.write(delete)

    def runs(self, limit: int, architecture: str | None = None) -> tuple[FinishedRun, ...]:
        """The newest runs, newest first. Raises HistoryError."""
        wanted = sql.select(*self._read_columns()).order_by(*NEWEST_FIRST).limit(limit)
        if architecture is not None:
            wanted = wanted.where(RUNS.c.architecture == architecture)
        return self._read(wanted)

    def calibrations(self, least: int) -> dict[str, tuple[Calibration, ...]]:
        """Corrections by architecture, of mixes of products with at least `least` runs. Raises HistoryError.

        Only runs that succeeded on the plan that they began with, others were measured on more than one; and none on a stand-in.
        None is absurdly far from its prediction. Of MOST_RUNS a namespace has at most a quarter, unless it is the only one, and fewer
        than all others together, as `heard` says. Texts are searched in the newest TEXTS_SEARCHED x MOST_RUNS of a mix, shared likewise.
        """
        searched = newest_of_mixes(TEXTS_SEARCHED * MOST_RUNS, *PLAUSIBLE_FIGURES).subquery()
        chosen = newest_of_mixes(MOST_RUNS, with_texts(sql.select(searched.c.uid))).subquery()
        ratios: dict[tuple[str, str], list[tuple[str, float]]] = {}
        try:
            with self._engine.connect() as connection:
                for row in connection.execute(sql.select(chosen).order_by(chosen.c.place)):
                    if row_fault(row._mapping):
                        continue
                    ratio = row.measured_seconds / row.predicted_seconds
                    ratios.setdefault((row.architecture, row.products), []).append((row.namespace, ratio))
        except SQLAlchemyError as error:
            raise self._fault(error) from error
        calibrations: dict[str, tuple[Calibration, ...]] = {}
        for (architecture, products), run_ratios in sorted(ratios.items()):
            counted = heard([(namespace, (namespace, ratio)) for namespace, ratio in run_ratios], least)[::-1]
            if len(counted) >= least:
                namespaces, ratios_heard = zip(*counted, strict=True)
                calibrations[architecture] = (*calibrations.get(architecture, ()), calibrate(products, ratios_heard, namespaces))
        return calibrations

    def steps(self, least: int, wanted: Collection[Workload] | None = None) -> dict[Workload, tuple[MeasuredStep, ...]]:
        """Measured steps of workloads on GPUs of one product, newest first, where `heard_steps` leaves `least`. Raises HistoryError.

        Runs as in `calibrations`, but all; those whose plan cannot be read are left out. Namespaces share workloads: `latest_workloads`.
        wanted: only those, with products ""; None: all
        """
        latest = latest_workloads(TEXTS_SEARCHED * MOST_WORKLOADS, least, *PLAUSIBLE_FIGURES)
        runs_by_workload: dict[Workload, tuple[MeasuredStep, ...]] = {}
        kept: set[str] = set()
        try:
            with self._engine.connect() as connection:
                for row in connection.execute(latest).all():
                    workload = Workload(*row)
                    if wanted is not None and workload._replace(products="") not in wanted:
                        continue
                    readable = not row_fault(workload._asdict()) and one_kind(workload.products)
                    steps = self._steps_of(connection, workload) if readable else ()
                    kept |= {one.uid for one in steps}
                    if len(heard_steps(steps, least)) >= least:
                        runs_by_workload[workload] = steps
                    if len(runs_by_workload) == MOST_WORKLOADS:
                        break
        except SQLAlchemyError as error:
            raise self._fault(error) from error
        self._placements = {uid: placement for uid, placement in self._placements.items() if uid in kept}
        return runs_by_workload

    def _steps_of(self, connection: sql.Connection, workload: Workload) -> tuple[MeasuredStep, ...]:
        """The newest, shared among namespaces as in `brief_runs`; the plan of a run, its largest figure, is read once."""
        # `==` and `IS NULL` use the index on every server; IS NOT DISTINCT FROM does not.
        same = [RUNS.c[name] == value if value is not None else RUNS.c[name].is_(None) for name, value in workload._asdict().items()]
        searched = newest(TEXTS_SEARCHED * MOST_RUNS, *PLAUSIBLE_FIGURES, *same)
        chosen = newest(MOST_RUNS, with_texts(searched))
        figures = sql.select(RUNS.c.uid, RUNS.c.namespace, RUNS.c.measured_seconds, RUNS.c.predicted_seconds)
        read = connection.execute(figures.where(RUNS.c.uid.in_(chosen)).order_by(*NEWEST_FIRST)).all()
        rows = [row for row in read if not row_fault(row._mapping)]
        unread = [row.uid for row in rows if row.uid not in self._placements]
        if unread:
            for uid, plan in connection.execute(sql.select(RUNS.c.uid, RUNS.c.plan).where(RUNS.c.uid.in_(unread))):
                self._placements[uid] = placement(plan)
        steps = []
        for uid, namespace, measured, predicted in rows:
            gpus = self._placements.get(uid)  # None where another operator removed the run since
            if gpus:
                step, count = placed(gpus, workload.vertices, workload.batch_size)
                steps.append(MeasuredStep(uid, replace(step, step_seconds=measured / count), predicted / count, namespace))
        return tuple(steps)

    def taught_runs(self, limit: int) -> tuple[TaughtRun, ...]:
        """The newest runs that teach the cost model, oldest first, shared among namespaces as in `brief_runs`. Raises HistoryError.

        Those whose plan states no parts, as of earlier versions, are left out. The plan of a run is read once.
        Texts are searched in the newest TEXTS_SEARCHED x limit only, shared likewise: a large history costs no more.
        """
        searched = newest(TEXTS_SEARCHED * limit, *TEACHING_FIGURES)
        chosen = newest(limit, with_texts(searched, parts=True))
        try:
            with self._engine.connect() as connection:
                taught = read_taught(connection, chosen, self._stated)
        except SQLAlchemyError as error:
            raise self._fault(error) from error
        self._stated = {uid: self._stated[uid] for uid, _ in taught}
        return tuple(run for _, run in taught)

    def brief_runs(self, limit: int) -> tuple[tuple[FinishedRun, bool], ...]:
        """The newest runs, newest first, each with whether it teaches. Raises HistoryError.

        No namespace pushes out the newest quarter of `limit` of another, while there are at most four.
        Their `plan`, the largest figure, is empty but in rows that lack the number of nodes; `measured` is empty.
        """
        plan = RUNS.c.plan if "hosts" not in self._columns else sql.case((RUNS.c.hosts.is_(None), RUNS.c.plan), else_="")
        asked = ("plan", "measured", "evaluation")
        others: list[sql.ColumnElement[Any]] = [column for column in self._read_columns() if column.name not in asked]
        if "evaluation" in self._columns:
            # What an earlier cost model let an evaluation say is no figure of today's evaluations.
            others.append(sql.case((predicted_now(RUNS.c.plan), RUNS.c.evaluation), else_=None).label("evaluation"))
        columns = [*others, plan.label("plan"), sql.literal("").label("measured"), sql.and_(*TEACHES).label("teaches")]
        brief = sql.select(*columns).where(RUNS.c.uid.in_(newest(limit))).order_by(*NEWEST_FIRST)
        try:
            with self._engine.connect() as connection:
                rows = self._readable(connection.execute(brief).mappings())
        except SQLAlchemyError as error:
            raise self._fault(error) from error
        taught = [bool(row.pop("teaches")) for row in rows]
        return tuple((FinishedRun(**row), each) for row, each in zip(rows, taught, strict=True))

    def node_lives(self, cluster: str) -> tuple[NodeLife, ...]:
        """Lives of a cluster's nodes, oldest first; none from a database without their table. Raises HistoryError."""
        if not self._keeps_lives:
            return ()
        try:
            with self._engine.connect() as connection:
                return read_lives(connection, cluster)
        except SQLAlchemyError as error:
            raise self._fault(error) from error

    def keep_lives(self, cluster: str, lives: Sequence[NodeLife]) -> int:
        """Write lives of a cluster's nodes, in one transaction; their number, 0 in a database without their table.

        Raises HistoryError, RowRefusedError where the database does not keep one.
        """
        if not self._keeps_lives:
            return 0
        self._database.write(partial(write_lives, cluster=cluster, lives=tuple(lives)))
        return len(lives)

    def _read_columns(self) -> list[sql.Column[Any]]:
        """Of the runs; a database of an earlier version lacks some."""
        return [column for column in RUNS.columns if column.name in self._columns]

    def _read(self, wanted: sql.Select[Any]) -> tuple[FinishedRun, ...]:
        try:
            with self._engine.connect() as connection:
                return tuple(FinishedRun(**row) for row in self._readable(connection.execute(wanted).mappings()))
        except SQLAlchemyError as error:
            raise self._fault(error) from error

    def _readable(self, rows: Iterable[Mapping[Any, Any]]) -> list[dict[str, Any]]:
        """Rows that can be read; the log says how many others there are."""
        named = [(dict(row), row_fault(row)) for row in rows]
        bad = [(row["uid"], fault) for row, fault in named if fault]
        if bad and bad[0][1] not in self._row_faults:
            self._row_faults.add(bad[0][1])
            _LOG.warning("history: rows of %s that cannot be read: %d; of the run %.40r %s", RUNS.name, len(bad), *bad[0])
        return [row for row, fault in named if not fault]
