"""Since when a pending job waits for the operator's queue, and how long it has waited because of its preemptions. Pure.

The condition `Waiting` is True exactly while the queue may start the job, and its transition time is the begin of the wait. So neither time
in which something else held the job back counts, nor does a restart of the operator change a wait.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec.structs import replace

from hyperscale.control.lifecycle.movable import short
from hyperscale.control.lifecycle.stoppable import PREEMPTED_CONDITION
from hyperscale.model import constants
from hyperscale.model.api.job import JobSpec, PlannerChoice, StartPolicy
from hyperscale.model.observed.reconcile_input import ReconcileInput
from hyperscale.model.status import JobStatus, LastPreemption
from hyperscale.util.rfc3339 import unix_seconds

WAITING_CONDITION: Final = "Waiting"


def joins(job: JobSpec, labels: Mapping[str, str]) -> bool:
    """Whether the operator decides when the job starts: not a queue, not a person."""
    return (
        not labels.get(constants.KUEUE_QUEUE_LABEL)
        and job.planner is not PlannerChoice.NONE
        and job.start_policy is StartPolicy.AUTOMATIC
        and not job.run_policy.suspend
    )


def is_pending(state: ReconcileInput) -> bool:
    """Whether the job is neither planned nor created yet, or was preempted since."""
    return state.restart.preempted or (state.gang.mpijob is None and state.plan.in_force is None)


def waiting_since(status: JobStatus, created: str, generation: int, now: float) -> float:
    """Return the Unix seconds from which the wait of a job counts that the queue may start `now`, never before its creation.

    A job without a status waits since its creation; after a change of its spec it may have been suspended before, and waits from `now`.
    """
    earliest = min(unix_seconds(created), now)
    waiting = status.condition(WAITING_CONDITION)
    if waiting is not None and waiting.status == "True":
        return min(max(unix_seconds(waiting.last_transition_time), earliest), now)
    return earliest if status == JobStatus() and generation <= 1 else now


def queued_since(status: JobStatus, created: str, generation: int, now: float) -> float:
    """Return the same for the queue: the waits of a preempted job because of earlier preemptions count too, its runs do not."""
    since = waiting_since(status, created, generation, now)
    stop = status.last_preemption
    if stop is None or not status.is_true(PREEMPTED_CONDITION):
        return since
    return max(since - stop.waited_seconds, min(unix_seconds(created), now))


def stop_after(status: JobStatus, now: float, *, waits: bool) -> LastPreemption | None:
    """Return the last preemption after a reconcile; where its wait is over, it has that wait added to the earlier ones.

    waits: the job still waits
    """
    stop, waiting = status.last_preemption, status.condition(WAITING_CONDITION)
    if stop is None or waiting is None or waits or not status.is_true(PREEMPTED_CONDITION):
        return stop
    since = max(unix_seconds(stop.start_time), unix_seconds(waiting.last_transition_time))
    return replace(stop, waited_seconds=short(stop.waited_seconds + max(0.0, now - since)))
