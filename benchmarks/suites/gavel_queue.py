"""The operator's queue as a policy of the trace replay: what it believes of jobs, whom it stops, which job starts next.

As in a cluster, the rule sees when running jobs end and what a job would take then, and how long and frequent jobs were so far. A job that
waits beyond the policy's bound goes first, and nothing is kept idle beyond the bounds that hold for every chooser.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple, Protocol

import numpy as np

from benchmarks.replay import HOST_GPUS, Cluster, Job, Running, hosts_for
from hyperscale.model.admission_query import LATER_ENDS
from hyperscale.model.api.policy import QueueOrder, QueuePolicy
from hyperscale.planner.preempt.preempt import advise
from hyperscale.planner.queue import rule
from hyperscale.planner.queue.arrival_history import arrived, has_run, seconds_on_arrival
from hyperscale.planner.queue.kinds import Contender, KindDemand
from hyperscale.planner.queue.queue_policies import choosers, settings_of
from hyperscale.planner.queue.queue_types import ArrivalHistory, ClusterState, LaterStart, Option, PendingJob, QueueRunningJob
from hyperscale.planner.queue.wait_bounds import overdue

LEAST_GUESS_SECONDS: Final = 360.0
"""Before any work is done."""
DEFAULT: Final = QueuePolicy(order=QueueOrder.RULE)
"""As with `Auto`, which gives these clusters to the rule: they hold more workers than those that the shipped agent was judged on."""

FreeHosts = list[list[int]]
"""GPUs that no job holds, by type and host."""


class Belief(Protocol):
    """What the queue takes for the steps that jobs have left."""

    def __call__(self, jobs: Sequence[Job], left: Mapping[int, float]) -> Mapping[int, float]:
        """By number, of the jobs that run or wait, from what they have left in truth."""
        ...


def known(jobs: Sequence[Job], left: Mapping[int, float]) -> Mapping[int, float]:
    """The truth."""
    return left


def wrong(jobs: Sequence[Job], left: Mapping[int, float]) -> Mapping[int, float]:
    """Wrong by up to 30 %, for every job by a factor of its own."""
    return {job.number: left[job.number] * float(np.random.default_rng(job.number).uniform(0.7, 1.3)) for job in jobs}


class Guess:
    """One figure for all jobs, the likeliest if none ages: the work done so far over the number of jobs that have ended."""

    def __init__(self) -> None:
        self._done: dict[int, float] = {}
        """Seconds of work on the fastest type of every job so far."""

    def __call__(self, jobs: Sequence[Job], left: Mapping[int, float]) -> Mapping[int, float]:
        """See `Belief`."""
        self._done |= {job.number: (job.steps - left[job.number]) / max(job.packed) for job in jobs}
        ended = len(self._done) - len(jobs)
        mean = max(sum(self._done.values()) / max(1, ended), LEAST_GUESS_SECONDS)
        return {job.number: mean * max(job.packed) for job in jobs}


class End(NamedTuple):
    """A running job's end."""

    seconds: float
    """From now."""
    key: str
    kind: int
    hosts: tuple[int, ...]
    """One entry a GPU."""


