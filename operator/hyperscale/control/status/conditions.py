"""What one pass tells people and tools: conditions with reasons, figures, the plan. Pure; written once a pass, and only when it differs."""

from __future__ import annotations

from msgspec.structs import replace

from hyperscale.control.lifecycle.movable import MIGRATING_CONDITION, arrived, proposed, resizes
from hyperscale.control.lifecycle.offered import alternatives_of, is_of_earlier_spec, prior_plan
from hyperscale.control.lifecycle.preflight_outcome import outcome_of, requires_preflight
from hyperscale.control.lifecycle.queue_wait import WAITING_CONDITION, joins, stop_after
from hyperscale.control.lifecycle.stoppable import PREEMPTED_CONDITION, preemption_message
from hyperscale.control.lifecycle.stoppable import proposed as proposed_stop
from hyperscale.control.lifecycle.unscheduled import observed
from hyperscale.control.status.evaluation_condition import evaluated, evaluation_of
from hyperscale.control.status.fields import columns, dataset_status
from hyperscale.control.status.preflight_condition import preflighted
from hyperscale.control.status.queue_condition import queued_spec, waiting
from hyperscale.control.status.reason_sets import AT_REST, ENDED, STALLED, SUSPENDED, UNSIZED
from hyperscale.control.status.run_conditions import new_condition, run_conditions
from hyperscale.model import constants
from hyperscale.model.api.condition import Condition
from hyperscale.model.api.job import StartPolicy
from hyperscale.model.api.measured import Measured
from hyperscale.model.cluster import MetricsState
from hyperscale.model.decision import BeginMigration, Decision, Reason, Stop
from hyperscale.model.observed.owned_objects import MpiJobView
from hyperscale.model.observed.reconcile_input import ReconcileInput
from hyperscale.model.offers.plan_offers import PlanAlternatives
from hyperscale.model.plan import Plan, bounded
from hyperscale.model.status import JobStatus, ObjectReference, ProposedMigration, ProposedPreemption, QueueDecision, ReadyCount
from hyperscale.planner.choice.alternative_plans import rated_best
from hyperscale.util.rfc3339 import timestamp

PARTITIONED_CONDITION = "Partitioned"


def derive(state: ReconcileInput, decision: Decision) -> JobStatus:
    """The status after a pass that ended with `decision`; transition times move only where a condition changed."""
    status, metadata, plan, mpijob = state.job.status, state.job.metadata, state.plan.in_force, state.gang.mpijob
    job = mpijob if mpijob is not None and mpijob.owner_uid == metadata.uid else None
    workers = _worker_counts(state, job)
    measured = _measured(state)
    if decision.reason in UNSIZED or requires_preflight(state) or _is_void(state):
        plan = None  # of another graph or spec, or of code that has not been tried
    conditions = _conditions(state, decision, job)
    waits = any(condition.type == WAITING_CONDITION for condition in conditions)
    return replace(
        _run_fields(status, job),
        dataset=dataset_status(state),
        observed_generation=metadata.generation,
        queue=metadata.labels.get(constants.KUEUE_QUEUE_LABEL, ""),
        columns=columns(workers, plan, measured, ended=decision.reason in ENDED),
        workers=workers,
        conditions=conditions,
        plan=bounded(plan) if plan else None,
        alternatives=_recommending(state) if plan else None,
        prior_plan=prior_plan(state),
        evaluation=evaluation_of(state),
        preflight=outcome_of(state),
        proposed_migration=_move(state, decision, job),
        proposed_preemption=_stop(state, job),
        last_preemption=stop_after(status, state.clock.now, waits=waits),
        scheduling=observed(state),
        measured=measured,
        queue_decision=state.plan.admission.decision if state.plan.admission else _kept_decision(state),
        queued_spec=queued_spec(state, waits=waits),
    )


def _is_void(state: ReconcileInput) -> bool:
    """Whether nothing was created from the plan, another was refused, and the plan is of an earlier spec or of a job of the queue.

    Such a job was planned again because its plan fits no more: the queue, which decides only on jobs without a plan, decides again.
    """
    job = state.job.parsed
    if state.gang.mpijob is not None or state.plan.refusal is None:
        return False
    return is_of_earlier_spec(state) or (job is not None and joins(job, state.job.metadata.labels))


def _recommending(state: ReconcileInput) -> PlanAlternatives | None:
    """Return the alternatives with the one that people's weights rate best now: weights change while a plan waits."""
    offered = alternatives_of(state)
    if offered is None or not state.plan.weights_read:
        return offered
    return replace(offered, recommended=rated_best(offered.offers, state.plan.weights) if state.plan.weights is not None else "")


