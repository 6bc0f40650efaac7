"""`GNNTrainingJob.status`: what the operator tells people and tools, and the source of the CRD's status schema."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import replace

from hyperscale.model.api.condition import Condition, Time
from hyperscale.model.api.datasets import DatasetStatus
from hyperscale.model.api.measured import Measured
from hyperscale.model.api.preflight_report import PreflightStatus
from hyperscale.model.api.status_columns import StatusColumns as StatusColumns
from hyperscale.model.evaluation import EvaluationStatus
from hyperscale.model.offers.plan_offers import PlanAlternatives, PriorPlan
from hyperscale.model.plan import Plan, plan_of

MAX_CONDITIONS = 16
MAX_MOVED = 16
"""Ranks of a proposed move that are named."""
MAX_REFUSED_NODES = 16
MAX_REFUSAL_LENGTH = 256
"""Characters kept of what the scheduler said of a node."""
MAX_BENEFICIARIES = 8
"""Jobs that are named for which another one stops."""
SUMMARY_CONDITION = "Succeeded"
"""Unknown with the reason of the last step until the run ends; then True or False."""


class StateWord(enum.StrEnum):
    """One word for metrics and `hyperscale explain`, derived from the conditions; tools read the conditions."""

    PENDING = "Pending"
    """Waiting for a plan: no room, bad spec, or about to be planned."""
    PLANNED = "Planned"
    """A plan exists and nothing runs: startPolicy is Never, or it waits for approval."""
    PARTITIONING = "Partitioning"
    """A Job writes the parts of the training graph to the shared volume; nothing trains yet."""
    QUEUED = "Queued"
    """An MPIJob exists and a queue or the user has suspended it."""
    STARTING = "Starting"
    """Pods are being placed or started."""
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"


class Out(Struct, frozen=True, gc=False, rename="camel"):
    """Base of what is written to status; unknown fields of newer versions are ignored when read back."""


class ObjectReference(Out, frozen=True):
    """The MPIJob made for this job."""

    name: Annotated[str, Meta(max_length=253)]
    uid: Annotated[str, Meta(max_length=64)]


class ReadyCount(Out, frozen=True):
    """Worker pods."""

    planned: int = 0
    placed: int = 0
    """Bound to a node."""
    ready: int = 0


class QueueDecision(Out, frozen=True):
    """How the queue of pending jobs decided on this one; kept after its start."""

    position: int
    """Place among the pending jobs, 1 goes next; 0 once it was started."""
    pending: int
    """Jobs that were pending beside it."""
    chosen_by: Annotated[str, Meta(max_length=16)]
    """Arrival, Rule or Learned."""
    run_seconds: float | None = None
    """Predicted run: with the plan in force once it was started, before that at best."""
    queue_weight: int = 1
    rule_score: float | None = None
    """Predicted weighted mean of the seconds until the jobs that were decided together end, as the rule orders them."""
    learned_score: float | None = None
    """The same as the agent orders them; absent where no agent was asked."""
    chooser_reason: Annotated[str, Meta(max_length=256)] | None = None
    """With order Auto: why the rule decided and not the agent; absent where the agent was asked."""


class WorkerMigration(Out, frozen=True):
    """A worker that would change its node."""

    index: int
    source_node: Annotated[str, Meta(max_length=253)]
    target_node: Annotated[str, Meta(max_length=253)]


class ProposedMigration(Out, frozen=True):
    """A better placement of a running job; there as long as it pays."""

    current_epoch_seconds: float
    """Predicted epoch of the placement in force, by the measurements of that time."""
    proposed_epoch_seconds: float
    """Predicted epoch of the proposed one."""
    migrated_workers: int
    """Workers that would change their node."""
    workers: int
    remaining_epochs: float
    saved_seconds: float
    """Of the rest of the run, before the price."""
    cost_seconds: float
    """Restart, work done again and moves."""
    first_proposed_time: Time
    """When the gain was first seen."""
    worker_migrations: Annotated[tuple[WorkerMigration, ...], Meta(max_length=MAX_MOVED)] = ()
    """The first of them."""
    blocker: Annotated[str, Meta(max_length=256)] = ""
    """Why the operator does not move the job itself; empty where it does."""


class LastMigration(Out, frozen=True):
    """The last move of a running job."""

    start_time: Time
    """When it was decided."""
    migrated_workers: int
    completed_epochs: float
    """Predicted, at that time: what the run need not do again but for the work since its last checkpoint."""


class ProposedPreemption(Out, frozen=True):
    """What would be gained if this running job gave its GPUs away for a while; there as long as it pays."""

    beneficiaries: Annotated[tuple[Annotated[str, Meta(max_length=317)], ...], Meta(max_length=MAX_BENEFICIARIES)]
    """Jobs that would start on its GPUs, the largest gain first; the job itself where it would continue at once on others."""
    saved_seconds: float
    """Predicted fall of the weighted mean of the seconds until all jobs end, prices paid, with all stops that are proposed together."""
    cost_seconds: float
    """Restart and work done again, of this job."""
    first_proposed_time: Time
    """When it was first found to pay."""
    workers: int | None = None
    """Workers with which it would resume at once, where they are more or fewer than it has."""
    blocker: Annotated[str, Meta(max_length=256)] = ""
    """Why the operator does not stop the job; empty where it does."""


class LastPreemption(Out, frozen=True):
    """The last time that this job was stopped for others."""

    start_time: Time
    """When it was decided."""
    beneficiaries: Annotated[tuple[Annotated[str, Meta(max_length=317)], ...], Meta(max_length=MAX_BENEFICIARIES)]
    completed_epochs: float
    """Predicted, at that time, what its checkpoints hold."""
    waited_seconds: float = 0.0
    """Waited in the queue because of all stops; a wait that lasts is not in it yet."""


class StatusRefusedNode(Out, frozen=True):
    """A planned node on which the scheduler did not place a rank."""

    node: Annotated[str, Meta(max_length=253)]
    message: Annotated[str, Meta(max_length=MAX_REFUSAL_LENGTH)]
    """The scheduler's own words."""
    refusal_time: Time


