"""The observed state of one job: the input of `decide`."""

from __future__ import annotations

import msgspec

from hyperscale.model import constants
from hyperscale.model.api.job import JobSpec
from hyperscale.model.api.measured import Measured
from hyperscale.model.cluster import MetricsState
from hyperscale.model.meta import JobMetadata
from hyperscale.model.observed.owned_objects import MpiJobView, PartitionView
from hyperscale.model.plan import Infeasible, Plan, Rejection
from hyperscale.model.pods import PodView
from hyperscale.model.status import JobStatus, QueueDecision, StatusMove, StatusStop


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
    def spec(self) -> JobSpec:
        """The valid spec; checks that come after `spec_is_bad` in the chain may read it."""
        assert self.job is not None
        return self.job

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