def _worker_counts(state: ReconcileInput, job: MpiJobView | None) -> ReadyCount | None:
    """Return how many workers are planned, placed and ready; None before there is a plan."""
    plan, workers = state.plan.in_force, state.gang.workers
    planned = job.workers if job else len(plan.workers) if plan else 0
    if not planned:
        return None
    placed, ready = sum(1 for pod in workers if pod.bound), sum(1 for pod in workers if pod.ready)
    return ReadyCount(planned=planned, placed=placed, ready=ready)


def _run_fields(status: JobStatus, job: MpiJobView | None) -> JobStatus:
    """Return the status with what the MPIJob says of the run; unchanged without an MPIJob, or where a known one cannot be read."""
    if job is None or (job.fault and status.mpi_job_ref is not None):
        return status
    return replace(
        status,
        mpi_job_ref=ObjectReference(name=job.name, uid=job.uid),
        start_time=job.start_time or None,
        completion_time=job.completion_time or None,
        restarts=job.launcher_failures,
    )


def _measured(state: ReconcileInput) -> Measured | None:
    """What the run said last; the pace of another number of workers than are planned says nothing beside what is predicted for these."""
    measured = state.gang.measured or state.job.status.measured
    return measured.without_pace() if measured is not None and resizes(state) else measured


def _move(state: ReconcileInput, decision: Decision, job: MpiJobView | None) -> ProposedMigration | None:
    """The proposed move of a running job; what the status says stays until the job is judged again."""
    if job is None or not _undisturbed(state, job) or decision.reason == Reason.MIGRATING:
        return None
    return state.job.status.proposed_migration if state.restart.migration is None else state.restart.migration.proposal


def _stop(state: ReconcileInput, job: MpiJobView | None) -> ProposedPreemption | None:
    """What would be gained if a running job stopped for others; it stays like a proposed move."""
    if job is None or not _undisturbed(state, job):
        return None
    return state.job.status.proposed_preemption if state.restart.preemption is None else state.restart.preemption.proposal


def _undisturbed(state: ReconcileInput, job: MpiJobView) -> bool:
    return not (state.restart.migrating or state.restart.preempted or job.suspended) and job.is_true("Running")


def _kept_decision(state: ReconcileInput) -> QueueDecision | None:
    """Of an earlier pass; a place in the queue is void once the job was planned without it."""
    kept = state.job.status.queue_decision
    planned = state.plan.in_force is not None and not state.restart.preempted
    return None if kept is not None and kept.position > 0 and planned else kept


def _conditions(state: ReconcileInput, decision: Decision, job: MpiJobView | None) -> tuple[Condition, ...]:
    """All conditions, sorted by type; kstatus' Reconciling and Stalled are there only while true."""
    wanted = [_planned(state, decision), _degraded(state), _approved(state, decision), _partitioned(state, decision)]
    wanted += [evaluated(evaluation_of(state)), preflighted(state), waiting(state, decision)]
    wanted += [_kstatus(decision), _moving(state, decision), _preempted(state, decision, job)]
    wanted.append(proposed(move) if (move := _move(state, decision, job)) is not None else None)
    wanted.append(proposed_stop(stop, state.job.metadata.key) if (stop := _stop(state, job)) is not None else None)
    before = {condition.type: condition for condition in state.job.status.conditions}
    wanted += run_conditions(state, decision, job)
    new = {condition.type: _dated(condition, before.get(condition.type), state) for condition in wanted if condition is not None}
    return tuple(new[kind] for kind in sorted(new))


def _kstatus(decision: Decision) -> Condition | None:
    """Stalled where only a person can help, Reconciling while the operator works on the job; None at rest."""
    if decision.reason in STALLED or (isinstance(decision, Stop) and decision.reason not in AT_REST):
        return new_condition("Stalled", True, str(decision.reason), decision.message)
    if decision.reason not in AT_REST:
        return new_condition("Reconciling", True, str(decision.reason), decision.message)
    return None


def _moving(state: ReconcileInput, decision: Decision) -> Condition | None:
    """From the moment a new plan is in force until every rank is on its node; this is what a later pass continues by."""
    begun = state.restart.migrating or isinstance(decision, BeginMigration)
    if not begun or state.restart.released or arrived(state) or decision.reason in (*SUSPENDED, Reason.SUCCEEDED, Reason.FAILED):
        return None
    return new_condition(MIGRATING_CONDITION, True, str(Reason.MIGRATING), decision.message if decision.reason == Reason.MIGRATING else "")


def _preempted(state: ReconcileInput, decision: Decision, job: MpiJobView | None) -> Condition | None:
    """From the decision to stop for others until a new plan is in force; this is what a later pass continues by."""
    stop = state.job.status.last_preemption
    if not state.restart.preempted or stop is None or job is None or job.holder:
        return None
    if decision.reason in (Reason.SUSPENDED, Reason.SUCCEEDED, Reason.FAILED):
        return None
    return new_condition(PREEMPTED_CONDITION, True, "PreemptedForOthers", preemption_message(stop, state.job.metadata.key))