class StatusScheduling(Out, frozen=True):
    """How the scheduler takes the job's ranks; absent where all are on their nodes and none was ever refused."""

    waiting_start_time: Time = ""
    """When a pod was first seen whose gate is open and that is on no node; empty where there is none."""
    releases: int = 0
    """Times in a row that all ranks were released because the scheduler left one out; 0 once the job runs."""
    last_release_time: Time = ""
    """The last time."""
    message: Annotated[str, Meta(max_length=1024)] = ""
    """Which pods were left out then, and the scheduler's own words."""
    refused: Annotated[tuple[StatusRefusedNode, ...], Meta(max_length=MAX_REFUSED_NODES)] = ()
    """Nodes that the job's plans leave out for a while, the latest last."""


class JobStatus(Out, frozen=True):
    """The whole status; written at most once a pass."""

    observed_generation: int = 0
    queue: Annotated[str, Meta(max_length=63)] = ""
    """Queue that owns the MPIJob; empty without one."""
    columns: StatusColumns | None = None
    workers: ReadyCount | None = None
    conditions: Annotated[tuple[Condition, ...], Meta(max_length=MAX_CONDITIONS)] = ()
    dataset: DatasetStatus | None = None
    """Sizes of the training graph that plans rest on; absent until they are known."""
    plan: Plan | None = None
    """The plan in force, as `hyperscale plan -o json` prints it (docs/reference/plan-schema.md)."""
    alternatives: PlanAlternatives | None = None
    """Plans that a person may prefer to this one; absent with startPolicy Automatic, and until they are found."""
    prior_plan: PriorPlan | None = None
    """The plan before this one, for comparison; absent with startPolicy Automatic."""
    evaluation: EvaluationStatus | None = None
    """What was found out about the plan; absent until it is evaluated, which no start waits for."""
    preflight: PreflightStatus | None = None
    """How the last preflight ended; absent with `preflight: Off`."""
    mpi_job_ref: ObjectReference | None = None
    start_time: Time | None = None
    completion_time: Time | None = None
    restarts: int = 0
    """Launcher restarts, as the MPIJob's Job counts them."""
    plan_changes: int = 0
    """Times the plan changed after the job started."""
    queue_decision: QueueDecision | None = None
    """Absent where no other job was pending or running."""
    queued_spec: Annotated[str, Meta(max_length=32)] = ""
    """Digest of the spec fields whose change starts the wait again; absent while the job does not wait."""
    proposed_migration: ProposedMigration | None = None
    last_migration: LastMigration | None = None
    proposed_preemption: ProposedPreemption | None = None
    last_preemption: LastPreemption | None = None
    preemptions: int = 0
    """Times it was stopped for others."""
    scheduling: StatusScheduling | None = None
    measured: Measured | None = None
    """As the run itself says: progress while it trains, the result at its end."""

    @property
    def state(self) -> StateWord:
        """The conditions in one word; of those that an earlier version wrote as well."""
        return _state(self.conditions)

    @property
    def ended(self) -> bool:
        """Whether the conditions are those of a finished job."""
        return self.state in (StateWord.SUCCEEDED, StateWord.FAILED)

    @property
    def reason(self) -> str:
        """Reason of the last step; "" before the first. A finished job's is its state: an earlier version wrote the MPIJob's reason."""
        summary = self.condition(SUMMARY_CONDITION)
        return self.state.value if self.ended else summary.reason if summary is not None else ""

    def condition(self, kind: str) -> Condition | None:
        """Return the condition of this type as last written."""
        return next((condition for condition in self.conditions if condition.type == kind), None)

    def is_true(self, kind: str) -> bool:
        """Whether the condition of this type is True."""
        condition = self.condition(kind)
        return condition is not None and condition.status == "True"


