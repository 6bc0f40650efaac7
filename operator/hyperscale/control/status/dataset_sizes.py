"""`status.dataset`: the sizes of the training graph that plans rest on, and where they come from. Pure."""

from __future__ import annotations

from hyperscale.control.lifecycle.inspection import sizes_read
from hyperscale.model.api.datasets import DatasetStatus, SizeSource, dataset_key, dataset_size, is_sized
from hyperscale.model.observed.reconcile_input import ReconcileInput


def dataset_status(state: ReconcileInput) -> DatasetStatus | None:
    """Return the sizes as known after this reconcile; those last written where the spec cannot be read or the run continues."""
    job, before = state.job.parsed, state.job.status.dataset
    if job is None:
        return before
    if not is_sized(job):
        return sizes_read(state.inspection) or (before if state.gang.mpijob is not None else None)
    size = dataset_size(job)
    was_read = before is not None and before.source is SizeSource.READ
    if was_read and before is not None and (before.vertices, before.edges, before.feature_size, before.classes) == size:
        return before
    stated = all(value is not None for value in (job.dataset.vertices, job.dataset.edges, job.dataset.feature_size, job.dataset.classes))
    return DatasetStatus(
        vertices=size.vertices,
        edges=size.edges,
        feature_size=size.feature_size,
        classes=size.classes,
        train_vertices=job.dataset.train_vertices,
        source=SizeSource.SPEC if stated else SizeSource.KNOWN,
        dataset_key=dataset_key(job.dataset),
    )
