"""From a valid spec to an MPIJob: request a plan, keep it current, wait for approval, create the MPIJob."""

from __future__ import annotations

from typing import Final

from hyperscale.control.lifecycle.offered import is_of_earlier_spec, preference_note
from hyperscale.model import constants
from hyperscale.model.api.job import PlannerChoice, StartPolicy
from hyperscale.model.decision import CreateMpiJob, Decision, MakePlan, Reason, Wait
from hyperscale.model.observed.reconcile_input import ReconcileInput

REPLAN_AFTER_SECONDS: Final = 30.0
"""Interval between plan requests of a job without capacity. Capacity events shorten it; after `NeverFits` only node changes do."""

SHOWN_ID: Final = 64
"""Characters of an annotation's value in a message."""


def lacks_plan(state: ReconcileInput) -> Decision | None:
    """Plan before anything is created; without capacity report what is missing and ask again later."""
    mpijob = state.gang.mpijob
    unplanned = state.job.spec.planner is PlannerChoice.NONE
    if unplanned or state.plan.in_force is not None or (mpijob is not None and not mpijob.gated):
        return None
    return request_plan(state, MakePlan(Reason.PLANNING, workers_fixed=mpijob.workers if mpijob else None))


def spec_changed_before_start(state: ReconcileInput) -> Decision | None:
    """Replace a plan of an earlier generation as long as nothing was created from it."""
    if state.gang.mpijob is not None or state.plan.in_force is None or not is_of_earlier_spec(state):
        return None
    return request_plan(state, MakePlan(Reason.SPEC_CHANGED, "the spec changed since the plan was made"))


def start_policy_never(state: ReconcileInput) -> Decision | None:
    """Stop at the plan where `spec.startPolicy` asks for nothing else."""
    if state.gang.mpijob is None and state.job.spec.start_policy is StartPolicy.NEVER:
        return Wait(Reason.START_POLICY_NEVER, "spec.startPolicy is Never; write Automatic or Manual to run this plan")
    return None


def plan_no_longer_fits(state: ReconcileInput) -> Decision | None:
    """Plan again when a planned node is gone, full or cordoned before anything was created.

    After a failed partition Job another node does not help: the job waits for a new spec or a new partition Job.
    """
    view = state.partitions.job
    partitioning_failed = view is not None and view.failed and view.key == state.partitions.key
    if state.gang.mpijob is not None or not state.capacity.misfits or partitioning_failed:
        return None
    return request_plan(state, MakePlan(Reason.PLAN_STALE, misfits_text(state)))


def awaits_approval(state: ReconcileInput) -> Decision | None:
    """Wait until a person approves this very plan; a later plan needs its own approval."""
    job, plan = state.job, state.plan
    if state.gang.mpijob is not None or plan.in_force is None or job.spec.start_policy is not StartPolicy.MANUAL:
        return None
    approved = job.metadata.annotations.get(constants.APPROVED_PLAN_ANNOTATION, "")
    if approved == plan.in_force.plan_id:
        return None
    command = constants.approval_command(job.metadata.namespace, job.metadata.name, plan.in_force.plan_id)
    was = f"plan {approved[:SHOWN_ID]} was approved, but it is no longer the plan; " if approved else ""
    note = preference_note(state)
    return Wait(Reason.AWAITING_APPROVAL, f"{was}{note}{'; ' if note else ''}approve with: {command}")


def lacks_mpijob(state: ReconcileInput) -> Decision | None:
    """Create the MPIJob, annotated with its plan."""
    return CreateMpiJob(Reason.CREATING) if state.gang.mpijob is None else None


def request_plan(state: ReconcileInput, step: MakePlan) -> Decision:
    """Return `step`; after a refusal or deferral in this reconcile return the wait with its reason."""
    plan, admission = state.plan, state.plan.admission
    if plan.refusal is not None:
        again = None if plan.refusal.never else REPLAN_AFTER_SECONDS
        return Wait(plan.refusal.reason, plan.refusal.message, retry_after_seconds=again)
    if admission is not None and admission.reason and plan.metrics is None:
        retry = min(REPLAN_AFTER_SECONDS, admission.retry_after_seconds or REPLAN_AFTER_SECONDS)
        return Wait(admission.reason, admission.message, retry_after_seconds=retry)
    return step


def misfits_text(state: ReconcileInput) -> str:
    """Return the first misfits with their nodes, for a message."""
    return "; ".join(f"{misfit.node}: {misfit.message or misfit.reason}" for misfit in state.capacity.misfits[:3])
