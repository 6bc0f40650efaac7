"""What one pass over a job sees and what it may decide: the input and the outputs of `decide`."""

from __future__ import annotations

import enum

import msgspec

from hyperscale.model.api.job import JobSpec
from hyperscale.model.api.measured import Measured
from hyperscale.model.cluster import MetricsState
from hyperscale.model.meta import JobMetadata
from hyperscale.model.plan import Infeasible, Plan, Rejection
from hyperscale.model.pods import PodView
from hyperscale.model.status import JobStatus, QueueDecision, StatusMove, StatusStop


class Reason(enum.StrEnum):
    """Why a pass ended as it did: the same word in condition, event, log and metric."""

    INVALID_SPEC = "InvalidSpec"
    INVALID_POD_TEMPLATE = "InvalidPodTemplate"
    QUOTA_EXCEEDED = "QuotaExceeded"
    RIGHTS_MISSING = "RightsMissing"
    NAME_CONFLICT = "NameConflict"
    UNREADABLE_MPIJOB = "UnreadableMPIJob"
    DELETED = "Deleted"
    SUSPENDED = "Suspended"
    SUSPENDED_EXTERNALLY = "SuspendedExternally"
    RESUMED_EXTERNALLY = "ResumedExternally"
    QUEUED = "Queued"
    QUEUED_BY_KUEUE = "QueuedByKueue"
    PLANNING = "Planning"
    NO_PLAN = "NoPlan"
    """Replaced by the planner's own reason (InsufficientGpus, ...) where it gave one."""
    WAITING_FOR_TURN = "WaitingForTurn"
    WAITING_FOR_BETTER_NODES = "WaitingForBetterNodes"
    PLAN_ONLY = "PlanOnly"
    AWAITING_APPROVAL = "AwaitingApproval"
    PLAN_STALE = "PlanStale"
    SPEC_CHANGED = "SpecChanged"
    RESUMED = "Resumed"
    PARTITIONING = "Partitioning"
    PARTITIONING_FAILED = "PartitioningFailed"
    CREATING = "CreatingMPIJob"
    PLAN_UNRECORDED = "PlanUnrecorded"
    PODS_MISSING = "PodsMissing"
    WAITING_FOR_QUEUE = "WaitingForQueueTopology"
    PLACING = "PlacingWorkers"
    REPLACING = "ReplacingWorkers"
    WORKER_LOST = "WorkerLost"
    REPLANS_EXHAUSTED = "ReplansExhausted"
    NODE_LOST = "NodeLost"
    SCHEDULING_TIMEOUT = "SchedulingTimeout"
    MOVING = "MovingWorkers"
    PREEMPTED = "Preempted"
    WORKERS_STARTING = "WorkersStarting"
    OPENING_LAUNCHER = "OpeningLauncher"
    STARTING = "Starting"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"


class MpiJobView(msgspec.Struct, frozen=True, gc=False):
    """An MPIJob as far as the operator cares."""

    name: str
    uid: str
    owner_uid: str
    """uid of the controlling owner; "" without one."""
    workers: int
    suspended: bool
    queue: str
    """Queue label; "" when no queue owns it."""
    gated: bool
    """The worker template carries the placement gate."""
    resizable: bool = False
    """Its launcher goes by the plan in force, so that it may be resumed with another number of workers."""
    conditions: dict[str, tuple[bool, str, str]] = {}
    """By type: (is true, reason, message)."""
    plan: Plan | None = None
    """From the plan annotation; None when absent or unreadable."""
    plan_fault: str = ""
    """Why the plan annotation cannot be used; "" where it can, or is absent."""
    fault: str = ""
    """Why the MPIJob cannot be read; of the rest only what identifies it is there then."""
    start_time: str = ""
    completion_time: str = ""
    launcher_failures: int = 0
    deleting: bool = False
    resource_version: str = ""
    suspend_intent: bool | None = None
    """`suspend` as the operator wrote it last (annotation hyperscale.dev/suspend); None on an MPIJob of an earlier version."""
    suspender: str = ""
    """Field manager that changed `suspend` last; "" where that is the operator, or unknown."""
    worker_amounts: dict[str, float] = {}
    """What one of its worker pods takes of a node beside GPUs, by resource name; empty where its template cannot be read."""
    workload: str = ""
    """Kueue's Workload that has admitted it; "" where none has."""

    @property
    def holder(self) -> str:
        """The external queue that decides when it runs, in words; "" without one."""
        if self.queue:
            return f'queue "{self.queue}"'
        return f'Kueue Workload "{self.workload}"' if self.workload else ""

    @property
    def ending(self) -> str | None:
        """`Succeeded` or `Failed` once the run has ended, else None."""
        return next((kind for kind in ("Succeeded", "Failed") if self.is_true(kind)), None)

    def is_true(self, condition: str) -> bool:
        """Whether a condition of that type is True."""
        return self.conditions.get(condition, (False, "", ""))[0]


