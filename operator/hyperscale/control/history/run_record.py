"""A finished run as history keeps it: what was predicted before it began, and what happened."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from hyperscale.model.api.datasets import dataset_size
from hyperscale.model.api.job import JobSpec
from hyperscale.model.api.measured import Measured
from hyperscale.model.evaluation import EvaluationStatus
from hyperscale.model.meta import JobMetadata
from hyperscale.model.observed.reconcile_input import ReconcileInput
from hyperscale.model.plan import Plan
from hyperscale.model.status import JobStatus
from hyperscale.util.rfc3339 import is_future, unix_seconds

if TYPE_CHECKING:
    from hyperscale.control.history.runs_table import FinishedRun

MAX_BEGUN: Final = 20_000
"""Runs whose beginning is kept; of the oldest beyond, the status says what it still says."""


class RunBeginning(NamedTuple):
    """What was known when a run began."""

    evaluation: EvaluationStatus | None = None
    """Of the plan that it began with."""
    began: str = ""
    """When all of its workers first ran; empty where they do not run yet."""


NO_BEGINNING: Final = RunBeginning()


class RunBeginnings:
    """Predictions and times of runs that have begun; both are lost from a job's status when its plan changes or it begins again."""

    def __init__(self) -> None:
        """None is kept yet."""
        self._by_uid: dict[str, RunBeginning] = {}

    def look(self, state: ReconcileInput, status: JobStatus) -> None:
        """Keep what a job's status says as its run begins."""
        uid = state.job.metadata.uid
        before = self._by_uid.get(uid, NO_BEGINNING)
        if state.gang.mpijob is None or status.ended or before.began:
            return
        evaluation = before.evaluation or _answer(status)
        began = running.last_transition_time if (running := status.condition("Running")) is not None and running.status == "True" else ""
        if evaluation is None and not began:
            return
        while len(self._by_uid) >= MAX_BEGUN:
            del self._by_uid[next(iter(self._by_uid))]
        self._by_uid[uid] = RunBeginning(evaluation, began)

    def of(self, state: ReconcileInput) -> RunBeginning:
        """The beginning of a run; where an earlier process saw it, what the job's status says."""
        kept = self._by_uid.get(state.job.metadata.uid, NO_BEGINNING)
        running = state.job.status.condition("Running")
        written = running.last_transition_time if running is not None and running.status == "True" else ""
        return RunBeginning(kept.evaluation or _answer(state.job.status), kept.began or written)


def _answer(status: JobStatus) -> EvaluationStatus | None:
    """What was predicted; None where the evaluation failed or has not come yet."""
    return None if status.evaluation is None or status.evaluation.fault else status.evaluation


def finished_run(
    metadata: JobMetadata, job: JobSpec, plan: Plan, status: JobStatus, now: float, beginning: RunBeginning = NO_BEGINNING
) -> FinishedRun:
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
        **_outcome(plan, status, beginning, now),
        created_at=unix_seconds(metadata.created) if metadata.created and not is_future(metadata.created, now) else None,
    )


def _outcome(plan: Plan, status: JobStatus, beginning: RunBeginning, now: float) -> dict[str, Any]:
    """The fields of a run that earlier versions did not keep."""
    evaluation = beginning.evaluation or _answer(status)
    return {
        "hosts": len({worker.node for worker in plan.workers}),
        "low_seconds": plan.predicted.low_seconds,
        "high_seconds": plan.predicted.high_seconds,
        "evaluation": msgspec.json.encode(evaluation).decode() if evaluation is not None else None,
        "run_seconds": _run_seconds(status, beginning.began or status.start_time or "", now),
        "deadline_seconds": evaluation.deadline_seconds if evaluation is not None else None,
        "restarts": status.restarts,
        "preemptions": status.preemptions,
    }


def _run_seconds(status: JobStatus, began: str, now: float) -> float | None:
    """Seconds until the run's end; None where one of the times is unknown, in the future, or before the other."""
    completed = status.completion_time or ""
    if not began or not completed or is_future(completed, now):
        return None
    seconds = unix_seconds(completed) - unix_seconds(began)
    return seconds if seconds >= 0.0 else None


def _ended_at(status: JobStatus, now: float) -> float:
    """Return when a run ended in Unix seconds; `now` where the status has no time, or one that has not come yet."""
    ended = status.completion_time or ""
    return unix_seconds(ended) if ended and not is_future(ended, now) else now


def _products(plan: Plan) -> str:
    """Return the GPU products of a plan, sorted and joined by "+"."""
    return "+".join(sorted({worker.product for worker in plan.workers if worker.product}))
