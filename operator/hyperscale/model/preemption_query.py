"""A question about all jobs of a policy, whether stopping some running ones for others would pay, and its answer."""

from __future__ import annotations

import msgspec

from hyperscale.model.admission_query import Arrivals, Claim, QueuedJob, RunningShare
from hyperscale.model.migration_query import RunningJob

MAX_STOPPABLE = 32
"""Running jobs of one question that might be stopped."""


class PreemptibleJob(msgspec.Struct, frozen=True, rename="camel"):
    """A running job that the operator may stop and start again."""

    running: RunningJob
    weight: float = 1.0
    """Its queue weight: how many times a second until its end counts."""
    held_seconds: float = 0.0
    """Since its ranks last started."""


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


class PreemptionAnswer(msgspec.Struct, frozen=True, rename="camel"):
    """The answer; empty where every job stays."""

    stops: tuple[JobPreemption, ...] = ()