class PartitionView(msgspec.Struct, frozen=True, gc=False):
    """The Job that writes a job's partitions, as last read."""

    uid: str
    owner_uid: str
    """uid of the controlling owner; "" without one."""
    key: str
    """What it makes partitions from."""
    succeeded: bool = False
    failed: bool = False
    message: str = ""
    """Why it failed, in the Job controller's words."""
    deleting: bool = False


class SpecFault(msgspec.Struct, frozen=True):
    """Why the spec cannot be used, and where."""

    path: str
    message: str


class AdmissionTurn(msgspec.Struct, frozen=True):
    """What the queue of pending jobs said of a job in this pass."""

    decision: QueueDecision
    reason: str = ""
    """Why it waits; "" where it starts, or where it waits for the planners' own reason."""
    message: str = ""
    retry_after_seconds: float | None = None


class MoveView(msgspec.Struct, frozen=True):
    """What is known of a running job's better placement."""

    proposal: StatusMove | None = None
    """Told to people; None where staying is best."""
    plan: Plan | None = None
    """To be carried out now; None where the policy only advises, or the gain has not been there long enough."""
    epochs_done: float = 0.0
    """Predicted."""


class StopView(msgspec.Struct, frozen=True):
    """What is known of a running job that might stop for others."""

    proposal: StatusStop | None = None
    """Told to people; None where it goes on."""
    due: bool = False
    """To be carried out now."""


