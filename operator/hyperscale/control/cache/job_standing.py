"""What a job's status, MPIJob and pods say of its life: whether it has started, ended, waits for room, or gives its GPUs back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from hyperscale.control.cache.records import JobRecord
from hyperscale.control.lifecycle.stoppable import is_preempted, run_is_over, waits_again
from hyperscale.model.decision import Reason
from hyperscale.model.observed.owned_objects import MpiJobView
from hyperscale.model.pods import WORKER, PodView

NO_MATTER_OF_ROOM: Final = frozenset(
    map(
        str,
        (
            Reason.INVALID_SPEC,
            Reason.INVALID_POD_TEMPLATE,
            Reason.NAME_CONFLICT,
            Reason.SUSPENDED,
            Reason.QUOTA_EXCEEDED,
            Reason.PREFLIGHTING,
            Reason.PREFLIGHT_FAILED,
            Reason.PREFLIGHT_UNKNOWN,
        ),
    )
)
"""Last steps of jobs that GPUs which come free do not help."""


class Standing(NamedTuple):
    """Which of the cache's sets of jobs a job belongs to."""

    unfinished: bool = False
    """Its run has not ended, as far as its status and MPIJob tell."""
    waiting: bool = False
    """Unfinished, and its workers are not all bound: more room may help it, a lost node concerns it."""
    unstarted: bool = False
    """Unfinished without an MPIJob, or with one that was stopped for others and has no pods left."""
    releasing: bool = False
    """It was stopped for others, and its pods still hold their GPUs."""


def standing(record: JobRecord, view: MpiJobView | None, pods: Sequence[PodView]) -> Standing:
    """view: the job's own MPIJob; pods: of that MPIJob, in any order."""
    stopped = view is not None and is_preempted(record.status, view)
    waits = stopped and view is not None and waits_again(view, pods)
    unfinished = not _has_ended(record, view)
    return Standing(
        unfinished=unfinished,
        waiting=unfinished and _waits_for_capacity(record, view, pods),
        unstarted=unfinished and (view is None or waits),
        releasing=stopped and not waits,
    )


def _waits_for_capacity(record: JobRecord, view: MpiJobView | None, pods: Sequence[PodView]) -> bool:
    """Whether free GPUs or a lost node concern an unfinished job."""
    if record.reported and record.status.reason in NO_MATTER_OF_ROOM:
        return False
    return view is None or sum(1 for pod in pods if pod.bound and pod.role == WORKER) < view.workers


def _has_ended(record: JobRecord, view: MpiJobView | None) -> bool:
    """Whether the run has ended and the status says so of the spec as it is."""
    return run_is_over(record.status) and record.reported and (view is None or view.ending is not None)
