"""A question about pending jobs together, and its answer: which start now, with which plan, and what the others wait for."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping

import msgspec

from hyperscale.model.plan import Infeasible, Plan
from hyperscale.model.planning import PODS, AskedSize, PlanRequest
from hyperscale.model.pods import PodView

MAX_TURN_JOBS = 64
"""Jobs of one question; alike ones cost little more than one."""
MAX_TURN_KINDS = 8
"""Different jobs of one question: each costs some placements."""
MAX_RUNNING = 64
"""Running jobs named in a question, the soonest to end first."""
LATER_ENDS = 4
"""Ends of running jobs that a pending job may wait for, the next ones (docs/explanation/streams.md)."""


class Chooser(enum.StrEnum):
    """Whose choice was carried out."""

    ARRIVAL = "Arrival"
    RULE = "Rule"
    LEARNED = "Learned"


class Arrivals(msgspec.Struct, frozen=True, rename="camel"):
    """What the jobs so far were like, recent ones more than old ones (planner/queue/arrival_history.py)."""

    arrivals: int = 0
    interval_seconds: float = 0.0
    run_seconds: float = 0.0
    area_seconds: float = 0.0
    interval_square: float = 0.0


class QueuedJob(msgspec.Struct, frozen=True, rename="camel"):
    """A job that has no MPIJob yet."""

    request: PlanRequest
    """Its free GPUs are those of the question."""
    waited_seconds: float = 0.0
    """Since it was created."""
    weight: float = 1.0
    """Its queue weight: how many times a second of its waiting counts."""
    gap_seconds: float | None = None
    """From the new job before it to this one; None where it has been counted among the arrivals already."""


class Claim(msgspec.Struct, frozen=True, rename="camel"):
    """What bound pods of our jobs take from one node: free again when those end."""

    gpus: int = 0
    cpu_cores: float = 0.0
    memory_bytes: int = 0
    further: dict[str, float] = {}
    """Other resources by name, pods among them."""

    def plus(self, other: Claim) -> Claim:
        """Both together."""
        further = {name: self.further.get(name, 0.0) + other.further.get(name, 0.0) for name in sorted({*self.further, *other.further})}
        cpu, memory = self.cpu_cores + other.cpu_cores, self.memory_bytes + other.memory_bytes
        return Claim(self.gpus + other.gpus, cpu, memory, further)

    def minus(self, other: Claim) -> Claim:
        """What is left without the other; never less than nothing."""
        further = {name: max(0.0, amount - other.further.get(name, 0.0)) for name, amount in self.further.items()}
        cpu, memory = max(0.0, self.cpu_cores - other.cpu_cores), max(0, self.memory_bytes - other.memory_bytes)
        return Claim(max(0, self.gpus - other.gpus), cpu, memory, further)


class RunningShare(msgspec.Struct, frozen=True, rename="camel"):
    """A job that has its MPIJob, or is about to get it."""

    key: str
    gpus: int
    remaining_seconds: float
    """Predicted."""
    workers: int = 1
    claims: dict[str, Claim] = {}
    """What it will leave, by node; only of the LATER_ENDS soonest to end."""


class _Sum:
    """A Claim that grows: jobs have thousands of pods."""

    __slots__ = ("cpu_cores", "further", "gpus", "memory_bytes")

    def __init__(self) -> None:
        self.gpus = self.memory_bytes = 0
        self.cpu_cores = 0.0
        self.further: dict[str, float] = {PODS: 0.0}

    def add(self, gpus: int, cpu_cores: float, memory_bytes: int, further: Mapping[str, float]) -> None:
        self.gpus += gpus
        self.cpu_cores += cpu_cores
        self.memory_bytes += memory_bytes
        for name, amount in further.items():
            self.further[name] = self.further.get(name, 0.0) + amount

    def claim(self) -> Claim:
        return Claim(self.gpus, self.cpu_cores, self.memory_bytes, {name: self.further[name] for name in sorted(self.further)})


def claims_of(pods: Iterable[PodView]) -> dict[str, Claim]:
    """What pods take by node, sorted; pods that hold nothing are left out."""
    sums: dict[str, _Sum] = {}
    for pod in pods:
        if pod.holds_resources:
            total = sums.get(pod.node) or sums.setdefault(pod.node, _Sum())
            total.add(pod.gpus, pod.cpu_cores, pod.memory_bytes, pod.further)
            total.further[PODS] += 1.0
    return {node: sums[node].claim() for node in sorted(sums)}


class AdmissionRequest(msgspec.Struct, frozen=True, rename="camel"):
    """Which of these jobs start now, and where."""

    jobs: tuple[QueuedJob, ...]
    """Oldest first; at most MAX_TURN_JOBS."""
    running: tuple[RunningShare, ...] = ()
    """The soonest to end first; at most MAX_RUNNING."""
    free_gpus: dict[str, int] = {}
    """By node where they differ from the snapshot; see `PlanRequest.free_gpus`."""
    claims: dict[str, Claim] = {}
    """By node, of all running jobs: without them the cluster is empty but for others' pods."""
    deadline_seconds: float = 5.0
    arrivals: Arrivals = Arrivals()
    reserved_amounts: dict[str, dict[str, float]] = msgspec.field(default_factory=dict, name="held")
    """See `PlanRequest.reserved_amounts`."""
    asked_sizes: tuple[AskedSize, ...] = ()
    """See `PlanRequest.asked_sizes`."""
    asking: str = ""
    """The job whose pass asks, which is looked at before the others; empty where none does."""


class QueueScore(msgspec.Struct, frozen=True, rename="camel"):
    """Predicted weighted mean of the seconds until the jobs of a question end, by whose choice it goes; lower is better."""

    rule: float
    agent: float | None = None
    """None where no agent was asked."""
    used: Chooser = Chooser.RULE
    reason: str = ""
    """With order Auto: why the agent was not asked."""


class Start(msgspec.Struct, frozen=True, rename="camel"):
    """One job starts."""

    key: str
    plan: Plan
    run_seconds: float
    """Predicted, with this plan."""
    best_seconds: float
    """Predicted on the empty cluster, with the best worker count."""


class Deferral(msgspec.Struct, frozen=True, rename="camel"):
    """One job waits."""

    key: str
    reason: str
    """WaitingForAdmission, WaitingForBetterNodes, or the planner's own where the job does not fit."""
    message: str
    run_seconds: float | None = None
    """Predicted on the empty cluster; None where it does not fit even that."""
    infeasible: Infeasible | None = None
    """Set where the reason is the planner's own."""
    retry_seconds: float | None = None
    """When time alone may change the answer."""

    @property
    def unseen(self) -> bool:
        """Whether the question came to nothing about this job."""
        return self.run_seconds is None and self.infeasible is None


class AdmissionResult(msgspec.Struct, frozen=True, rename="camel"):
    """The answer: every job of the question once."""

    starts: tuple[Start, ...] = ()
    """In the order in which they were chosen: each plan reckons with those before it."""
    holds: tuple[Deferral, ...] = ()
    """In the order in which they go next."""
    score: QueueScore | None = None
    """None where nothing was left to choose."""
    arrivals: Arrivals = Arrivals()
    """With the new jobs of the question."""
    fallbacks: tuple[str, ...] = ()
    """Steps down: LearnedQueueUnavailable, LearnedQueueFailed, PlacedTogetherFailed, QueueRuleFailed."""