class Operator:
    """What a cluster gets: the queue's stops, where its policy has them carried out, then its starts, one at a time."""

    packs: Final = False

    def __init__(self, name: str, *, stops: bool = True, belief: Belief = known, policy: QueuePolicy = DEFAULT) -> None:
        self.name = name
        self._stops = stops
        self._belief = belief
        self._policy = policy
        settings = settings_of(policy)._replace(starvation_seconds=policy.starvation_seconds or math.inf)
        self._choose = choosers(policy).agent or partial(rule.choose, settings=settings)
        self._since: dict[int, float] = {}
        """When each job that runs last started."""
        self._waits: dict[int, float] = {}
        """Since when each job that was stopped waits."""
        self._stops_so_far: Counter[int] = Counter()
        self._past = ArrivalHistory()
        self._last_arrival = 0.0
        self._seen: set[int] = set()
        self._claimed: dict[int, tuple[float, float]] = {}
        """Best run, and as how many seconds it counts, of the jobs that have not run for a mean run yet."""

    def decide(
        self, now: float, jobs: Sequence[Job], left: Mapping[int, float], running: dict[int, Running], cluster: Cluster
    ) -> dict[int, int]:
        """See `replay.Policy`."""
        work = self._belief(jobs, left)
        self._count_runs(now, running)
        self._count_arrivals(jobs, work)
        if self._stops and len(running) < len(jobs):  # as the operator: it asks while jobs wait
            for number in self._stopped(now, jobs, work, running, cluster):
                del running[number]
                self._waits[number] = now
                self._stops_so_far[number] += 1
        chosen = self._starts(now, jobs, work, running, cluster)
        for job in jobs:
            if job.number in chosen.keys() - running.keys():
                self._since[job.number] = now
        return chosen

    def _count_runs(self, now: float, running: Mapping[int, Running]) -> None:
        """Jobs that have run for a mean run count as what they are from now on."""
        for number in sorted(self._claimed.keys() & running.keys()):
            if now - self._since[number] >= self._past.run_seconds:
                self._past = has_run(self._past, *self._claimed.pop(number))

    def _count_arrivals(self, jobs: Sequence[Job], work: Mapping[int, float]) -> None:
        """Add the jobs that have come since the last round to the queue's history."""
        for job in sorted((job for job in jobs if job.number not in self._seen), key=lambda job: (job.arrival, job.number)):
            best = work[job.number] / max(job.packed)
            self._claimed[job.number] = best, seconds_on_arrival(self._past, best)
            self._past = arrived(
                self._past, PendingJob(str(job.number), (Option(job.gpus, best, best),), job.weight), job.arrival - self._last_arrival
            )
            self._last_arrival = job.arrival
            self._seen.add(job.number)

    def _stopped(
        self, now: float, jobs: Sequence[Job], work: Mapping[int, float], running: Mapping[int, Running], cluster: Cluster
    ) -> list[int]:
        terms, free = self._policy.preemption, list(cluster.gpus)
        for busy in running.values():
            free[busy.kind] -= busy.gpus
        contenders = []
        for job in jobs:
            demand = KindDemand(job.gpus, tuple(_seconds(work[job.number], speed) for speed in job.packed))
            if (run := running.get(job.number)) is None:
                waited = now - self._waits.get(job.number, job.arrival)
                contender = Contender(str(job.number), (demand,), job.weight, waited, cluster.restart_seconds)
            else:
                held = tuple(run.gpus if kind == run.kind else 0 for kind in range(len(free)))
                due = _seconds(work[job.number], run.speed(job))
                may = now - self._since[job.number] >= terms.hold_down_seconds * (1 + self._stops_so_far[job.number])
                contender = Contender(str(job.number), (demand,), job.weight, 0.0, cluster.restart_seconds, held, due, may)
            contenders.append(contender)
        advice = advise(contenders, free, terms.min_gain_ratio, settings_of(self._policy))
        return [int(stop.key) for stop in advice.stops]

    def _starts(
        self, now: float, jobs: Sequence[Job], work: Mapping[int, float], running: Mapping[int, Running], cluster: Cluster
    ) -> dict[int, int]:
        chosen = {number: run.kind for number, run in running.items()}
        by_key = {str(job.number): job for job in jobs}
        free = _free_gpus(running, cluster)
        ends = [
            End(_seconds(work[number], run.speed(by_key[str(number)])), str(number), run.kind, run.hosts) for number, run in running.items()
        ]
        while True:
            waiting = [job for job in jobs if job.number not in chosen]
            key = self._next(
                self._pending(waiting, now, work, free, ends), ends, ClusterState(_total(free), sum(cluster.gpus), history=self._past)
            )
            if key is None:
                return chosen
            job = by_key[key]
            seconds, kind = _quickest(job, work[job.number], free)
            chosen[job.number] = kind
            ends.append(End(seconds, key, kind, hosts_for(job.gpus, free[kind])))
            for host in ends[-1].hosts:
                free[kind][host] -= 1

    def _next(self, pending: Sequence[PendingJob], ends: Sequence[End], state: ClusterState) -> str | None:
        """Which job starts; where nothing would, the first in order that fits an idle cluster, else the first that is overdue."""
        running = [QueueRunningJob(end.key, len(end.hosts), end.seconds) for end in ends]
        choice = self._choose(pending, running, state)
        if choice.job is not None:
            return choice.job
        if running:
            return next((job.key for job in rule.by_age(pending) if overdue(job, state.free_slots) is not None), None)
        fitting = [job for job in pending if any(option.fits for option in job.options)]
        return min(fitting, key=lambda job: (job.best_empty_seconds / job.weight, job.key)).key if fitting else None

    def _pending(
        self, waiting: Sequence[Job], now: float, work: Mapping[int, float], free: FreeHosts, ends: Sequence[End]
    ) -> tuple[PendingJob, ...]:
        """The jobs that wait, with what each would take now and at the next ends of running jobs."""
        after = _after(free, ends)
        pending = []
        for job in waiting:
            steps = work[job.number]
            option = Option(job.gpus, _quickest(job, steps, free)[0], steps / max(job.packed))
            waited = now - self._waits.get(job.number, job.arrival)
            later = _later(job, steps, after) if option.fits and option.seconds > option.empty_seconds else ()
            pending.append(PendingJob(str(job.number), (option,), job.weight, waited, later=later))
        return tuple(pending)


def _after(free: FreeHosts, ends: Sequence[End]) -> list[tuple[float, int, FreeHosts]]:
    """At each of the next ends: seconds from now, GPUs that running jobs have left by then, what is free."""
    after, left, hosts = [], 0, free
    for end in sorted(ends)[:LATER_ENDS]:
        hosts, left = [list(of_kind) for of_kind in hosts], left + len(end.hosts)
        for host in end.hosts:
            hosts[end.kind][host] += 1
        after.append((end.seconds, left, hosts))
    return after


def _later(job: Job, steps: float, after: Sequence[tuple[float, int, FreeHosts]]) -> tuple[LaterStart, ...]:
    starts = (LaterStart(wait_seconds, left, _quickest(job, steps, free)[0]) for wait_seconds, left, free in after)
    return tuple(start for start in starts if math.isfinite(start.seconds))


def _total(free: FreeHosts) -> int:
    return sum(map(sum, free))


def _seconds(steps: float, speed: float) -> float:
    return steps / speed if speed > 0.0 else math.inf


def _quickest(job: Job, steps: float, free: Sequence[Sequence[int]]) -> tuple[float, int]:
    """Seconds and type of the fastest start now; +inf where there is none."""
    best = (math.inf, -1)
    for kind, hosts in enumerate(free):
        if sum(hosts) >= job.gpus:
            speed = Running(kind, job.gpus, hosts_for(job.gpus, hosts)).speed(job)
            best = min(best, (_seconds(steps, speed), kind))
    return best


def _free_gpus(running: Mapping[int, Running], cluster: Cluster) -> FreeHosts:
    free = [[HOST_GPUS] * (gpus // HOST_GPUS) for gpus in cluster.gpus]
    for run in running.values():
        for host in run.hosts:
            free[run.kind][host] -= 1
    return free
