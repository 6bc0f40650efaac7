"""Since when a pending job waits for the operator's queue, and how long it has waited because of its preemptions. Pure.

The condition `Waiting` is True while the queue may start the job, and its transition time is the begin of the wait. So no time counts in
which something else held the job back, and no restart of the operator changes a wait. The status has a digest of what waits: a job that
cannot start must not collect a wait that one edit gives to another job.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Final

import msgspec
from msgspec.structs import FieldInfo, fields, replace

from hyperscale.control.lifecycle.movable import short
from hyperscale.control.lifecycle.stoppable import PREEMPTED_CONDITION
from hyperscale.model import constants
from hyperscale.model.api.job import JobSpec, PlannerChoice, StartPolicy
from hyperscale.model.observed.reconcile_input import ReconcileInput
from hyperscale.model.status import JobStatus, LastPreemption
from hyperscale.util.rfc3339 import unix_seconds

WAITING_CONDITION: Final = "Waiting"
_DEMAND: Final = ("model", "dataset", "workers", "partitioning", "placement", "checkpoint", "planner", "policy_ref")
"""What decides where and how long a job runs; also a checkpoint's claim and a policy may keep it from all nodes."""


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


def demand_digest(job: JobSpec) -> str:
    """32 hex digits that differ where the spec fields do that decide where and how long the job runs, defaults left out.

    An author finds no two jobs with one digest of this length.
    """
    stated = {name: _stated(getattr(job, name)) for name in _DEMAND}
    return hashlib.sha256(msgspec.json.encode(stated, order="deterministic")).hexdigest()[:32]


def _stated(value: object) -> object:
    """What differs from its default, so that a field of a later version changes no digest."""
    if not isinstance(value, msgspec.Struct):
        return value
    given = ((field, getattr(value, field.name)) for field in fields(value))
    return {field.encode_name: _stated(one) for field, one in given if one != _default(field)}


def _default(field: FieldInfo) -> object:
    return field.default_factory() if field.default_factory is not msgspec.NODEFAULT else field.default


def continues(status: JobStatus, generation: int, demand: str) -> bool:
    """Whether a job with this digest waits as before. Without a recorded digest any other generation may be another job."""
    waiting = status.condition(WAITING_CONDITION)
    if waiting is None or waiting.status != "True":
        return False
    return status.queued_spec == demand if status.queued_spec else waiting.observed_generation == generation


def waiting_since(status: JobStatus, created: str, generation: int, now: float, demand: str) -> float:
    """Return the Unix seconds from which the wait of a job counts that the queue may start `now`, never before its creation.

    demand: the `demand_digest` of its spec

    A job without a status waits since its creation; after a change of its spec it may have been suspended before, and waits from `now`.
    The time may lie after `now` where the API server's clock is ahead: it stays, so that not every pass writes another.
    """
    earliest = unix_seconds(created) if created else now
    waiting = status.condition(WAITING_CONDITION)
    if waiting is not None and waiting.last_transition_time and continues(status, generation, demand):
        return max(unix_seconds(waiting.last_transition_time), earliest)
    return earliest if status == JobStatus() and generation <= 1 else max(now, earliest)


def queued_since(status: JobStatus, created: str, generation: int, now: float, demand: str) -> float:
    """Return the same for the queue, at most `now`: waits of a preempted job for earlier preemptions count too, its runs do not."""
    since = min(waiting_since(status, created, generation, now, demand), now)
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
