"""The condition `Waiting`: the operator's queue may start the job, and since when. Pure."""

from __future__ import annotations

from msgspec.structs import replace

from hyperscale.control.lifecycle.preflight_outcome import requires_preflight
from hyperscale.control.lifecycle.queue_wait import WAITING_CONDITION, is_pending, joins, waiting_since
from hyperscale.control.status.reason_sets import HELD_BACK
from hyperscale.control.status.run_conditions import new_condition
from hyperscale.model.api.condition import Condition
from hyperscale.model.api.datasets import is_sized
from hyperscale.model.decision import Decision
from hyperscale.model.observed.reconcile_input import ReconcileInput
from hyperscale.util.rfc3339 import timestamp


def waiting(state: ReconcileInput, decision: Decision) -> Condition | None:
    """Return the condition, dated with the begin of the wait; None where something else than the queue holds the job back."""
    if not _is_queued(state, decision):
        return None
    metadata = state.job.metadata
    since = waiting_since(state.job.status, metadata.created, metadata.generation, state.clock.now)
    condition = new_condition(WAITING_CONDITION, True, "InQueue", "the queue may start the job; its wait counts from the transition time")
    return replace(condition, last_transition_time=timestamp(since))


def _is_queued(state: ReconcileInput, decision: Decision) -> bool:
    job = state.job.parsed
    if job is None or decision.reason in HELD_BACK or not joins(job, state.job.metadata.labels):
        return False
    return is_pending(state) and is_sized(job) and not requires_preflight(state)
