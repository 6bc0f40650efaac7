"""Suspension and resumption: by the spec, by a queue, or by another client of the API."""

from __future__ import annotations

from hyperscale.control.decide.plan_job import REPLAN_AFTER_SECONDS, request_plan
from hyperscale.control.decide.recover_workers import stuck_on_lost_node
from hyperscale.control.lifecycle.movable import resizable, resizes
from hyperscale.control.lifecycle.stoppable import PREEMPTED_CONDITION
from hyperscale.control.lifecycle.suspension import awaits_report, resumed_by_other, suspended_by_other
from hyperscale.model import constants
from hyperscale.model.decision import Decision, FindWorkload, MakePlan, Reason, SetSuspend, Wait
from hyperscale.model.observed.reconcile_input import ReconcileInput


def suspended_by_another(state: ReconcileInput) -> Decision | None:
    """Leave an MPIJob suspended that another than the operator suspended, whatever the operator had started."""
    job, gang = state.job, state.gang
    mpijob = gang.mpijob
    if mpijob is None or not suspended_by_other(mpijob, job.status):
        return None
    if not gang.workload_read:
        return FindWorkload(Reason.SUSPENDED_EXTERNALLY)
    where = f"{job.metadata.name} -n {job.metadata.namespace}"
    if gang.workload:
        return Wait(
            Reason.QUEUED_BY_KUEUE,
            f'Kueue Workload "{gang.workload}" holds the MPIJob, which has no queue label; '
            f"admit it, or choose a LocalQueue: kubectl label mpijob {where} {constants.KUEUE_QUEUE_LABEL}=QUEUE",
        )
    who = f' by "{mpijob.suspender}"' if mpijob.suspender else ""
    patch = '{"spec":{"runPolicy":{"suspend":false}}}'
    return Wait(
        Reason.SUSPENDED_EXTERNALLY,
        f"the MPIJob was suspended{who}, not by this operator; it continues when the MPIJob is resumed: "
        f"kubectl patch mpijob {where} --type merge -p '{patch}'",
        retry_after_seconds=None if gang.workload is None else REPLAN_AFTER_SECONDS,
    )


def resizable_again(state: ReconcileInput) -> Decision | None:
    """Plan a suspended job before it resumes if its number of workers may change: its pods follow from the plan."""
    job, gang = state.job, state.gang
    mpijob = gang.mpijob
    if mpijob is None or not mpijob.suspended or job.spec.run_policy.suspend or not resizable(job.spec, mpijob):
        return None
    if left := gang.unfinished_pods:
        return stuck_on_lost_node(state) or Wait(Reason.RESUMED, f"{left} of its pods are still ending")
    return request_plan(state, MakePlan(Reason.RESUMED, "planned again after a suspension"))


def suspended_before_start(state: ReconcileInput) -> Decision | None:
    """Neither plan nor create a suspended job that has no MPIJob yet."""
    if state.gang.mpijob is None and state.job.spec.run_policy.suspend:
        return Wait(Reason.SUSPENDED, "spec.runPolicy.suspend is true; set it to false to plan and start the job")
    return None


def suspension_differs(state: ReconcileInput) -> Decision | None:
    """Carry `suspend` to the MPIJob once for each change, unless a queue owns it.

    The operator does not overrule another client that resumes the MPIJob: both could repeat that for ever. The gates stay closed instead.
    """
    mpijob, wanted = state.gang.mpijob, state.job.spec.run_policy.suspend
    if mpijob is None or mpijob.holder:
        return None
    step = SetSuspend(Reason.SUSPENDED if wanted else Reason.RESUMED, "as spec.runPolicy.suspend says", suspend=wanted)
    if not resumed_by_other(mpijob):
        return step if mpijob.suspended != wanted else None
    if wanted:
        return Wait(
            Reason.RESUMED_EXTERNALLY,
            "the MPIJob was resumed, not by this operator, while spec.runPolicy.suspend is true; its gated pods wait. "
            "Set spec.runPolicy.suspend to false to go on, or suspend the MPIJob",
        )
    return None if awaits_report(state.job.status) else step


def queued(state: ReconcileInput) -> Decision | None:
    """Suspended means queued, not failed: the plan's reservations lapse, and admission plans again."""
    mpijob = state.gang.mpijob
    if mpijob is None or not mpijob.suspended:
        return None
    if mpijob.queue:
        return Wait(Reason.QUEUED, f'waiting for queue "{mpijob.queue}"')
    return Wait(Reason.SUSPENDED, "spec.runPolicy.suspend is true; set it to false to go on")


def resumed(state: ReconcileInput) -> Decision | None:
    """Plan a resumed job again before its gates open: its plan is stale. So is a plan for another number of workers."""
    gang, plan, mpijob = state.gang, state.plan, state.gang.mpijob
    if mpijob is None or plan.in_force is None or any(pod.bound for pod in gang.workers) or not gang.gated_workers:
        return None
    if not _plan_is_stale(state):
        return None
    if plan.metrics is not None:
        return None  # this reconcile has planned it already
    return request_plan(state, MakePlan(Reason.RESUMED, "planned again after a suspension", workers_fixed=mpijob.workers))


def _plan_is_stale(state: ReconcileInput) -> bool:
    """Whether the plan is from before a suspension, preemption or release, or for another number of workers."""
    conditions = state.job.status.conditions
    was_suspended = any(condition.type in ("Suspended", PREEMPTED_CONDITION) and condition.status == "True" for condition in conditions)
    was_released = any(condition.reason == Reason.SCHEDULING_TIMEOUT for condition in conditions)
    return was_suspended or (was_released and not state.restart.migrating) or resizes(state)
