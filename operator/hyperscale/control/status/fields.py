"""Fields of the status beside its conditions: the sizes that plans rest on, and the columns of `kubectl get gnntj`. Pure."""

from __future__ import annotations

from hyperscale.model.api.datasets import DatasetStatus, SizeSource, dataset_key, dataset_size, is_sized, states_size
from hyperscale.model.api.measured import Measured
from hyperscale.model.observed.reconcile_input import BatchJobState, ReconcileInput
from hyperscale.model.plan import Plan
from hyperscale.model.status import ReadyCount, StatusColumns
from hyperscale.observe.run_report import read_report
from hyperscale.util.rfc3339 import PREDICTED_DIGITS, duration_text


def columns(workers: ReadyCount | None, plan: Plan | None, measured: Measured | None, ended: bool) -> StatusColumns | None:
    """What kubectl shows of a job; None where there is nothing to show. ended: its workers are gone, or going."""
    shown = StatusColumns(
        ready=f"{workers.ready}/{workers.planned}" if workers and not ended else "",
        epoch=f"{measured.epoch}/{measured.epochs}" if measured else "",
        accuracy=f"{measured.accuracy:.1%}" if measured and measured.accuracy is not None else "",
        predicted=_column(plan.predicted.epoch_seconds if plan else None, PREDICTED_DIGITS),
        measured=_column(measured.epoch_seconds if measured else None),
    )
    return shown if shown != StatusColumns() else None


def _column(epoch_seconds: float | None, digits: int = 3) -> str:
    """A time of an epoch without spaces, which separate kubectl's columns."""
    return "" if epoch_seconds is None else duration_text(epoch_seconds, digits).replace(" ", "")


def dataset_status(state: ReconcileInput) -> DatasetStatus | None:
    """Return the sizes as known after this reconcile; those last written where the spec cannot be read or the run continues."""
    job, before = state.job.parsed, state.job.status.dataset
    if job is None:
        return before
    if not is_sized(job):
        return _sizes_read(state.inspection) or (before if state.gang.mpijob is not None else None)
    size = dataset_size(job)
    was_read = before is not None and before.source is SizeSource.READ
    if was_read and before is not None and (before.vertices, before.edges, before.feature_size, before.classes) == size:
        return before
    source = SizeSource.SPEC if states_size(job.dataset) else SizeSource.KNOWN
    return DatasetStatus(*size, source, dataset_key(job.dataset), job.dataset.train_vertices)


def _sizes_read(inspection: BatchJobState) -> DatasetStatus | None:
    """The sizes that the Job of this `spec.dataset` reported; None until it has ended well."""
    view, last = inspection.job, inspection.last_pod
    if not inspection.key or view is None or view.key != inspection.key or not view.succeeded or last is None:
        return None
    return read_report(last.termination, inspection.key)