def _planned(state: ReconcileInput, decision: Decision) -> Condition | None:
    plan, refusal, admission = state.plan.in_force, state.plan.refusal, state.plan.admission
    if decision.reason in UNSIZED or requires_preflight(state):
        return new_condition("Planned", False, str(decision.reason), decision.message)
    if plan is not None and refusal is None and not state.restart.preempted:
        return _plan_accepted(state, plan)
    if refusal is not None:
        return new_condition("Planned", False, refusal.reason, refusal.message)
    if admission is not None and admission.reason:
        return new_condition("Planned", False, admission.reason, admission.message)
    if decision.reason in (Reason.INVALID_SPEC, Reason.INVALID_POD_TEMPLATE, Reason.SUSPENDED, Reason.NAME_CONFLICT):
        return new_condition("Planned", False, str(decision.reason), decision.message)
    if state.restart.preempted:
        return new_condition("Planned", False, str(Reason.PREEMPTED), "planned again when its turn comes")
    return None


def _plan_accepted(state: ReconcileInput, plan: Plan) -> Condition:
    before = state.job.status.condition("Planned")
    if before is not None and before.status == "True" and state.plan.metrics is None and state.gang.mpijob is None:
        return before  # its observedGeneration tells which spec the plan was made for
    return new_condition("Planned", True, "PlanAccepted", f"{len(plan.workers)} workers, {plan.partitions} partitions by {plan.planner}")


def _degraded(state: ReconcileInput) -> Condition | None:
    """Whether the plan had to do without something; kept from the pass that made the plan."""
    metrics, plan = state.plan.metrics, state.plan.in_force
    if metrics is None or plan is None:
        kept = state.job.status.condition("Degraded")
        lost = kept is None and plan is not None and bool(plan.fallbacks)  # the operator died between create and report
        return degraded(MetricsState(available=True), plan) if lost and plan is not None else kept
    return degraded(metrics, plan)


def degraded(metrics: MetricsState, plan: Plan) -> Condition:
    """The Degraded condition of a plan: the metrics' own fault first, then the first step down that the plan took."""
    steps = ", ".join(plan.fallbacks)
    if not metrics.available:
        return new_condition("Degraded", True, metrics.reason, f"{metrics.message}; {steps}" if steps else metrics.message)
    if plan.fallbacks:
        return new_condition("Degraded", True, plan.fallbacks[0].partition(":")[0], f"planned with: {steps}")
    return new_condition("Degraded", False, "MetricsAvailable", "planned from fresh measurements")


def _approved(state: ReconcileInput, decision: Decision) -> Condition | None:
    """With startPolicy Manual whether a person approved the plan; it stays true after the start, when plans change without approval."""
    if decision.reason in (Reason.AWAITING_APPROVAL, Reason.REJECTED_BY_PERSON):
        return new_condition("Approved", False, str(decision.reason), decision.message)
    if state.job.status.is_true("Approved") and (state.gang.mpijob is not None or state.job.status.mpi_job_ref is not None):
        return state.job.status.condition("Approved")
    plan, spec = state.plan.in_force, state.job.parsed
    if plan is None or spec is None or spec.start_policy is not StartPolicy.MANUAL:
        return None
    approved = state.job.metadata.annotations.get(constants.APPROVED_PLAN_ANNOTATION, "") == plan.plan_id
    return new_condition("Approved", True, "PlanApproved", f"plan {plan.plan_id}") if approved else None


def _partitioned(state: ReconcileInput, decision: Decision) -> Condition | None:
    """Whether the parts of the training graph are on the job's volume; absent without one."""
    view = state.partitions.job
    if state.partitions.key and view is not None and view.key == state.partitions.key and view.succeeded:
        return new_condition(PARTITIONED_CONDITION, True, "PartitionsWritten")
    if decision.reason in (Reason.PARTITIONING, Reason.PARTITIONING_FAILED):
        return new_condition(PARTITIONED_CONDITION, False, str(decision.reason), decision.message)
    return state.job.status.condition(PARTITIONED_CONDITION)


def _dated(condition: Condition, before: Condition | None, state: ReconcileInput) -> Condition:
    """With generation and transition time; the time stays as long as the status does, where the condition does not come with its own."""
    if before is condition:
        return condition
    same = before is not None and before.status == condition.status
    kept = before.last_transition_time if before is not None and same else timestamp(state.clock.now)
    time = condition.last_transition_time or kept
    return replace(condition, observed_generation=state.job.metadata.generation, last_transition_time=time)
