"""What one pass over a job has made so far, and how its outcome is reported."""

from __future__ import annotations

from typing import Final, NamedTuple

from msgspec.structs import replace

from hyperscale.control.cache.assumed_plans import PlanRecord
from hyperscale.control.cache.records import JobRecord, Key
from hyperscale.control.lifecycle import movable, stoppable
from hyperscale.control.lifecycle.unscheduled import NOTHING
from hyperscale.control.status.preflight_condition import ended_now
from hyperscale.control.telemetry.metrics import Telemetry
from hyperscale.model.api.policy import PolicySpec
from hyperscale.model.api.preflight_report import PreflightOutcome
from hyperscale.model.cluster import MetricsState
from hyperscale.model.decision import Decision, Reason, Stop
from hyperscale.model.evaluation import EvaluationStatus
from hyperscale.model.observed.reconcile_input import AdmissionAnswer, PlanState, ReconcileInput
from hyperscale.model.offers.plan_offers import PlanAlternatives
from hyperscale.model.plan import Infeasible, Plan
from hyperscale.model.status import JobStatus, LastMigration, LastPreemption, StatusScheduling

PRUNED_RETRY_SECONDS: Final = 3600.0
"""Between two writes of a status of which the API server drops a part."""


class ReconcileContext:
    """What one pass has made so far."""

    def __init__(self, key: Key, policy: PolicySpec, began: float) -> None:
        self.key = key
        self.began = began
        self.policy = policy
        self.plan: Plan | None = None
        self.refusal: Infeasible | None = None
        self.metrics: MetricsState | None = None
        self.turn: AdmissionAnswer | None = None
        self.preference_fault = ""
        """Why the alternative that a person prefers was not put in force."""
        self.plan_changes = 0
        self.partition_looked = False
        """The partition Job was read or created in this pass."""
        self.inspection_looked = False
        """The inspect Job was read or created in this pass."""
        self.workload: str | None = None
        self.workload_looked = False
        """Kueue was asked in this pass for the Workload of the MPIJob."""
        self.scheduling: StatusScheduling | None = None
        """Of a release of all ranks that this pass has begun."""
        self.last_migration: LastMigration | None = None
        """Of a move that this pass has begun."""
        self.last_preemption: LastPreemption | None = None
        """Of a stop that this pass has begun."""
        self.resuming = False
        """This pass has found a plan for a job that was stopped for others."""

    def so_far(self, status: JobStatus) -> JobStatus:
        """A status as last written, with what this pass has begun."""
        return replace(
            status,
            plan_changes=status.plan_changes + self.plan_changes,
            scheduling=self.scheduling or status.scheduling,
            last_migration=self.last_migration or status.last_migration,
            last_preemption=self.last_preemption or status.last_preemption,
            preemptions=status.preemptions + (1 if self.last_preemption is not None else 0),
        )

    def is_recorded(self, status: JobStatus, recorded: Plan) -> bool:
        """Whether the plan in force is the one that can be read back. A job that was stopped for others may get the one it had."""
        if self.resuming and not movable.is_moving(status):
            return False
        return self.plan is None or self.plan.plan_id == recorded.plan_id


class DriftCount:
    """Counts each pod once that runs elsewhere than planned: the scheduler's doing where a placement only asks or advises."""

    def __init__(self, telemetry: Telemetry) -> None:
        self._telemetry = telemetry
        self._drifted: dict[Key, frozenset[str]] = {}
        """Uids of pods already counted."""

    def count(self, key: Key, state: ReconcileInput) -> None:
        """The pods of one pass."""
        plan = state.plan.in_force
        planned = {worker.index: worker.node for worker in plan.workers} if plan is not None and not state.restart.migrating else {}
        away = {pod.uid for pod in state.gang.workers if pod.bound and pod.index in planned and pod.node != planned[pod.index]}
        new = away - self._drifted.get(key, frozenset())
        if new:
            self._telemetry.misplaced_workers.inc(len(new))
            self._drifted[key] = self._drifted.get(key, frozenset()) | new

    def forget(self, key: Key) -> None:
        """The job is gone."""
        self._drifted.pop(key, None)


