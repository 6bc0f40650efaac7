"""The observed state of one job: the input of `decide`."""

from __future__ import annotations

import msgspec

from hyperscale.model import constants
from hyperscale.model.api.job import JobSpec
from hyperscale.model.api.measured import Measured
from hyperscale.model.cluster import MetricsState
from hyperscale.model.decision import Reason
from hyperscale.model.evaluation import EvaluationStatus
from hyperscale.model.meta import JobMetadata
from hyperscale.model.observed.owned_objects import BatchJobView, MpiJobView
from hyperscale.model.offers.plan_offers import PlanAlternatives
from hyperscale.model.plan import Infeasible, Plan, Rejection
from hyperscale.model.pods import PodView
from hyperscale.model.status import JobStatus, ProposedMigration, ProposedPreemption, QueueDecision


class SpecFault(msgspec.Struct, frozen=True):
    """Why the spec cannot be used, and where."""

    path: str
    message: str
    reason: Reason = Reason.INVALID_SPEC
    of_policy: bool = False
    """The job's PlannerPolicy is missing, broken or forbids the planner."""


class AdmissionAnswer(msgspec.Struct, frozen=True):
    """What the queue of pending jobs said of a job in this pass."""

    decision: QueueDecision
    reason: str = ""
    """Why it waits; "" where it starts, or where it waits for the planners' own reason."""
    message: str = ""
    retry_after_seconds: float | None = None


class MigrationView(msgspec.Struct, frozen=True):
    """What is known of a running job's better placement."""

    proposal: ProposedMigration | None = None
    """Told to people; None where staying is best."""
    plan: Plan | None = None
    """To be carried out now; None where the policy only advises, or the gain has not been there long enough."""
    epochs_done: float = 0.0
    """Predicted."""


class PreemptionView(msgspec.Struct, frozen=True):
    """What is known of a running job that might stop for others."""

    proposal: ProposedPreemption | None = None
    """Told to people; None where it continues."""
    due: bool = False
    """To be carried out now."""


class JobState(msgspec.Struct, frozen=True):
    """The GNNTrainingJob and what the operator reported about it last."""

    metadata: JobMetadata
    parsed: JobSpec | None
    """None exactly when `fault` is set."""
    status: JobStatus
    """As last written."""
    fault: SpecFault | None = None
    deleting: bool = False

    @property
    def spec(self) -> JobSpec:
        """The valid spec; checks that come after `spec_is_bad` in the chain may read it."""
        assert self.parsed is not None
        return self.parsed


class GangState(msgspec.Struct, frozen=True):
    """The MPIJob and its pods."""

    mpijob: MpiJobView | None = None
    pods: tuple[PodView, ...] = ()
    """The MPIJob's own pods, sorted by role and index."""
    workload: str | None = None
    """Kueue's Workload of an MPIJob that another has suspended; "" where there is none, None where Kueue cannot be asked."""
    workload_read: bool = False
    """`workload` was read in this reconcile."""
    measured: Measured | None = None
    """What the run reports now: its result, else its progress; None where nothing new is known."""

    @property
    def workers(self) -> tuple[PodView, ...]:
        """Worker pods that are not finished, by index."""
        return tuple(pod for pod in self.pods if pod.role == "worker" and not pod.finished)

    @property
    def launchers(self) -> tuple[PodView, ...]:
        """Launcher pods that are not finished."""
        return tuple(pod for pod in self.pods if pod.role == "launcher" and not pod.finished)

    @property
    def gated_workers(self) -> list[PodView]:
        """Workers whose placement gate is closed."""
        return [pod for pod in self.workers if constants.PLACEMENT_GATE in pod.gates and not pod.terminating]

    @property
    def unfinished_pods(self) -> int:
        """Number of pods that still run or end."""
        return sum(1 for pod in self.pods if not pod.finished)


