"""Preemption: suspend a running job so that other jobs finish sooner; it resumes from its checkpoint."""

from __future__ import annotations

from msgspec.structs import replace

from hyperscale.control.decide.plan_job import request_plan
from hyperscale.control.decide.recover_workers import stuck_on_lost_node
from hyperscale.control.lifecycle.movable import migration_blocker, resizable
from hyperscale.control.lifecycle.stoppable import preemption_message
from hyperscale.model.decision import BeginStop, Decision, MakePlan, Reason, SetSuspend, Wait
from hyperscale.model.observed.reconcile_input import ReconcileInput


def preempted(state: ReconcileInput) -> Decision | None:
    """Carry a recorded preemption through; then the job waits for admission like others and resumes on a new plan."""
    job, preemption = state.mpijob, state.status.last_stop
    if not state.preempted or preemption is None or job is None or job.holder or state.spec.run_policy.suspend:
        return None
    if not state.stop_recorded:
        return Wait(Reason.PREEMPTED, preemption_message(preemption, state.metadata.key), retry_after_seconds=0.0)
    if not job.suspended:
        return SetSuspend(Reason.PREEMPTED, preemption_message(preemption, state.metadata.key), suspend=True)
    if left := state.unfinished_pods:
        return stuck_on_lost_node(state) or Wait(Reason.PREEMPTED, f"{left} of its pods are still ending")
    step = request_plan(state, MakePlan(Reason.PREEMPTED, workers_fixed=None if resizable(state.spec, job) else job.workers))
    return replace(step, reason=Reason.PREEMPTED) if isinstance(step, Wait) else step


def preemption_pays(state: ReconcileInput) -> Decision | None:
    """Preempt a running job when the time saved for others exceeds its restart cost and nothing blocks a restart."""
    if state.stop is None or not state.stop.due or state.moving or state.mpijob is None or not state.mpijob.is_true("Running"):
        return None
    if migration_blocker(state.spec, state.mpijob, state.status.replans):
        return None
    return BeginStop(Reason.PREEMPTED)
