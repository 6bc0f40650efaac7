"""What a decision about the queue is made from, and what it says. Pure; nothing here knows of Kubernetes.

One decision looks at the jobs that wait, the jobs that run and the free slots, and starts one job with one worker count, or nothing. Who
decides calls again with the rest until the answer is to wait. A slot is one GPU.
"""

from __future__ import annotations

import math

import msgspec


class Option(msgspec.Struct, frozen=True, rename="camel"):
    """One worker count that a pending job may start with."""

    workers: int
    seconds: float
    """Of the whole run on the best of the slots that are free now; +inf where it does not fit them."""
    empty_seconds: float
    """Of the same run if the job had the whole cluster to choose from; the best that waiting can give."""
    communication_seconds: float = 0.0
    """Part of `seconds`."""
    speed_ratio: float = 0.0
    """Speed of the nodes that `seconds` counts on / speed of all nodes, 0..1."""

    @property
    def fits(self) -> bool:
        """Whether it could start now."""
        return math.isfinite(self.seconds)


class LaterStart(msgspec.Struct, frozen=True, rename="camel"):
    """A start with one worker count when some of the running jobs have ended, if nothing else starts until then."""

    wait_seconds: float
    """From now until the last of those jobs ends."""
    freed_slots: int
    """Slots that those jobs leave."""
    seconds: float
    """Of the run from then on."""
    communication_seconds: float = 0.0
    """Part of `seconds`."""


class PendingJob(msgspec.Struct, frozen=True, rename="camel"):
    """A job that waits."""

    key: str
    """namespace/name; ties go to the smaller one."""
    options: tuple[Option, ...]
    """Rising by workers; at least one."""
    weight: float = 1.0
    """What a second of its completion time counts; 1 is an ordinary job."""
    waited_seconds: float = 0.0
    slots_per_worker: int = 1
    later: tuple[LaterStart, ...] = ()
    """At the next ends of running jobs (`admission_query.LATER_ENDS`), those that could end the job sooner than a start now."""

    @property
    def best_empty_seconds(self) -> float:
        """The run on the empty cluster with the worker count that is fastest there."""
        return min(option.empty_seconds for option in self.options)

    @property
    def least_area(self) -> float:
        """Slot seconds on the empty cluster with the worker count that takes the fewest."""
        return min(option.workers * option.empty_seconds for option in self.options) * self.slots_per_worker


class QueueRunningJob(msgspec.Struct, frozen=True, rename="camel"):
    """A job that holds slots."""

    key: str
    slots: int
    remaining_seconds: float
    """Predicted; 0 for a job that is late."""


class ArrivalHistory(msgspec.Struct, frozen=True, rename="camel"):
    """What arrived so far, recent jobs more than old ones: the transition statistics of the queue (arrival_history.py)."""

    arrivals: int = 0
    """Jobs that the figures come from; 0: nothing is known, the others are 0."""
    interval_seconds: float = 0.0
    """Mean time from one arrival to the next."""
    run_seconds: float = 0.0
    """Mean `best_empty_seconds`."""
    area_seconds: float = 0.0
    """Mean `least_area`, slot seconds."""
    interval_square: float = 0.0
    """Mean square of the time from one arrival to the next, s²."""


class ClusterState(msgspec.Struct, frozen=True, rename="camel"):
    """The cluster as the queue sees it."""

    free_slots: int
    total_slots: int
    free_speed_ratio: float = 1.0
    """Speed of the nodes with free slots / speed of all nodes, 0..1."""
    history: ArrivalHistory = ArrivalHistory()


class Score(msgspec.Struct, frozen=True, rename="camel"):
    """What a chooser thinks of one candidate; which way is better is the chooser's affair, see there."""

    job: str | None
    """Key; None: start nothing now."""
    workers: int
    score: float


class QueueChoice(msgspec.Struct, frozen=True, rename="camel"):
    """What to do next."""

    job: str | None
    """Key of the job that starts; None: wait for the next arrival or completion."""
    workers: int = 0
    """Of that job; 0 when nothing starts."""
    scores: tuple[Score, ...] = ()
    """Of the candidates that were compared, best first."""
    waits_for_better_nodes: bool = False
    """True when a job fits but patience says that its nodes are too poor."""