STATES_WITHOUT_MPIJOB = {
    "Partitioning": StateWord.PARTITIONING,
    "StartPolicyNever": StateWord.PLANNED,
    "AwaitingApproval": StateWord.PLANNED,
    "RejectedByPerson": StateWord.PLANNED,
}
"""States before an MPIJob exists that are not Pending, by the reason of the last step."""


def _state(conditions: tuple[Condition, ...]) -> StateWord:
    status = {condition.type: condition.status for condition in conditions}
    if status.get("Failed") == "True":
        return StateWord.FAILED
    if status.get(SUMMARY_CONDITION) == "True":
        return StateWord.SUCCEEDED
    reason = next((condition.reason for condition in conditions if condition.type == SUMMARY_CONDITION), "")
    if "Running" not in status:  # there is no MPIJob
        return STATES_WITHOUT_MPIJOB.get(reason, StateWord.PENDING)
    if status.get("Suspended") != "False":
        migrates = reason == "Migrating" or (reason == "NodeLost" and "Migrating" in status)
        return StateWord.STARTING if migrates else StateWord.QUEUED
    return StateWord.RUNNING if status["Running"] == "True" else StateWord.STARTING


def to_wire(status: JobStatus) -> dict[str, object]:
    """The JSON object to write under `status`; what is empty is left out, so that applying it takes the field away."""
    wire: dict[str, object] = _filled(msgspec.to_builtins(replace(status, plan=None, alternatives=None)))
    for name in ("plan", "alternatives"):
        if (whole := getattr(status, name)) is not None:
            wire[name] = msgspec.to_builtins(whole)  # as it is printed: an empty text in it may be required
    return wire


def _filled(value: Any) -> Any:  # noqa: ANN401 - any JSON value
    """`value` without null, empty text and empty lists; numbers and booleans stay, also 0 and false."""
    if isinstance(value, dict):
        return {key: _filled(entry) for key, entry in value.items() if entry not in (None, "", [], ())}
    return [_filled(entry) for entry in value] if isinstance(value, list | tuple) else value


def read_status(wire: Mapping[str, Any]) -> JobStatus:
    """The status as last written; empty where it cannot be read, so that a hand-made one is replaced, not feared."""
    try:
        status = msgspec.convert({**wire, "plan": None}, JobStatus)
        return replace(status, plan=plan_of(wire["plan"])) if wire.get("plan") is not None else status
    except (msgspec.ValidationError, OverflowError, RecursionError):
        return JobStatus()
