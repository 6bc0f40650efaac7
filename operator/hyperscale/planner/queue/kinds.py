"""Jobs over GPUs of several kinds, rolled forward by the index rule: when each ends if some of those that run are stopped now. Pure.

A kind is a set of nodes that are alike for a job, such as all with one GPU product. Later placements are not known: a job that starts
takes its time on a kind as if it had the kind to itself. That is the same for every choice, so choices may be compared by it. So are
lengths and communication: without a history and with no communication the rule's ε and κ change nothing here.
`_kinds` is the same compiled; both choose as `rule.choose` does.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Collection, Sequence
from typing import Final

import msgspec

from hyperscale.planner.queue import rule
from hyperscale.planner.queue.queue_types import ClusterState, Option, PendingJob, QueueRunningJob

NOWHERE: Final = math.inf
"""Seconds of a job where it cannot run."""


class KindDemand(msgspec.Struct, frozen=True, rename="camel"):
    """One worker count."""

    gpus: int
    seconds: tuple[float, ...]
    """Left to run on each kind; +inf where it cannot."""
    mixed_seconds: float = NOWHERE
    """On GPUs of several kinds, for a job that no kind alone could ever hold; +inf for others."""


class Contender(msgspec.Struct, frozen=True, rename="camel"):
    """A job that runs or waits."""

    key: str
    demands: tuple[KindDemand, ...]
    """If it starts now or later; rising by GPUs, at least one."""
    weight: float = 1.0
    waited_seconds: float = 0.0
    """0 for a job that runs."""
    start_seconds: float = 0.0
    """Lost when it starts, the price of a restart where it runs now."""
    gpus_by_kind: tuple[int, ...] = ()
    """GPUs of each kind that it has; empty: it waits."""
    left_seconds: float = 0.0
    """Until its end where it runs; less than in its demands by the work since its last checkpoint."""
    stoppable: bool = False

    @property
    def runs(self) -> bool:
        """Whether it has its GPUs."""
        return bool(self.gpus_by_kind)


class KindsOutcome(msgspec.Struct, frozen=True, rename="camel"):
    """What the roll found, by key."""

    ends: dict[str, float]
    """Seconds from now to the end of each job."""
    starts: dict[str, tuple[int, ...]]
    """GPUs of each kind of the jobs that start at once."""


def by_age(jobs: Sequence[Contender]) -> list[Contender]:
    """The order in which equals go: longest waiting first, then by key."""
    return sorted(jobs, key=lambda job: (-job.waited_seconds, job.key))


def rolled(jobs: Sequence[Contender], free: Sequence[int], settings: rule.RuleSettings, stopped: Collection[str] = ()) -> KindsOutcome:
    """All jobs to their ends by the rule, from `free` GPUs of each kind; those in `stopped` wait from now on.

    Raises ValueError where a job has not one figure a kind.
    """
    if any(len(demand.seconds) != len(free) for job in jobs for demand in job.demands):
        raise ValueError("every job needs its seconds on every kind")
    rollout = _Rollout(by_age(jobs), free, stopped)
    while rollout.waiting:
        next_start = _next(list(rollout.waiting.values()), rollout.active, rollout.now, rollout.room, rollout.capacity, settings)
        if next_start is not None:
            rollout.start(*next_start)
        elif rollout.active:
            rollout.end_next()
        else:  # more than the cluster holds by this reckoning: the same for every choice
            rollout.ends |= {key: rollout.now + best_seconds(job, rollout.capacity) for key, job in rollout.waiting.items()}
            break
    return KindsOutcome(rollout.ends, rollout.starts)


class _Rollout:
    """Jobs and free GPUs of each kind at one time of the rollout."""

    def __init__(self, aged: Sequence[Contender], free: Sequence[int], stopped: Collection[str]) -> None:
        self.now = 0.0
        self.room = list(free)
        """Free GPUs of each kind."""
        self.capacity = list(free)
        """GPUs of each kind, those of running jobs included."""
        self.waiting = {job.key: job for job in aged if not job.runs or job.key in stopped}
        self.active: list[tuple[float, str, tuple[int, ...]]] = []
        """End, key and GPUs of each kind of the jobs that run; a heap."""
        self.starts: dict[str, tuple[int, ...]] = {}
        for job in aged:
            if job.runs:
                self.capacity = _sum(self.capacity, job.gpus_by_kind)
                if job.key in stopped:
                    self.room = _sum(self.room, job.gpus_by_kind)
                else:
                    self.active.append((job.left_seconds, job.key, job.gpus_by_kind))
        self.ends = {key: left for left, key, _ in self.active}
        heapq.heapify(self.active)

    def start(self, key: str, seconds: float, taken: tuple[int, ...]) -> None:
        """Start a waiting job on these GPUs of each kind."""
        end = self.now + self.waiting.pop(key).start_seconds + seconds
        self.room = [left - gpus for left, gpus in zip(self.room, taken, strict=True)]
        heapq.heappush(self.active, (end, key, taken))
        self.ends[key] = end
        if self.now == 0.0:
            self.starts[key] = taken

    def end_next(self) -> None:
        """Go to the next end of a job, which frees its GPUs."""
        self.now, _, freed = heapq.heappop(self.active)
        self.room = _sum(self.room, freed)


def seconds_on(demand: KindDemand, room: Sequence[int]) -> float:
    """The fastest start on this room; +inf where there is none."""
    fitting = [seconds for seconds, gpus in zip(demand.seconds, room, strict=True) if gpus >= demand.gpus]
    best = min(fitting, default=NOWHERE)
    return best if math.isfinite(best) or sum(room) < demand.gpus else demand.mixed_seconds


def best_seconds(job: Contender, capacity: Sequence[int]) -> float:
    """The run on the empty cluster with the GPUs that are fastest there; +inf where it fits nowhere."""
    return min(seconds_on(demand, capacity) for demand in job.demands)


def taken_by(demand: KindDemand, room: Sequence[int]) -> tuple[int, ...]:
    """GPUs of each kind that the fastest start takes: the first kind of the fastest, else of several, those with most room first."""
    fitting = [kind for kind, gpus in enumerate(room) if gpus >= demand.gpus and math.isfinite(demand.seconds[kind])]
    taken = [0] * len(room)
    if fitting:
        taken[min(fitting, key=lambda kind: demand.seconds[kind])] = demand.gpus
        return tuple(taken)
    left = demand.gpus
    for kind in sorted(range(len(room)), key=lambda kind: -room[kind]):
        taken[kind] = min(left, room[kind])
        left -= taken[kind]
    return tuple(taken)


def pending(job: Contender, waited_seconds: float, room: Sequence[int], capacity: Sequence[int]) -> PendingJob:
    """The job as the rule sees it."""
    options = tuple(Option(demand.gpus, seconds_on(demand, room), seconds_on(demand, capacity)) for demand in job.demands)
    return PendingJob(job.key, options, job.weight, waited_seconds)


def _next(
    waiting: Sequence[Contender],
    active: Sequence[tuple[float, str, tuple[int, ...]]],
    now: float,
    room: Sequence[int],
    capacity: Sequence[int],
    settings: rule.RuleSettings,
) -> tuple[str, float, tuple[int, ...]] | None:
    """What the rule starts: key, seconds, GPUs of each kind."""
    shown = [pending(job, job.waited_seconds + now, room, capacity) for job in waiting]
    running = [QueueRunningJob(key, sum(gpus), end - now) for end, key, gpus in active]
    choice = rule.choose(shown, running, ClusterState(sum(room), sum(capacity)), settings)
    if choice.job is None:
        return None
    job = next(job for job in waiting if job.key == choice.job)
    demand = next(demand for demand in job.demands if demand.gpus == choice.workers)
    return job.key, seconds_on(demand, room), taken_by(demand, room)


def _sum(first: Sequence[int], second: Sequence[int]) -> list[int]:
    return [one + other for one, other in zip(first, second, strict=True)]
