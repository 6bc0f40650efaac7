"""Questions about running jobs, whether a migration or a preemption would pay, and their answers."""

from __future__ import annotations

import msgspec

from hyperscale.model.admission_query import Arrivals, Claim, QueuedJob, RunningShare
from hyperscale.model.plan import Plan
from hyperscale.model.planning import PlanRequest

MAX_MOVE_JOBS = 8
"""Jobs of one question: pending jobs wait behind it."""


class RunningJob(msgspec.Struct, frozen=True, rename="camel"):
    """A job whose workers all run."""

    request: PlanRequest
    """As its plan was asked for, with the worker count fixed; `free_gpus` without what the job itself holds."""
    plan: Plan
    """In force, with the nodes where the workers really are."""
    claims: dict[str, Claim] = {}
    """What its worker pods hold, by node."""
    remaining_epochs: float = 0.0
    redone_epochs: float = 0.0
    """Epochs since the last checkpoint, which a restart does again, with the part of the running one; at most."""


class MigrationQuestion(msgspec.Struct, frozen=True, rename="camel"):
    """Would any of these be better off elsewhere? Prices are the policy's."""

    jobs: tuple[RunningJob, ...]
    """At most MAX_MOVE_JOBS."""
    deadline_seconds: float = 5.0


class JobMigration(msgspec.Struct, frozen=True, rename="camel"):
    """What a job's plan costs now, and the best one that moves few of its workers."""

    key: str
    now_epoch_seconds: float
    """Of the placement in force, by fresh measurements."""
    then_epoch_seconds: float
    """Of the proposed one; the same where staying is best."""
    moved: tuple[int, ...] = ()
    """Ranks that would change their node; empty where staying is best."""
    remaining_epochs: float = 0.0
    price_seconds: float = 0.0
    """Restart, work done again and moves."""
    plan: Plan | None = None
    """The proposed plan; None where staying is best."""

    @property
    def saved_seconds(self) -> float:
        """Of the rest of the run, before the price."""
        return (self.now_epoch_seconds - self.then_epoch_seconds) * self.remaining_epochs

    @property
    def gain_ratio(self) -> float:
        """Part of the remaining time that a move would save, its price taken away; 0 where nothing remains."""
        remaining = self.now_epoch_seconds * self.remaining_epochs
        return (self.saved_seconds - self.price_seconds) / remaining if remaining > 0.0 else 0.0


class MigrationAnswer(msgspec.Struct, frozen=True, rename="camel"):
    """The answer: those jobs of the question that could be judged in time."""

    advice: tuple[JobMigration, ...] = ()


MAX_STOPPABLE = 32
"""Running jobs of one question that might be stopped."""


class PreemptibleJob(msgspec.Struct, frozen=True, rename="camel"):
    """A running job that the operator may stop and start again."""

    running: RunningJob
    weight: float = 1.0
    """Its queue weight: how many times a second until its end counts."""
    held_seconds: float = 0.0
    """Since its ranks last started."""
    resizable: bool = False
    """Whether it may resume with any worker count of its request; False: only with the count of its plan."""


class PreemptionQuestion(msgspec.Struct, frozen=True, rename="camel"):
    """Should any of `running` give its GPUs to any of `pending`, or to each other? Prices are the policy's."""

    pending: tuple[QueuedJob, ...]
    """At most MAX_TURN_JOBS; jobs that were stopped before are among them, with the epochs that are left to them."""
    running: tuple[PreemptibleJob, ...]
    """At most MAX_STOPPABLE."""
    others: tuple[RunningShare, ...] = ()
    """Running jobs that must not be stopped."""
    free_gpus: dict[str, int] = {}
    """By node where they differ from the snapshot; see `PlanRequest.free_gpus`."""
    claims: dict[str, Claim] = {}
    """By node, of all running jobs."""
    deadline_seconds: float = 5.0
    arrivals: Arrivals = Arrivals()
    reserved_amounts: dict[str, dict[str, float]] = msgspec.field(default_factory=dict, name="held")
    """See `PlanRequest.reserved_amounts`."""


class JobPreemption(msgspec.Struct, frozen=True, rename="camel"):
    """One running job that should be preempted and resume later, on other GPUs or the same ones."""

    key: str
    beneficiaries: tuple[str, ...]
    """Keys of the jobs that start on its GPUs, the first to gain most; its own where it continues at once on other GPUs."""
    saved_seconds: float
    """Predicted fall of the weighted mean of the seconds until all jobs of the question end, for all stops of the answer together."""
    price_seconds: float
    """Of this stop: restart and work done again."""
    workers: int | None = None
    """Workers with which it resumes at once, where they are more or fewer than it has; None otherwise."""


class PreemptionAnswer(msgspec.Struct, frozen=True, rename="camel"):
    """The answer; empty where every job stays."""

    stops: tuple[JobPreemption, ...] = ()
