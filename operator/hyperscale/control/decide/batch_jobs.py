"""The Jobs that a run rests on: one reads sizes of the training graph before the first plan, one writes partitions for the workers."""

from __future__ import annotations

from typing import Final, NamedTuple

from hyperscale.model.decision import Decision, EnsureInspection, EnsurePartitions, Reason, Stop, Wait
from hyperscale.model.observed.reconcile_input import BatchJobState, ReconcileInput
from hyperscale.model.pods import PodView
from hyperscale.observe.run_report import read_report

POLL_SECONDS: Final = 5.0
"""Interval between reads of a Job without pod events; an event of its pods triggers a read at once."""
ENDING_SECONDS: Final = 1.0
"""The same interval after its pod has ended: the Job's status follows a moment later."""
STATE_SIZES: Final = "write vertices, edges, featureSize and classes in spec.dataset"


class _Work(NamedTuple):
    """What one of the Jobs is for, in reasons and words."""

    name: str
    reason: Reason
    failed: Reason
    does: str
    remedy: str = ""


_INSPECTION: Final = _Work(
    "inspect",
    Reason.INSPECTING_DATASET,
    Reason.DATASET_UNREADABLE,
    "reads the sizes of the training graph",
    f"; fix it, or {STATE_SIZES}",
)
_NO_POD: Final = PodView("", "")
_PARTITIONING: Final = _Work("partition", Reason.PARTITIONING, Reason.PARTITIONING_FAILED, "writes the parts of the training graph")


def lacks_dataset_sizes(state: ReconcileInput) -> Decision | None:
    """Read the graph of a job that states no sizes, before it is planned; its pods are watched, its Job is read once a reconcile."""
    inspection = state.inspection
    if not inspection.key or state.gang.mpijob is not None:
        return None
    if not inspection.read:
        return EnsureInspection(Reason.INSPECTING_DATASET)
    if (unfinished := _unfinished(inspection, _INSPECTION)) is not None:
        return unfinished
    if inspection.last_pod is None:
        return EnsureInspection(Reason.INSPECTING_DATASET, again=True)
    if read_report(inspection.last_pod.termination, inspection.key) is None:
        return Stop(Reason.DATASET_UNREADABLE, f"the report of the inspect Job cannot be read; {STATE_SIZES}")
    return Wait(Reason.INSPECTING_DATASET, "the sizes of the training graph are read", retry_after_seconds=0.0)


def lacks_partitions(state: ReconcileInput) -> Decision | None:
    """Write the partitions of a job with a volume before its MPIJob exists."""
    return _partitions(state.partitions) if state.gang.mpijob is None else None


def lacks_new_partitions(state: ReconcileInput) -> Decision | None:
    """Write new partitions before a replaced worker's gate opens, if its new share needs them."""
    if not state.gang.gated_workers or state.capacity.misfits or not state.plan.recorded:
        return None
    return _partitions(state.partitions)


def _partitions(partitions: BatchJobState) -> Decision | None:
    """Return None once the partitions are written. The Job is not watched, so it is read at most once a reconcile; its pods are watched."""
    view = partitions.job
    if not partitions.key or (view is not None and view.key == partitions.key and view.succeeded):
        return None
    return _unfinished(partitions, _PARTITIONING) if partitions.read else EnsurePartitions(Reason.PARTITIONING)


def _unfinished(job: BatchJobState, work: _Work) -> Decision | None:
    """Return how far a Job is by its last pod, which waits for a node, works, ends or has failed; None once both ended well."""
    view, last = job.job, job.last_pod or _NO_POD
    if view is None or view.key != job.key or view.deleting:
        return Wait(work.reason, f"the previous {work.name} Job is still being deleted", retry_after_seconds=ENDING_SECONDS)
    if view.failed:
        cause = next(filter(None, (last.termination.strip(), view.message, f"the {work.name} Job failed")))
        return Stop(work.failed, f"{cause}{work.remedy}")
    if view.succeeded and (job.last_pod is None or last.finished):
        return None
    if view.succeeded or last.finished:
        return Wait(work.reason, f"the {work.name} Job is ending", retry_after_seconds=ENDING_SECONDS)
    does = f"'s pod waits: {last.unschedulable}" if last.unschedulable else f" {work.does}"
    return Wait(work.reason, f"the {work.name} Job{does}", retry_after_seconds=POLL_SECONDS)
