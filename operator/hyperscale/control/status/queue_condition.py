"""The condition `Waiting`: the operator's queue may start the job, and since when. Pure."""

from __future__ import annotations

from msgspec.structs import replace

from hyperscale.control.lifecycle.preflight_outcome import requires_preflight
from hyperscale.control.lifecycle.queue_wait import WAITING_CONDITION, continues, demand_digest, is_pending, joins, waiting_since
from hyperscale.control.status.reason_sets import HELD_BACK
from hyperscale.control.status.run_conditions import new_condition
from hyperscale.model import constants
from hyperscale.model.api.condition import Condition
from hyperscale.model.api.datasets import is_sized
from hyperscale.model.api.job import JobSpec
from hyperscale.model.decision import Decision
from hyperscale.model.observed.reconcile_input import ReconcileInput
from hyperscale.model.plan import NEVER_FITS
from hyperscale.util.rfc3339 import timestamp


def waiting(state: ReconcileInput, decision: Decision) -> Condition | None:
    """Return the condition, dated with the begin of the wait; None where something else than the queue holds the job back."""
    metadata, job, status = state.job.metadata, state.job.parsed, state.job.status
    if job is None:
        return status.condition(WAITING_CONDITION) if _only_lacks_policy(state) else None
    demand = demand_digest(job)
    # No wait begins while the job never fits or has a plan, but one lasts: a node may be away for a moment, and a plan may fit no more.
    lasts = continues(status, metadata.generation, demand)
    held_back = decision.reason in HELD_BACK and not (lasts and decision.reason == NEVER_FITS)
    pending = is_pending(state) or (lasts and state.gang.mpijob is None)
    if held_back or not pending or not _is_queued(state, job):
        return None
    since = waiting_since(status, metadata.created, metadata.generation, state.clock.now, demand)
    condition = new_condition(WAITING_CONDITION, True, "InQueue", "the job is in the queue; its wait counts from the transition time")
    return replace(condition, last_transition_time=timestamp(since))


def queued_spec(state: ReconcileInput, *, waits: bool) -> str:
    """Return the digest of the spec that waits; "" where none does.

    waits: the job still waits
    """
    if not waits:
        return ""
    return demand_digest(state.job.parsed) if state.job.parsed is not None else state.job.status.queued_spec


def _only_lacks_policy(state: ReconcileInput) -> bool:
    """Whether a pending job cannot be read for its policy only, while its spec is as it was when the condition was written."""
    fault, metadata, before = state.job.fault, state.job.metadata, state.job.status.condition(WAITING_CONDITION)
    if fault is None or not fault.of_policy or before is None or metadata.labels.get(constants.KUEUE_QUEUE_LABEL):
        return False
    unstarted = is_pending(state) or state.gang.mpijob is None
    return before.status == "True" and before.observed_generation == metadata.generation and unstarted


def _is_queued(state: ReconcileInput, job: JobSpec) -> bool:
    return joins(job, state.job.metadata.labels) and is_sized(job) and not requires_preflight(state)
