"""Finished runs on their way into history, and what history teaches on its way to the planners.

Everything here is beside the passes: a database that is slow or away costs runs their record for a while, and nothing else.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from hyperscale.control.history.database_calls import LEARN_SECONDS, call_database
from hyperscale.control.history.node_watch import Json, NodeWatch
from hyperscale.control.history.run_record import RunBeginnings, finished_run
from hyperscale.control.history.teaching import Teacher
from hyperscale.control.specs.parsed_specs import JobReader
from hyperscale.control.telemetry.metrics import Telemetry
from hyperscale.evaluate.calibration.calibration_report import CalibrationReport
from hyperscale.model.api.datasets import is_sized
from hyperscale.model.api.measured import Measured
from hyperscale.model.observed.reconcile_input import ReconcileInput
from hyperscale.model.status import JobStatus

if TYPE_CHECKING:
    from hyperscale.control.history.run_store import RunStore
    from hyperscale.control.history.runs_table import FinishedRun

_LOG = logging.getLogger(__name__)

RETRY_SECONDS: Final = 30.0
BATCH: Final = 500
MOST_WAITING: Final = 20_000
"""Runs kept while the database is away; beyond that the oldest are given up, and found again after a restart."""
PRUNE_SECONDS: Final = 3600.0
"""Between two deletions of runs that are too old."""
DAY_SECONDS: Final = 86_400.0
SETTLE_SECONDS: Final = 1.0
"""Runs that end together are written together."""
NODE_LOOK_SECONDS: Final = 15.0
"""Between two looks at the nodes: a failure is dated to that."""


class NodeSource(NamedTuple):
    """Where the recorder sees the nodes of its cluster."""

    nodes: Callable[[], tuple[Json, ...]]
    """As last seen; the same object until one changes."""
    cluster: Callable[[], Awaitable[str]]
    """An id that no other cluster has; empty where it is not known yet."""


class RunRecorder:
    """Notes runs as they end; `run` writes them and keeps the reader's corrections fresh."""

    def __init__(
        self,
        reader: JobReader,
        telemetry: Telemetry,
        url: str,
        min_runs: int,
        clock: Callable[[], float],
        days: float = 0.0,
        nodes: NodeSource | None = None,
    ) -> None:
        """days: how long a run is kept; 0 for ever. nodes: None keeps no lives of nodes."""
        self.report: CalibrationReport | None = None
        """How well finished runs were predicted; None before history was read."""
        self._nodes = nodes
        self._watch = NodeWatch()
        self._cluster = ""
        self._beginnings = RunBeginnings()
        self._keep_seconds = days * DAY_SECONDS if days > 0 else math.inf
        self._pruned_at = -math.inf
        self._reader = reader
        self._telemetry = telemetry
        self._url = url
        self._clock = clock
        self._began = clock()
        self._teacher = Teacher(max(1, min_runs))
        self._noted: dict[str, Measured | None] = {}
        self._waiting: dict[str, FinishedRun] = {}
        self._something = asyncio.Event()
        self._fault = ""
        self._given_up = 0

    def note(self, state: ReconcileInput, status: JobStatus) -> None:
        """A job as its pass ends; kept where its run has ended, once for each thing that it says of itself."""
        job, plan = state.job, state.plan.in_force
        uid = job.metadata.uid
        if self._url:
            self._beginnings.look(state, status)
        if not self._url or job.parsed is None or not status.ended or plan is None or not is_sized(job.parsed):
            return
        if uid in self._noted and self._noted[uid] == status.measured:
            return
        _make_room(self._noted)
        self._noted[uid] = status.measured
        run = finished_run(job.metadata, job.parsed, plan, status, self._clock(), self._beginnings.of(state))
        if run.finished_at < self._clock() - self._keep_seconds:
            return
        self._report_ratio(run, status.measured)
        _make_room(self._waiting)
        self._waiting[uid] = run
        self._something.set()

    def _report_ratio(self, run: FinishedRun, measured: Measured | None) -> None:
        """Count how well a run was predicted, unless it ended before this process started or trained on a stand-in of its graph."""
        stand_in = measured is not None and measured.generated
        if run.ratio is not None and run.finished_at >= self._began and not stand_in:
            self._telemetry.prediction_ratio.labels(architecture=run.architecture).observe(run.ratio / run.correction)

    async def run(self) -> None:
        """Until cancelled; at once where no history is kept."""
        if not self._url:
            return
        with contextlib.ExitStack() as at_the_end:
            await self._record_until_cancelled(self._url, at_the_end)

    async def _record_until_cancelled(self, url: str, at_the_end: contextlib.ExitStack) -> None:
        """Open the database, again where that fails, and write what waits; `at_the_end` closes it."""
        history: RunStore | None = None
        while True:
            try:
                if history is None:
                    history = await call_database(partial(_open, url))
                    at_the_end.callback(history.close)
                    await call_database(partial(history.redate, self._clock()))
                    await self._prune(history)
                    await self._learn(history)
                await self._wait(history)
                await asyncio.sleep(SETTLE_SECONDS)
                await self._write(history)
                self._fault = ""
            except Exception as error:  # whatever a database holds, it ends no operator
                self._telemetry.history_failures.inc()
                fault = str(error) if isinstance(error, OSError) else f"{type(error).__name__}: {error}"  # HistoryError is an OSError
                if fault != self._fault:
                    _LOG.warning("history: %s", fault, exc_info=None if isinstance(error, OSError) else error)
                self._fault = fault
                await asyncio.sleep(RETRY_SECONDS)

    async def _write(self, history: RunStore) -> None:
        self._something.clear()
        while self._waiting:
            batch = dict(list(self._waiting.items())[:BATCH])
            try:
                new = await call_database(partial(history.record, tuple(batch.values())))
            except Exception:
                self._something.set()
                raise
            finally:
                self._count_given_up(history)
            self._waiting = {uid: run for uid, run in self._waiting.items() if batch.get(uid) is not run}
            if new + await self._prune(history):
                await self._learn(history)
        if self._watch.pending:
            lives = dict(self._watch.pending)
            await call_database(partial(history.keep_lives, self._cluster, tuple(lives.values())))
            self._count_given_up(history)
            for key, life in lives.items():
                if self._watch.pending.get(key) is life:
                    del self._watch.pending[key]
            await self._learn(history)

    def _count_given_up(self, history: RunStore) -> None:
        """Rows that the database did not keep since the last count are failures too."""
        self._telemetry.history_failures.inc(history.given_up - self._given_up)
        self._given_up = history.given_up

    async def _wait(self, history: RunStore) -> None:
        """Until there is something to write; nodes are looked at meanwhile."""
        while not self._something.is_set():
            await self._look_at_nodes(history)
            if self._watch.pending:
                return
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(NODE_LOOK_SECONDS if self._nodes is not None else None):
                    await self._something.wait()

    async def _look_at_nodes(self, history: RunStore) -> None:
        """Note lives that began or ended; those of earlier processes are read first."""
        if self._nodes is None:
            return
        if not self._watch.begun:
            self._cluster = await self._nodes.cluster()
            if not self._cluster:
                return
            self._watch.begin(await call_database(partial(history.node_lives, self._cluster)))
        self._watch.look(self._nodes.nodes(), self._clock())

    async def _prune(self, history: RunStore) -> int:
        """Delete runs that are too old, now and then; their number."""
        now = self._clock()
        if now - self._pruned_at < PRUNE_SECONDS or self._keep_seconds == math.inf:
            return 0
        self._pruned_at = now
        return await call_database(partial(history.prune, now - self._keep_seconds))

    async def _learn(self, history: RunStore) -> None:
        taught = await call_database(partial(self._teacher.teach, history, self._cluster, self._clock()), LEARN_SECONDS)
        self._reader.calibrations, self._reader.taught = taught.calibrations, taught.curves
        self._reader.corrections = taught.corrections
        self._reader.lessons, self.report = taught.lessons, taught.report
        self._telemetry.show_calibration(taught.report)


def _make_room(runs: dict[str, Any]) -> None:
    """Drop the oldest runs until one more may be kept."""
    while len(runs) >= MOST_WAITING:
        del runs[next(iter(runs))]


def _open(url: str) -> RunStore:
    from hyperscale.control.history.run_store import RunStore  # SQLAlchemy: some 20 MB that an operator without history does without

    return RunStore(url)
