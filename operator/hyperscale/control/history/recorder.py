"""Finished runs on their way into history, and what history teaches on its way to the planners.

Everything here is beside the passes: a database that is slow or away costs runs their record for a while, and nothing else.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec.structs import replace

from hyperscale.control.specs.parsed_specs import JobReader
from hyperscale.control.telemetry.metrics import Telemetry
from hyperscale.model.api.datasets import dataset_size, is_sized
from hyperscale.model.api.job import JobSpec
from hyperscale.model.api.measured import Measured
from hyperscale.model.meta import JobMetadata
from hyperscale.model.observed.reconcile_input import ReconcileInput
from hyperscale.model.plan import Calibration, Plan
from hyperscale.model.status import JobStatus
from hyperscale.model.step_curves import StepTime, Workload
from hyperscale.util.rfc3339 import is_future, unix_seconds
from hyperscale.util.threads import in_daemon_thread

if TYPE_CHECKING:
    from hyperscale.control.history.calibration import MeasuredStep
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


class RunRecorder:
    """Notes runs as they end; `run` writes them and keeps the reader's corrections fresh."""

    def __init__(
        self, reader: JobReader, telemetry: Telemetry, url: str, min_runs: int, clock: Callable[[], float], days: float = 0.0
    ) -> None:
        """days: how long a run is kept; 0 for ever."""
        self._keep_seconds = days * DAY_SECONDS if days > 0 else math.inf
        self._pruned_at = -math.inf
        self._reader = reader
        self._telemetry = telemetry
        self._url = url
        self._min_runs = max(1, min_runs)
        self._clock = clock
        self._began = clock()
        self._curves = Curves()
        self._noted: dict[str, Measured | None] = {}
        self._waiting: dict[str, FinishedRun] = {}
        self._something = asyncio.Event()
        self._fault = ""

    def note(self, state: ReconcileInput, status: JobStatus) -> None:
        """A job as its pass ends; kept where its run has ended, once for each thing that it says of itself."""
        job, plan = state.job, state.plan.in_force
        uid = job.metadata.uid
        if not self._url or job.parsed is None or not status.ended or plan is None or not is_sized(job.parsed):
            return
        if uid in self._noted and self._noted[uid] == status.measured:
            return
        _make_room(self._noted)
        self._noted[uid] = status.measured
        run = finished_run(job.metadata, job.parsed, plan, status, self._clock())
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
                    history = await in_daemon_thread(partial(_open, url))
                    at_the_end.callback(history.close)
                    await in_daemon_thread(partial(history.redate, self._clock()))
                    await self._prune(history)
                    await self._learn(history)
                await self._something.wait()
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
                new = await in_daemon_thread(partial(history.record, tuple(batch.values())))
            except Exception:
                self._something.set()
                raise
            self._waiting = {uid: run for uid, run in self._waiting.items() if batch.get(uid) is not run}
            if new + await self._prune(history):
                await self._learn(history)

    async def _prune(self, history: RunStore) -> int:
        """Delete runs that are too old, now and then; their number."""
        now = self._clock()
        if now - self._pruned_at < PRUNE_SECONDS or self._keep_seconds == math.inf:
            return 0
        self._pruned_at = now
        return await in_daemon_thread(partial(history.prune, now - self._keep_seconds))

    async def _learn(self, history: RunStore) -> None:
        self._reader.calibrations = await in_daemon_thread(partial(history.calibrations, self._min_runs))
        self._reader.taught = await in_daemon_thread(partial(self._curves.learn, history, self._min_runs))


class Curves:
    """Step time curves of the workloads in history; one is fitted again only where its runs have changed. Blocking: call it in a thread."""

    def __init__(self) -> None:
        self._known: dict[Workload, tuple[tuple[MeasuredStep, ...], StepTime | None]] = {}

    def learn(self, history: RunStore, least: int) -> dict[Workload, Calibration]:
        """Of those that taught a curve which can be trusted, with the factor of their own runs for what it does not reach.

        Raises HistoryError.
        """
        from hyperscale.control.history.calibration import calibrate
        from hyperscale.planner.cost.steptime_fit import (
            LEAST_ROWS,
            learn,
        )  # numpy, in an operator whose planners have a process of their own

        fitted = {}
        for workload, runs in history.steps(max(least, LEAST_ROWS)).items():
            last_fit = self._known.get(workload)
            if last_fit is None or last_fit[0] != runs:
                last_fit = runs, learn([run.step for run in runs], [run.predicted_seconds for run in runs])
            fitted[workload] = last_fit
        self._known = fitted
        return {
            workload: replace(calibrate(workload.products, [run.ratio for run in runs]), curve=curve)
            for workload, (runs, curve) in fitted.items()
            if curve is not None
        }


def finished_run(metadata: JobMetadata, job: JobSpec, plan: Plan, status: JobStatus, now: float) -> FinishedRun:
    """A finished run as history keeps it; `now` (Unix seconds) where the status does not say when it ended."""
    from hyperscale.control.history.runs_table import FinishedRun

    size, correction = dataset_size(job), plan.predicted.calibration.factor if plan.predicted.calibration is not None else 1.0
    measured = status.measured or Measured(epoch=0, epochs=0)
    return FinishedRun(
        uid=metadata.uid,
        namespace=metadata.namespace,
        name=metadata.name,
        finished_at=_ended_at(status, now),
        phase=status.state.value,
        architecture=job.model.architecture.value,
        layers=job.model.layers,
        hidden_size=job.model.hidden_size,
        batch_size=job.model.batch_size,
        vertices=size.vertices,
        edges=size.edges,
        feature_size=size.feature_size,
        method=job.partitioning.method.value,
        workers=len(plan.workers),
        gpus=sum(worker.gpus for worker in plan.workers),
        products=_products(plan),
        planner=plan.planner,
        plan_id=plan.plan_id,
        replans=status.plan_changes,
        predicted_seconds=plan.predicted.epoch_seconds / correction,
        correction=correction,
        measured_seconds=measured.epoch_seconds,
        compute_seconds=measured.compute_seconds,
        communication_seconds=measured.communication_seconds,
        accuracy=measured.accuracy,
        epochs=measured.epoch,
        plan=msgspec.json.encode(plan).decode(),
        measured=msgspec.json.encode(status.measured).decode() if status.measured is not None else "",
    )


def _ended_at(status: JobStatus, now: float) -> float:
    """Return when a run ended in Unix seconds; `now` where the status has no time, or one that has not come yet."""
    ended = status.completion_time or ""
    return unix_seconds(ended) if ended and not is_future(ended, now) else now


def _products(plan: Plan) -> str:
    """Return the GPU products of a plan, sorted and joined by "+"."""
    return "+".join(sorted({worker.product for worker in plan.workers if worker.product}))


def _make_room(runs: dict[str, Any]) -> None:
    """Drop the oldest runs until one more may be kept."""
    while len(runs) >= MOST_WAITING:
        del runs[next(iter(runs))]


def _open(url: str) -> RunStore:
    from hyperscale.control.history.run_store import RunStore  # SQLAlchemy: some 20 MB that an operator without history does without

    return RunStore(url)
