"""What the Job that reads the sizes of a training graph has reported. Pure."""

from __future__ import annotations

from hyperscale.model.api.datasets import DatasetStatus
from hyperscale.model.observed.reconcile_input import BatchJobState
from hyperscale.model.pods import PodView
from hyperscale.observe.dataset_report import read_report


def inspect_pod(inspection: BatchJobState) -> PodView | None:
    """The latest pod of the Job; pods of others under its labels do not count."""
    uid = inspection.job.uid if inspection.job is not None else ""
    return next((pod for pod in reversed(inspection.pods) if uid and pod.owner_uid == uid), None)


def sizes_read(inspection: BatchJobState) -> DatasetStatus | None:
    """The sizes that the Job of this `spec.dataset` reported; None until it has ended well."""
    view, last = inspection.job, inspect_pod(inspection)
    if not inspection.key or view is None or view.key != inspection.key or not view.succeeded or last is None:
        return None
    return read_report(last.termination, inspection.key)
