"""Preemption: suspend a running job so that other jobs finish sooner; it resumes from its checkpoint."""

from __future__ import annotations

from msgspec.structs import replace

from hyperscale.control.decide.plan_job import request_plan
from hyperscale.control.decide.recover_workers import stuck_on_lost_node
from hyperscale.control.lifecycle.movable import migration_blocker, resizable
from hyperscale.control.lifecycle.stoppable import preemption_message
from hyperscale.model.decision import BeginPreemption, Decision, MakePlan, Reason, SetSuspend, Wait
from hyperscale.model.observed.reconcile_input import ReconcileInput


def preempted(state: ReconcileInput) -> Decision | None:
    """Carry a recorded preemption through; then the job waits for admission like others and resumes on a new plan."""
    job, gang, restart = state.job, state.gang, state.restart
    mpijob, preemption = gang.mpijob, job.status.last_preemption
    if not restart.preempted or preemption is None or mpijob is None or mpijob.holder or job.spec.run_policy.suspend:
        return None
    if not restart.preemption_recorded:
        return Wait(Reason.PREEMPTED, preemption_message(preemption, job.metadata.key), retry_after_seconds=0.0)
    if not mpijob.suspended:
        return SetSuspend(Reason.PREEMPTED, preemption_message(preemption, job.metadata.key), suspend=True)
    if left := gang.unfinished_pods:
        return stuck_on_lost_node(state) or Wait(Reason.PREEMPTED, f"{left} of its pods are still ending")
    step = request_plan(state, MakePlan(Reason.PREEMPTED, workers_fixed=None if resizable(job.spec, mpijob) else mpijob.workers))
    return replace(step, reason=Reason.PREEMPTED) if isinstance(step, Wait) else step


def preemption_pays(state: ReconcileInput) -> Decision | None:
    """Preempt a running job when the time saved for others exceeds its restart cost and nothing blocks a restart."""
    job, mpijob, restart = state.job, state.gang.mpijob, state.restart
    advice = restart.preemption
    if advice is None or not advice.due or restart.migrating or mpijob is None or not mpijob.is_true("Running"):
        return None
    if migration_blocker(job.spec, mpijob, job.status.plan_changes):
        return None
    return BeginPreemption(Reason.PREEMPTED)
