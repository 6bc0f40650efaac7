"""Migration: restart a running job from its checkpoint on a better placement."""

from __future__ import annotations

from hyperscale.control.decide.plan_job import request_plan
from hyperscale.control.decide.recover_workers import stuck_on_lost_node
from hyperscale.control.lifecycle.movable import migration_blocker, misplaced_workers, resizes
from hyperscale.control.lifecycle.suspension import resumed_by_other
from hyperscale.model.decision import BeginMigration, Decision, MakePlan, Reason, SetSuspend, Wait
from hyperscale.model.observed.owned_objects import MpiJobView
from hyperscale.model.observed.reconcile_input import ReconcileInput
from hyperscale.model.plan import Plan


def migrating(state: ReconcileInput) -> Decision | None:
    """Carry a recorded migration through: suspend, wait until the old pods are gone, start on the new plan."""
    mpijob, plan = state.gang.mpijob, state.plan
    if not state.restart.migrating or mpijob is None or plan.in_force is None or state.job.spec.run_policy.suspend:
        return None
    if not plan.recorded:
        return Wait(Reason.MIGRATING, "the new plan is being written down", retry_after_seconds=0.0)
    if mpijob.holder:  # a queue that was named meanwhile
        return None if mpijob.suspended else _plan_in_place(state, mpijob)
    if mpijob.suspended:
        return _resume_migrated(state)
    if resumed_by_other(mpijob):
        again = SetSuspend(Reason.MIGRATING, "the MPIJob was resumed, not by this operator", suspend=False)
        return _plan_in_place(state, mpijob) or again
    return _suspend_to_migrate(state, mpijob, plan.in_force)


def _resume_migrated(state: ReconcileInput) -> Decision:
    """Resume the MPIJob on its new plan once the old pods are gone."""
    if left := state.gang.unfinished_pods:
        return stuck_on_lost_node(state) or Wait(Reason.MIGRATING, f"{left} pods of the old placement are still ending")
    return SetSuspend(Reason.MIGRATING, "starts on the new plan", suspend=False)


def _suspend_to_migrate(state: ReconcileInput, mpijob: MpiJobView, plan: Plan) -> Decision | None:
    """Suspend a running MPIJob whose workers differ from the plan, in number or in place."""
    if resizes(state):
        change = f"with {len(plan.workers)} workers instead of {mpijob.workers}"
        return SetSuspend(Reason.MIGRATING, f"stops because it continues {change}", suspend=True)
    if misplaced := misplaced_workers(state):
        return SetSuspend(Reason.MIGRATING, f"stops because {len(misplaced)} workers change their node", suspend=True)
    return None


def migration_pays(state: ReconcileInput) -> Decision | None:
    """Migrate a running job when a better placement has been worth its cost for long enough and nothing blocks a restart."""
    job, mpijob, restart = state.job, state.gang.mpijob, state.restart
    advice = restart.migration
    if advice is None or advice.plan is None or restart.migrating or mpijob is None or not mpijob.is_true("Running"):
        return None
    if migration_blocker(job.spec, mpijob, job.status.plan_changes):
        return None
    return BeginMigration(Reason.MIGRATING, "a better placement pays for the restart", plan=advice.plan)


def _plan_in_place(state: ReconcileInput, mpijob: MpiJobView) -> Decision | None:
    """Plan again around the workers that run, after another client resumed the MPIJob before they had moved."""
    workers = state.gang.workers
    if not (resizes(state) or misplaced_workers(state)):
        return None
    if left := sum(1 for pod in workers if pod.terminating):
        return Wait(Reason.MIGRATING, f"{left} pods of the old placement are still ending")
    message = "the MPIJob was resumed, not by this operator, before its workers had moved"
    pinned = {pod.index: pod.node for pod in workers if pod.bound and pod.index is not None}
    return request_plan(state, MakePlan(Reason.PLAN_STALE, message, workers_fixed=mpijob.workers, pinned=pinned))
