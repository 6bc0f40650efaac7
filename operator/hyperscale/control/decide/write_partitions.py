"""Partitions of the training graph are on the job's volume before any worker reads them."""

from __future__ import annotations

from typing import Final

from hyperscale.model.decision import Decision, EnsurePartitions, Reason, Stop, Wait
from hyperscale.model.observed.owned_objects import BatchJobView
from hyperscale.model.observed.reconcile_input import BatchJobState, ReconcileInput

PARTITION_POLL_SECONDS: Final = 5.0
"""Interval between reads of a partition Job without pod events; an event of its pods triggers a read at once."""
PARTITION_ENDING_SECONDS: Final = 1.0
"""The same interval after its pod has ended: the Job's status follows a moment later."""


def lacks_partitions(state: ReconcileInput) -> Decision | None:
    """Write the partitions of a job with a volume before its MPIJob exists."""
    return _partitions(state) if state.gang.mpijob is None else None


def lacks_new_partitions(state: ReconcileInput) -> Decision | None:
    """Write new partitions before a replaced worker's gate opens, if its new share needs them."""
    if not state.gang.gated_workers or state.capacity.misfits or not state.plan.recorded:
        return None
    return _partitions(state)


def _partitions(state: ReconcileInput) -> Decision | None:
    """Return None once the partitions are written. The Job is not watched, so it is read at most once a reconcile; its pods are watched."""
    partitions = state.partitions
    view = partitions.job
    if not partitions.key or (view is not None and view.key == partitions.key and view.succeeded):
        return None
    if not partitions.read:
        return EnsurePartitions(Reason.PARTITIONING)
    if view is None or view.key != partitions.key or view.deleting:
        return Wait(Reason.PARTITIONING, "the previous partition Job is still being deleted", retry_after_seconds=PARTITION_ENDING_SECONDS)
    return _unfinished(partitions, view)


def _unfinished(partitions: BatchJobState, view: BatchJobView) -> Decision:
    """Return how far the partition Job is, by its last pod: it failed, it ends, its pod waits for a node, or it writes."""
    last = next((pod for pod in reversed(partitions.pods) if pod.owner_uid == view.uid), None)
    if view.failed:
        termination = last.termination.strip() if last is not None else ""
        return Stop(Reason.PARTITIONING_FAILED, termination or view.message or "the partition Job failed")
    if last is not None and last.finished:
        return Wait(Reason.PARTITIONING, "the partition Job is ending", retry_after_seconds=PARTITION_ENDING_SECONDS)
    waiting = last.unschedulable if last is not None else ""
    message = f"the partition Job's pod waits: {waiting}" if waiting else "the partition Job writes the parts of the training graph"
    return Wait(Reason.PARTITIONING, message, retry_after_seconds=PARTITION_POLL_SECONDS)
