"""Choose the running jobs to preempt so that all jobs end sooner. Pure and deterministic.

A set of preemptions is scored by its rollout (`kinds`): the rule starts the pending and the preempted jobs in its own order.
No preemption is advised after which the rule would start the same job on the same GPUs, and none that serves no other job.
Every preemption must save its restart cost and a margin, which grows with the time that jobs still need: figures are predictions.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

import msgspec

from hyperscale.planner.preempt.round_start import reassigned
from hyperscale.planner.queue import rule
from hyperscale.planner.queue.forecast import NO_PREEMPTION, Forecast
from hyperscale.planner.queue.kinds import NOWHERE, Contender, KindDemand, KindsOutcome, best_seconds
from hyperscale.util.float_sums import sum_in_order

MOST_STEPS: Final = 8
"""Changes of the set of preemptions, each the best of its neighbourhood."""

STARTS: Final = 4
"""Sets beside the empty one from which such changes begin."""

MOST_ENDS: Final = 16.0
"""Median ends as which one job's end counts in the margin, at most."""

Expired = Callable[[], bool]


class Preemption(msgspec.Struct, frozen=True, rename="camel"):
    """One running job to preempt."""

    key: str
    beneficiaries: tuple[str, ...]
    """Jobs that start on them at once, by falling gain; the job itself where it continues at once on other GPUs."""


class Advice(msgspec.Struct, frozen=True, rename="camel"):
    """All preemptions of a decision; empty where every job continues."""

    stops: tuple[Preemption, ...] = ()
    """In order of their keys."""
    saved_seconds: float = 0.0
    """Fall of the weighted mean of the seconds until all jobs end, restart costs included."""


def advise(
    jobs: Sequence[Contender],
    free: Sequence[int],
    min_gain_ratio: float,
    settings: rule.RuleSettings,
    expired: Expired = lambda: False,
    max_stops: int | None = None,
) -> Advice:
    """Return the set of preemptions that saves most. Raises ValueError where a job has not one figure a kind.

    free:           free GPUs of each kind
    min_gain_ratio: part of an average job's seconds to its end; all ends together must be that much sooner for every preemption
    max_stops:      most preemptions of the set; None: any number
    """
    fitting = feasible(jobs, free)
    if not any(job.stoppable for job in fitting):
        return Advice()
    search = _PreemptionSearch(fitting, free, min_gain_ratio, settings, max_stops)
    best = search.run(expired)
    return search.advice(best) if best else Advice()


def feasible(jobs: Sequence[Contender], free: Sequence[int]) -> list[Contender]:
    """Jobs that run, or that fit the cluster without the running ones."""
    capacity = list(free)
    for job in jobs:
        for kind, gpus in enumerate(job.gpus_by_kind):
            capacity[kind] += gpus
    return [job for job in jobs if math.isfinite(best_seconds(job, capacity))]


def margin_seconds(jobs: Sequence[Contender], ends: Mapping[str, float], min_gain_ratio: float) -> float:
    """Seconds by which the weighted mean of all ends must fall for one preemption: a part of one average job's time.

    ends: seconds to the end of each job without any. One end counts as MOST_ENDS median ones at most, of all jobs or of those that run,
    whichever are longer: neither one job of absurd length nor many tiny ones decide about the preemption of others.
    """
    weighed = [(job.weight, ends[job.key]) for job in jobs if job.weight > 0.0]
    if not weighed:
        return 0.0
    running = [ends[job.key] for job in jobs if job.weight > 0.0 and job.runs]
    most = MOST_ENDS * max(statistics.median(end for _, end in weighed), statistics.median(running or [0.0]))
    mean = sum_in_order(weight * min(end, most) for weight, end in weighed) / sum_in_order(weight for weight, _ in weighed)
    return min_gain_ratio * mean / len(weighed)