class PlanState(msgspec.Struct, frozen=True):
    """The plan in force, and the planners' and the queue's answers in this reconcile."""

    in_force: Plan | None = None
    """As recorded in status, else as annotated on the MPIJob, else as just made in this reconcile."""
    recorded: bool = False
    """The plan in force can be read back after a crash (status or MPIJob annotation)."""
    refusal: Infeasible | None = None
    """The planners' answer when there is no plan."""
    admission: AdmissionAnswer | None = None
    """The queue's answer; None where it was not asked."""
    evaluation: EvaluationStatus | None = None
    """What was found out about a plan since the operator started; None where nothing was."""
    alternatives: PlanAlternatives | None = None
    """What trades time, cost and risk against a plan, found since the operator started; None where nothing was."""
    weights: tuple[float, float, float] | None = None
    """What the people of the namespace weigh time, cost and risk by now; None where nothing is recommended."""
    weights_read: bool = False
    """False: decisions were not read since the operator started, so that what the status recommends stays."""
    preference_fault: str = ""
    """Why the alternative that a person prefers cannot be the plan; "" where it can, or was not tried in this reconcile."""
    metrics: MetricsState | None = None
    """State of the metrics that a plan made in this reconcile is based on; None when none was made."""


class RestartState(msgspec.Struct, frozen=True):
    """What suspends a started job and starts it again: migration, preemption, release."""

    migration: MigrationView | None = None
    """None where the job was not evaluated since the operator started: what its status says then stays."""
    migrating: bool = False
    """A migration has started and not ended: the plan in force is the new one, whatever the pods still do."""
    preemption: PreemptionView | None = None
    """None where the job was not evaluated since the operator started: what its status says then stays."""
    preempted: bool = False
    """The job was preempted and has no new plan yet: the plan in force is stale."""
    preemption_recorded: bool = False
    """The preemption can be read back after a crash."""
    released: bool = False
    """The gang was released because the scheduler left a pod out, and has no new plan yet."""
    release_recorded: bool = False
    """The release can be read back after a crash."""


class BatchJobState(msgspec.Struct, frozen=True):
    """The Job that writes the partitions of the training graph, or the one that reads the graph's sizes."""

    key: str = ""
    """Key of the partitions or of the sizes that are needed; "" where no Job is: without a volume or a plan, or with known sizes."""
    job: BatchJobView | None = None
    """None where it was not read, or does not exist."""
    read: bool = False
    """`job` was read or created in this reconcile."""
    pods: tuple[PodView, ...] = ()
    """Pods of the Job, oldest first."""

    @property
    def last_pod(self) -> PodView | None:
        """The latest pod of the Job; pods of others under its labels do not count."""
        uid = self.job.uid if self.job is not None else ""
        return next((pod for pod in reversed(self.pods) if uid and pod.owner_uid == uid), None)


class PreflightState(msgspec.Struct, frozen=True):
    """The Job that tries the job's code."""

    key: str = ""
    """Digest of what is to be tried; "" where nothing is."""
    job: BatchJobView | None = None
    """None where it was not read since the operator started, or does not exist."""
    pods: tuple[PodView, ...] = ()
    """Pods of the Job, oldest first."""
    refusal: SpecFault | None = None
    """Why the API server does not take the Job, its pod or its NetworkPolicy."""

    @property
    def last_pod(self) -> PodView | None:
        """The latest pod of the Job; pods of others under its labels do not count."""
        uid = self.job.uid if self.job is not None else ""
        return next((pod for pod in reversed(self.pods) if uid and pod.owner_uid == uid), None)


class CapacityState(msgspec.Struct, frozen=True):
    """Nodes that matter to the job and cannot be used."""

    misfits: tuple[Rejection, ...] = ()
    """Planned nodes of workers not yet bound that no longer fit."""
    unreachable_nodes: tuple[str, ...] = ()
    """Nodes tainted unreachable or out-of-service."""


class ReconcileClock(msgspec.Struct, frozen=True):
    """The time of this reconcile, and the times it is compared with."""

    now: float
    """Unix seconds."""
    server_ahead_seconds: float = 0.0
    """By how much the API server's clock, which stamps deletions, is ahead of `now`."""
    scheduling_timeout_seconds: int = 300
    """From an open gate to a node; then the gang is released."""


class ReconcileInput(msgspec.Struct, frozen=True):
    """The observed state of one job, consistent at one time; everything that `decide` may read."""

    job: JobState
    clock: ReconcileClock
    gang: GangState = GangState()
    plan: PlanState = PlanState()
    restart: RestartState = RestartState()
    partitions: BatchJobState = BatchJobState()
    inspection: BatchJobState = BatchJobState()
    preflight: PreflightState = PreflightState()
    capacity: CapacityState = CapacityState()