class ReconcileInput(msgspec.Struct, frozen=True):
    """One consistent look at the world of one job; everything `decide` may know."""

    metadata: JobMetadata
    job: JobSpec | None
    """None exactly when `fault` is set."""
    status: JobStatus
    """As last written."""
    now: float
    """Unix seconds."""
    server_ahead_seconds: float = 0.0
    """By how much the API server's clock, which stamps deletions, is ahead of `now`."""
    deleting: bool = False
    fault: SpecFault | None = None
    mpijob: MpiJobView | None = None
    pods: tuple[PodView, ...] = ()
    """The MPIJob's own pods, sorted by role and index."""
    plan: Plan | None = None
    """In force: as recorded in status, else as annotated on the MPIJob, else as just made in this pass."""
    plan_recorded: bool = False
    """The plan in force can be read back after a crash (status or MPIJob annotation)."""
    refusal: Infeasible | None = None
    """The planners' answer in this pass when there is no plan."""
    turn: AdmissionTurn | None = None
    """The queue's answer in this pass; None where it was not asked."""
    misfits: tuple[Rejection, ...] = ()
    """Planned nodes of workers not yet bound that no longer fit."""
    unreachable_nodes: tuple[str, ...] = ()
    """Nodes tainted unreachable or out-of-service."""
    hostnames: dict[str, str] = {}
    """Node name to kubernetes.io/hostname label, for the planned nodes."""
    metrics: MetricsState | None = None
    """State of the metrics that a plan made in this pass was based on; None when none was made."""
    move: MoveView | None = None
    """None where the job has not been judged since the operator started: what its status says then stays."""
    moving: bool = False
    """A move has begun and not ended: the plan in force is the new one, whatever the pods still do."""
    stop: StopView | None = None
    """None where the job has not been judged since the operator started: what its status says then stays."""
    preempted: bool = False
    """It was stopped for others and has no new plan yet: the plan in force is only a memory."""
    stop_recorded: bool = False
    """That can be read back after a crash."""
    partition_key: str = ""
    """What the plan in force is to be partitioned from; "" where no Job writes partitions, or there is no plan yet."""
    partition: PartitionView | None = None
    """The Job that writes them; None where it was not looked for, or is not there."""
    partition_looked: bool = False
    """`partition` was read, or the Job created, in this pass."""
    partition_pods: tuple[PodView, ...] = ()
    """Pods of the Job, oldest first."""
    scheduling_timeout_seconds: int = 300
    """From an open gate to a node; then all ranks are released."""
    released: bool = False
    """All ranks were released because the scheduler left one out, and they have no new plan yet."""
    release_recorded: bool = False
    """That can be read back after a crash."""
    workload: str | None = None
    """Kueue's Workload of an MPIJob that another has suspended; "" where there is none, None where Kueue cannot be asked."""
    workload_looked: bool = False
    """`workload` was read in this pass."""
    measured: Measured | None = None
    """What the run says of itself now: its result, else its progress; None where nothing new is known."""

    @property
    def workers(self) -> tuple[PodView, ...]:
        """Worker pods that are not finished, by index."""
        return tuple(pod for pod in self.pods if pod.role == "worker" and not pod.finished)

    @property
    def launchers(self) -> tuple[PodView, ...]:
        """Launcher pods that are not finished."""
        return tuple(pod for pod in self.pods if pod.role == "launcher" and not pod.finished)


class Decision(msgspec.Struct, frozen=True):
    """The next step of a job; subclasses are the possible steps."""

    reason: str
    message: str = ""


class Wait(Decision, frozen=True):
    """Nothing to do until something changes, or until the time is up."""

    retry_after_seconds: float | None = None


class Stop(Decision, frozen=True):
    """Nothing to do until a person changes something."""


class MakePlan(Decision, frozen=True):
    """Ask the planners."""

    workers_fixed: int | None = None
    pinned: dict[int, str] = {}
    excluded_nodes: tuple[str, ...] = ()
    counts_as_replan: bool = False
    may_shrink: bool = False
    """Where there is no such plan, ask for one with fewer workers on the cluster without the job's own pods."""


class EnsurePartitions(Decision, frozen=True):
    """See to it that the Job that writes the plan's partitions is there, and read how far it is."""


class CreateMpiJob(Decision, frozen=True):
    """Render and create the MPIJob."""


class SetSuspend(Decision, frozen=True):
    """Suspend or resume an MPIJob that no queue owns."""

    suspend: bool = False


class FindWorkload(Decision, frozen=True):
    """Look for the Kueue Workload of an MPIJob that another has suspended."""


class ReleaseWorkers(Decision, frozen=True):
    """Write each worker's node into its pod and open its gate."""

    nodes: dict[str, str] = {}
    """Pod uid to node name."""


class OpenLauncher(Decision, frozen=True):
    """Open the launcher's gate."""

    pod_uids: tuple[str, ...] = ()


class BeginMove(Decision, frozen=True):
    """Put a new plan in force for a running job; its pods follow once that is written down."""

    plan: Plan | None = None


class BeginStop(Decision, frozen=True):
    """Have a running job give its GPUs away; its pods end once that is written down."""


class ReleaseGang(Decision, frozen=True):
    """Give all ranks of a job up because the scheduler left one out; its pods end once that is written down."""


class DeletePods(Decision, frozen=True):
    """Delete pods that can never run where they are pinned."""

    pod_uids: tuple[str, ...] = ()
    force: bool = False