class _PreemptionSearch:
    """Best-improvement descent over sets of preemptions."""

    def __init__(
        self, jobs: Sequence[Contender], free: Sequence[int], min_gain_ratio: float, settings: rule.RuleSettings, max_stops: int | None
    ) -> None:
        self.max_stops = max_stops
        self.forecast = Forecast(jobs, free, settings)
        self.jobs = {job.key: job for job in jobs}
        self.free = tuple(free)
        self._costs: dict[frozenset[str], float] = {}
        self.base = self.forecast.mean_seconds()
        self._margin = margin_seconds(jobs, self.forecast.outcome().ends, min_gain_ratio)
        self._victims = list(_victims([job for job in jobs if job.stoppable]))

    def run(self, expired: Expired) -> frozenset[str]:
        """The best set, searched from the empty set, the best of its neighbours and an assignment: some preemptions pay only together."""
        best = self._descent(NO_PREEMPTION, expired)
        first = (
            sorted(self._neighbours(NO_PREEMPTION), key=lambda stops: (self._cost(stops), len(stops), sorted(stops)))
            if not expired()
            else []
        )
        for start in (*first[:STARTS], *self._reassigned(expired)):
            candidate = self._descent(start, expired)
            if (self._cost(candidate), len(candidate)) < (self._cost(best), len(best)):
                best = candidate
        return best

    def _reassigned(self, expired: Expired) -> Iterator[frozenset[str]]:
        """The jobs that an assignment over all jobs stops or resizes."""
        start = reassigned(list(self.jobs.values()), self.free) if not expired() else NO_PREEMPTION
        if start:
            yield start

    def _descent(self, start: frozenset[str], expired: Expired) -> frozenset[str]:
        """One best change after the other."""
        best = start
        for _ in range(MOST_STEPS):
            stopped, cost = best, self._cost(best)
            for candidate in self._neighbours(best):
                if expired():
                    break
                other = self._cost(candidate)
                if other < cost or (other == cost and len(candidate) < len(stopped)):
                    stopped, cost = candidate, other
            if stopped == best:
                break
            best = stopped
        return best

    def advice(self, stopped: frozenset[str]) -> Advice:
        """The answer that preempts the jobs of `stopped`."""
        before, after = self.forecast.outcome(), self.forecast.outcome(stopped)
        saved = self.base - self.forecast.mean_seconds(stopped)
        return Advice(tuple(Preemption(key, self._beneficiaries(key, before, after)) for key in sorted(stopped)), saved)

    def _cost(self, stopped: frozenset[str]) -> float:
        """Weighted mean seconds to all ends plus a margin for each preemption; +inf where a preempted job would resume in its place."""
        if self.max_stops is not None and len(stopped) > self.max_stops:
            return math.inf
        if stopped not in self._costs:
            mean, in_vain = self.forecast.judged(stopped)
            self._costs[stopped] = math.inf if in_vain else mean + self._margin * len(stopped)
        return self._costs[stopped]

    def _neighbours(self, stopped: frozenset[str]) -> Iterator[frozenset[str]]:
        """Sets with one preemption less, more or exchanged, and sets that make room for one job on one kind. Each set once."""
        yielded = {stopped}
        for neighbour in self._candidates(stopped):
            if neighbour not in yielded:
                yielded.add(neighbour)
                yield neighbour

    def _candidates(self, stopped: frozenset[str]) -> Iterator[frozenset[str]]:
        others = [job.key for job in self._victims[0] if job.key not in stopped]
        for key in sorted(stopped):
            yield stopped - {key}
            yield from (stopped - {key} | {other} for other in others)
        yield from (stopped | {other} for other in others)
        for job in self.jobs.values():
            for kind, demand in self._better(job):
                for victims in self._victims:
                    yield stopped | self._room(job, kind, demand.gpus, victims, stopped)

    def _better(self, job: Contender) -> Iterator[tuple[int, KindDemand]]:
        """Kinds where a job would gain: any for one that waits, faster ones for one that runs and may be preempted."""
        if job.runs and not job.stoppable:
            return
        for demand in job.demands:
            for kind, seconds in enumerate(demand.seconds):
                if seconds + job.start_seconds < (job.left_seconds if job.runs else NOWHERE):
                    yield kind, demand

    def _room(self, job: Contender, kind: int, gpus: int, victims: Sequence[Contender], stopped: frozenset[str]) -> frozenset[str]:
        """Preemptions that free `gpus` GPUs of a kind for a job, its own where it runs; none where they do not suffice."""
        own = {job.key} if job.runs else set()
        room = self.free[kind] + sum(self.jobs[key].gpus_by_kind[kind] for key in stopped | own)
        chosen = set(own)
        for victim in victims:
            if room >= gpus:
                break
            if victim.gpus_by_kind[kind] and victim.key not in stopped and victim.key not in own:
                chosen.add(victim.key)
                room += victim.gpus_by_kind[kind]
        return frozenset(chosen) if room >= gpus else frozenset()

    def _beneficiaries(self, key: str, before: KindsOutcome, after: KindsOutcome) -> tuple[str, ...]:
        """Jobs that start on GPUs of the kinds of a preempted job, by gain."""
        own_gpus = self.jobs[key].gpus_by_kind
        using = [other for other, taken in after.starts.items() if any(a and b for a, b in zip(own_gpus, taken, strict=True))]
        own = [key] if key in after.starts and key not in using else []
        gain = {other: (before.ends[other] - after.ends[other]) * self.jobs[other].weight for other in using}
        return (*sorted((other for other in using if gain[other] > 0.0), key=lambda other: (-gain[other], other)), *own)


def _victims(stoppable: Sequence[Contender]) -> Iterator[list[Contender]]:
    """Orders in which running jobs are preempted: the longest weighted rest first; the least loss on another kind first."""
    yield sorted(stoppable, key=lambda job: (-job.left_seconds / job.weight, job.key))
    yield sorted(stoppable, key=lambda job: (_second_best(job) / max(job.left_seconds, 1e-9), job.key))


def _second_best(job: Contender) -> float:
    """Seconds on the best kind that the job is not on."""
    elsewhere = (
        seconds for demand in job.demands for seconds, own_gpus in zip(demand.seconds, job.gpus_by_kind, strict=True) if not own_gpus
    )
    return min(elsewhere, default=NOWHERE)
