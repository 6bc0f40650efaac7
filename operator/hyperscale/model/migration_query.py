"""A question about running jobs, whether moving some of their workers would pay, and its answer."""

from __future__ import annotations

import msgspec

from hyperscale.model.admission_query import Claim
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
    """Epochs since the last checkpoint, which a restart does again; at most."""


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
