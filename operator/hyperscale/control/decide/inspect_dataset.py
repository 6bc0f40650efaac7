"""The sizes of the training graph are known before the first plan: stated, or read by a Job."""

from __future__ import annotations

from typing import Final

from hyperscale.control.decide.write_partitions import PARTITION_ENDING_SECONDS, PARTITION_POLL_SECONDS
from hyperscale.control.lifecycle.inspection import inspect_pod
from hyperscale.model.decision import Decision, EnsureInspection, Reason, Stop, Wait
from hyperscale.model.observed.owned_objects import BatchJobView
from hyperscale.model.observed.reconcile_input import BatchJobState, ReconcileInput
from hyperscale.model.pods import PodView
from hyperscale.observe.dataset_report import read_report

STATE_SIZES: Final = "or write vertices, edges, featureSize and classes in spec.dataset"


def lacks_dataset_sizes(state: ReconcileInput) -> Decision | None:
    """Read the graph of a job that states no sizes, before it is planned; its pods are watched, its Job is read once a reconcile."""
    inspection = state.inspection
    if not inspection.key or state.gang.mpijob is not None:
        return None
    view = inspection.job
    if not inspection.read:
        return EnsureInspection(Reason.INSPECTING_DATASET)
    if view is None or view.key != inspection.key or view.deleting:
        return Wait(
            Reason.INSPECTING_DATASET, "the previous inspect Job is still being deleted", retry_after_seconds=PARTITION_ENDING_SECONDS
        )
    last = inspect_pod(inspection)
    if view.failed:
        return _failed(view, last)
    return _reported(inspection, last) if view.succeeded and (last is None or last.finished) else _unfinished(view, last)


def _failed(view: BatchJobView, last: PodView | None) -> Decision:
    """Return the stop with the last word of the Job's program, else that of the Job controller."""
    termination = last.termination.strip() if last is not None else ""
    return Stop(Reason.DATASET_UNREADABLE, f"{termination or view.message or 'the inspect Job failed'}; fix it, {STATE_SIZES}")


def _unfinished(view: BatchJobView, last: PodView | None) -> Decision:
    """Return how far the Job is, by its last pod: it ends, its pod waits for a node, or it reads."""
    if view.succeeded or (last is not None and last.finished):
        return Wait(Reason.INSPECTING_DATASET, "the inspect Job is ending", retry_after_seconds=PARTITION_ENDING_SECONDS)
    waiting = last.unschedulable if last is not None else ""
    message = f"the inspect Job's pod waits: {waiting}" if waiting else "the inspect Job reads the sizes of the training graph"
    return Wait(Reason.INSPECTING_DATASET, message, retry_after_seconds=PARTITION_POLL_SECONDS)


def _reported(inspection: BatchJobState, last: PodView | None) -> Decision:
    """Return the wait for the sizes to be written down; where the report cannot be had, what follows from that."""
    if last is None:
        return EnsureInspection(Reason.INSPECTING_DATASET, again=True)
    if read_report(last.termination, inspection.key) is None:
        return Stop(Reason.DATASET_UNREADABLE, f"the report of the inspect Job cannot be read; {STATE_SIZES.removeprefix('or ')}")
    return Wait(Reason.INSPECTING_DATASET, "the sizes of the training graph are read", retry_after_seconds=0.0)