class PrunedStatuses:
    """Statuses that came back other than written: an API server with an earlier CRD drops fields that it does not know."""

    def __init__(self) -> None:
        self._pruned: dict[Key, tuple[JobStatus, JobStatus, float]] = {}
        """By job: as written, as stored, and Unix seconds of the write."""

    def note(self, key: Key, written: JobStatus, stored: JobStatus, now: float) -> None:
        """Take in what became of a write."""
        if written == stored:
            self._pruned.pop(key, None)
        else:
            self._pruned[key] = (written, stored, now)

    def is_vain(self, key: Key, wanted: JobStatus, stored: JobStatus, now: float) -> bool:
        """Whether the same write changed nothing lately; now and then it is tried again, as the CRD may be another."""
        last = self._pruned.get(key)
        return last is not None and last[:2] == (wanted, stored) and now - last[2] < PRUNED_RETRY_SECONDS

    def forget(self, key: Key) -> None:
        """The job is gone."""
        self._pruned.pop(key, None)


def is_progress(before: JobStatus, after: JobStatus) -> bool:
    """Only counts and their wording moved."""
    return (
        before.state == after.state
        and before.plan == after.plan
        and before.dataset == after.dataset
        and before.preflight == after.preflight
        and before.observed_generation == after.observed_generation
        and {(c.type, c.status) for c in before.conditions} == {(c.type, c.status) for c in after.conditions}
        and (before.scheduling or NOTHING).releases == (after.scheduling or NOTHING).releases
    )


class EventMessage(NamedTuple):
    """The event of a pass."""

    reason: str
    message: str
    warning: bool = False


def event_for(run: ReconcileContext, state: ReconcileInput, decision: Decision, before: JobStatus, after: JobStatus) -> EventMessage | None:
    """What people should hear of a pass that wrote a status; None where nothing but counts moved."""
    if run.plan is not None:
        return EventMessage("Planned", run.plan.summary())
    if after.proposed_migration is not None and before.proposed_migration is None:
        condition = movable.proposed(after.proposed_migration)
        return EventMessage(condition.type, condition.message)
    if after.proposed_preemption is not None and before.proposed_preemption is None:
        condition = stoppable.proposed(after.proposed_preemption, state.job.metadata.key)
        return EventMessage(condition.type, condition.message)
    if decision.reason != before.reason and not is_progress(before, after):
        return EventMessage(str(decision.reason), _message(decision, after), is_warning(state, decision))
    return None


def events_for(run: ReconcileContext, state: ReconcileInput, decision: Decision, before: JobStatus, after: JobStatus) -> list[EventMessage]:
    """The event of a pass, after that of a preflight which has ended since; a fault that stops the start is one event."""
    events = []
    if (ended := ended_now(before.preflight, after.preflight)) is not None:
        passed = ended.outcome is PreflightOutcome.PASSED
        sentence = ended.sentence if passed else f"{ended.reason}: {ended.sentence}"
        events.append(EventMessage(f"Preflight{ended.outcome}", sentence, warning=not passed))
    if (event := event_for(run, state, decision, before, after)) is not None:
        events = [event, *(other for other in events if other.reason != event.reason)]
    return events[::-1]


def _message(decision: Decision, after: JobStatus) -> str:
    """An end is reported as its condition reports it, which knows more than the MPIJob: whether the graph was a stand-in."""
    if decision.reason != Reason.SUCCEEDED:
        return decision.message
    succeeded = after.condition("Succeeded")
    return succeeded.message if succeeded is not None else decision.message


def is_warning(state: ReconcileInput, decision: Decision) -> bool:
    """Whether a person should look at the job."""
    refused = decision.reason == Reason.SCHEDULING_TIMEOUT or state.plan.refusal is not None
    return refused or (isinstance(decision, Stop) and decision.reason != "Succeeded")


def spec_revision(record: JobRecord) -> tuple[str, int]:
    """Differs where the spec does."""
    return record.uid, record.generation


def plan_state(
    run: ReconcileContext, status: JobStatus, plans: PlanRecord, evaluation: EvaluationStatus | None, alternatives: PlanAlternatives | None
) -> PlanState:
    """Return the plan in force, and the answers that this reconcile got."""
    return PlanState(
        in_force=plans.in_force,
        recorded=plans.recorded is not None and run.is_recorded(status, plans.recorded),
        refusal=run.refusal,
        admission=run.turn,
        metrics=run.metrics,
        evaluation=evaluation,
        alternatives=alternatives,
        preference_fault=run.preference_fault,
    )
