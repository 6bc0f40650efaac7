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
    job = state.mpijob
    if job is None or not suspended_by_other(job, state.status):
        return None
    if not state.workload_looked:
        return FindWorkload(Reason.SUSPENDED_EXTERNALLY)
    where = f"{state.metadata.name} -n {state.metadata.namespace}"
    if state.workload:
        return Wait(
            Reason.QUEUED_BY_KUEUE,
            f'Kueue Workload "{state.workload}" holds the MPIJob, which has no queue label; '
            f"admit it, or choose a LocalQueue: kubectl label mpijob {where} {constants.KUEUE_QUEUE_LABEL}=QUEUE",
        )
    who = f' by "{job.suspender}"' if job.suspender else ""
    patch = '{"spec":{"runPolicy":{"suspend":false}}}'
    return Wait(
        Reason.SUSPENDED_EXTERNALLY,
        f"the MPIJob was suspended{who}, not by this operator; it continues when the MPIJob is resumed: "
        f"kubectl patch mpijob {where} --type merge -p '{patch}'",
        retry_after_seconds=None if state.workload is None else REPLAN_AFTER_SECONDS,
    )


def resizable_again(state: ReconcileInput) -> Decision | None:
    """Plan a suspended job before it resumes if its number of workers may change: its pods follow from the plan."""
    job = state.mpijob
    if job is None or not job.suspended or state.spec.run_policy.suspend or not resizable(state.spec, job):
        return None
    if left := state.unfinished_pods:
        return stuck_on_lost_node(state) or Wait(Reason.RESUMED, f"{left} of its pods are still ending")
    return request_plan(state, MakePlan(Reason.RESUMED, "planned anew after a suspension"))


def suspended_before_start(state: ReconcileInput) -> Decision | None:
    """Neither plan nor create a suspended job that has no MPIJob yet."""
    if state.mpijob is None and state.spec.run_policy.suspend:
        return Wait(Reason.SUSPENDED, "spec.runPolicy.suspend is true; set it to false to plan and start the job")
    return None


def suspension_differs(state: ReconcileInput) -> Decision | None:
    """Carry `suspend` to the MPIJob once for each change, unless a queue owns it (kueue.md, rule 1).

    The operator does not overrule another client that resumes the MPIJob: both could repeat that for ever. The gates stay closed instead.
    """
    job, wanted = state.mpijob, state.spec.run_policy.suspend
    if job is None or job.holder:
        return None
    step = SetSuspend(Reason.SUSPENDED if wanted else Reason.RESUMED, "as spec.runPolicy.suspend says", suspend=wanted)
    if not resumed_by_other(job):
        return step if job.suspended != wanted else None
    if wanted:
        return Wait(
            Reason.RESUMED_EXTERNALLY,
            "the MPIJob was resumed, not by this operator, while spec.runPolicy.suspend is true; its gated pods wait. "
            "Set spec.runPolicy.suspend to false to go on, or suspend the MPIJob",
        )
    return None if awaits_report(state.status) else step


def queued(state: ReconcileInput) -> Decision | None:
    """Suspended means queued, not failed: the plan's reservations lapse, and admission plans again (kueue.md, rule 6)."""
    if state.mpijob is None or not state.mpijob.suspended:
        return None
    if state.mpijob.queue:
        return Wait(Reason.QUEUED, f'waiting for queue "{state.mpijob.queue}"')
    return Wait(Reason.SUSPENDED, "spec.runPolicy.suspend is true; set it to false to go on")


def resumed(state: ReconcileInput) -> Decision | None:
    """Plan a resumed job again before its gates open: its plan is stale. So is a plan for another number of workers."""
    suspensions = ("Suspended", PREEMPTED_CONDITION)
    was_suspended = any(condition.type in suspensions and condition.status == "True" for condition in state.status.conditions)
    was_suspended |= any(condition.reason == Reason.SCHEDULING_TIMEOUT for condition in state.status.conditions) and not state.moving
    job, stale = state.mpijob, was_suspended or resizes(state)
    if job is None or not stale or state.plan is None or any(pod.bound for pod in state.workers) or not state.gated_workers:
        return None
    if state.metrics is not None:
        return None  # this reconcile has planned it already
    return request_plan(state, MakePlan(Reason.RESUMED, "planned anew after a suspension", workers_fixed=job.workers))
