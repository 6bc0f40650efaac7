"""The possible next steps of a job, and why: the output of `decide`."""

from __future__ import annotations

import enum

import msgspec

from hyperscale.model.plan import Plan


class Reason(enum.StrEnum):
    """Why a pass ended as it did: the same word in condition, event, log and metric."""

    INVALID_SPEC = "InvalidSpec"
    INVALID_POD_TEMPLATE = "InvalidPodTemplate"
    QUOTA_EXCEEDED = "QuotaExceeded"
    FORBIDDEN = "Forbidden"
    NAME_CONFLICT = "NameConflict"
    UNREADABLE_MPIJOB = "UnreadableMPIJob"
    DELETED = "Deleted"
    SUSPENDED = "Suspended"
    SUSPENDED_EXTERNALLY = "SuspendedExternally"
    RESUMED_EXTERNALLY = "ResumedExternally"
    QUEUED = "Queued"
    QUEUED_BY_KUEUE = "QueuedByKueue"
    INSPECTING_DATASET = "InspectingDataset"
    DATASET_UNREADABLE = "DatasetUnreadable"
    PREFLIGHTING = "Preflighting"
    PREFLIGHT_FAILED = "PreflightFailed"
    PREFLIGHT_UNKNOWN = "PreflightUnknown"
    PLANNING = "Planning"
    NO_PLAN = "NoPlan"
    """Replaced by the planner's own reason (InsufficientGPUs, ...) where it gave one."""
    WAITING_FOR_ADMISSION = "WaitingForAdmission"
    WAITING_FOR_BETTER_NODES = "WaitingForBetterNodes"
    START_POLICY_NEVER = "StartPolicyNever"
    AWAITING_APPROVAL = "AwaitingApproval"
    REJECTED_BY_PERSON = "RejectedByPerson"
    PLAN_STALE = "PlanStale"
    ALTERNATIVE_PREFERRED = "AlternativePreferred"
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
    PLAN_CHANGES_EXHAUSTED = "PlanChangesExhausted"
    NODE_LOST = "NodeLost"
    SCHEDULING_TIMEOUT = "SchedulingTimeout"
    MIGRATING = "Migrating"
    PREEMPTED = "Preempted"
    WORKERS_STARTING = "WorkersStarting"
    OPENING_LAUNCHER = "OpeningLauncher"
    STARTING = "Starting"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"


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


class TakeAlternative(Decision, frozen=True):
    """Put the alternative that a person prefers in force, where it still fits."""

    plan: Plan | None = None


class EnsurePartitions(Decision, frozen=True):
    """See to it that the Job that writes the plan's partitions is there, and read how far it is."""


class EnsureInspection(Decision, frozen=True):
    """See to it that the Job that reads the sizes of the training graph is there, and read how far it is."""

    again: bool = False
    """The Job has ended and its report is gone: delete it, so that the next reconcile creates it again."""


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


class BeginMigration(Decision, frozen=True):
    """Put a new plan in force for a running job; its pods follow once that is written down."""

    plan: Plan | None = None


class BeginPreemption(Decision, frozen=True):
    """Have a running job give its GPUs away; its pods end once that is written down."""


class ReleaseGang(Decision, frozen=True):
    """Give all ranks of a job up because the scheduler left one out; its pods end once that is written down."""


class DeletePods(Decision, frozen=True):
    """Delete pods that can never run where they are pinned."""

    pod_uids: tuple[str, ...] = ()
    force: bool = False
