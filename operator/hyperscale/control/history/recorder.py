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

from hyperscale.control.history.database_calls import LEARN_SECONDS, RowWriter, call_database, fault_of
from hyperscale.control.history.node_watch import Json, NodeWatch
from hyperscale.control.history.run_record import RunBeginnings, finished_run
from hyperscale.control.history.teaching import Teacher
from hyperscale.control.specs.parsed_specs import JobReader
from hyperscale.control.telemetry.metrics import Telemetry
from hyperscale.evaluate.calibration.calibration_report import CalibrationReport
from hyperscale.evaluate.calibration.lessons import NodeLife
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
MAX_LEARN_PAUSE_SECONDS: Final = 900.0
"""Between two readings that fail."""
LEARN_REST: Final = 5.0
"""The next reading begins no sooner than after this multiple of the last one's time: it costs at most a sixth of one core's."""
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
        self._run_writer: RowWriter[str, FinishedRun] = RowWriter(BATCH, self._have_taken, self._give_up_run)
        self._life_writer: RowWriter[tuple[str, float], NodeLife] = RowWriter(BATCH, self._have_taken, self._give_up_life)
        self._unlearnt = False
        """Rows have changed since history was read."""
        self._learn_at = self._learn_pause = 0.0

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
                    self._unlearnt = True
                    await call_database(partial(history.redate, self._clock()))
                await self._wait()
                await asyncio.sleep(SETTLE_SECONDS)
                steps = (self._look_at_nodes, self._write_runs, self._write_lives, self._prune, self._learn)
                for fault in filter(None, [await fault_of(step(history)) for step in steps]):
                    raise fault
                self._fault = ""
            except Exception as error:  # whatever a database holds, it ends no operator
                self._telemetry.history_failures.inc()
                fault_text = str(error) if isinstance(error, OSError) else f"{type(error).__name__}: {error}"  # HistoryError is an OSError
                if fault_text != self._fault:
                    _LOG.warning("history: %s", fault_text, exc_info=None if isinstance(error, OSError) else error)
                self._fault = fault_text
                await asyncio.sleep(RETRY_SECONDS)

    async def _wait(self) -> None:
        """Until runs are to be written, nodes to be looked at, or lessons to be read."""
        learn_in = max(0.0, self._learn_at - asyncio.get_running_loop().time()) if self._unlearnt else None
        look_in = NODE_LOOK_SECONDS if self._nodes is not None else None
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(min((each for each in (learn_in, look_in) if each is not None), default=None)):
                await self._something.wait()

    async def _write_runs(self, history: RunStore) -> None:
        self._something.clear()
        try:
            await self._run_writer.write(self._waiting, history.record)
        except Exception:
            self._something.set()
            raise

    async def _write_lives(self, history: RunStore) -> None:
        await self._life_writer.write(self._watch.pending, partial(history.keep_lives, self._cluster))

    def _have_taken(self, _: int) -> None:
        """Rows were written: there is more to learn."""
        self._unlearnt = True

    def _give_up_run(self, run: FinishedRun, error: Exception) -> None:
        self._telemetry.history_failures.inc()
        _LOG.warning("history: the run of %s/%s cannot be kept: %s", run.namespace, run.name, error)

    def _give_up_life(self, life: NodeLife, error: Exception) -> None:
        self._telemetry.history_failures.inc()
        _LOG.warning("history: the life of the node %s cannot be kept: %s", life.node, error)

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

    async def _prune(self, history: RunStore) -> None:
        """Delete runs that are too old, now and then."""
        now = self._clock()
        if now - self._pruned_at < PRUNE_SECONDS or self._keep_seconds == math.inf:
            return
        self._pruned_at = now
        if await call_database(partial(history.prune, now - self._keep_seconds)):
            self._unlearnt = True

    async def _learn(self, history: RunStore) -> None:
        """Read what changed rows teach; where that fails, again after a pause, which doubles."""
        now = asyncio.get_running_loop().time
        if not self._unlearnt or now() < self._learn_at:
            return
        began = now()
        try:
            taught = await call_database(partial(self._teacher.teach, history, self._cluster, self._clock()), LEARN_SECONDS)
        except Exception:
            self._learn_pause = min(MAX_LEARN_PAUSE_SECONDS, 2.0 * self._learn_pause or RETRY_SECONDS)
            self._learn_at = now() + self._learn_pause
            raise
        self._unlearnt, self._learn_pause, self._learn_at = False, 0.0, now() + LEARN_REST * (now() - began)
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
