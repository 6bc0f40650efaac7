"""What the agent sees of every candidate: 31 figures. Pure; the compiled simulator computes the same (a test compares them).

Candidates are the two oldest jobs, the six of the smallest area / weight and the rule's, each with all worker counts that fit and that the
agent's own patience allows, and to wait. Where a job beyond the starvation bound goes first it is the only one, and does not wait. The same
holds for a job of many mean runs that the rule starts. To wait is no candidate while a job fits that has waited long enough
(wait_bounds.py).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from hyperscale.model.graph import FloatArray
from hyperscale.planner.queue import arrival_history, rule
from hyperscale.planner.queue.queue_types import ClusterState, Option, PendingJob, QueueChoice, QueueRunningJob
from hyperscale.planner.queue.wait_bounds import IDLE_RUNS, LONG_RUNS, overdue
from hyperscale.util.float_sums import sum_in_order

FEATURES: Final = 31
VERSION: Final = 2
"""Weights are of use for one version only."""
OLDEST: Final = 2
SMALLEST: Final = 6
SHORTEST_FIRST: Final = rule.RuleSettings(rule.QueueOrder.SECONDS, 0.0, 0.0, math.inf, 0.0, 0.0, 1.0, 0.0)
"""The second opinion among the features."""


class QueueCandidate(NamedTuple):
    """Start `job` with `option`, or nothing."""

    job: PendingJob | None
    option: Option | None

    @property
    def key(self) -> tuple[str | None, int]:
        """Job and workers."""
        return (None, 0) if self.job is None or self.option is None else (self.job.key, self.option.workers)


class Situation(NamedTuple):
    """One decision."""

    pending: list[PendingJob]
    """Longest waiting first."""
    running: Sequence[QueueRunningJob]
    cluster: ClusterState
    settings: rule.RuleSettings
    rule: QueueChoice
    candidates: list[QueueCandidate]


def situation(
    pending: Sequence[PendingJob],
    running: Sequence[QueueRunningJob],
    cluster: ClusterState,
    settings: rule.RuleSettings,
    patience: float,
    idle_runs: float = IDLE_RUNS,
) -> Situation:
    """The candidates of one decision; `settings` are the rule's, `patience` is the agent's own, `idle_runs` as in wait_bounds.py."""
    aged = rule.by_age(pending)
    by_rule = rule.choose(aged, running, cluster, settings)
    first = _first(aged, by_rule, running, cluster, settings)
    considered = [first] if first is not None else _considered(aged, by_rule)
    limit = patience if running and rule.starving(aged, settings) is None else None
    late = _late(considered, cluster, idle_runs)
    excepted = {(by_rule.job, by_rule.workers), *late}
    candidates = [
        QueueCandidate(job, option)
        for job in considered
        for option in _fitting(job, cluster.free_slots)
        if not _is_poor(job, option, limit) or (job.key, option.workers) in excepted
    ]
    if candidates and running and first is None and not late:
        candidates.append(QueueCandidate(None, None))
    return Situation(aged, running, cluster, settings, by_rule, candidates)


def _first(
    aged: Sequence[PendingJob], by_rule: QueueChoice, running: Sequence[QueueRunningJob], cluster: ClusterState, settings: rule.RuleSettings
) -> PendingJob | None:
    """The only job that may start next: a late one, or a long one; None: any may."""
    return rule.goes_first(aged, cluster, settings, busy=bool(running)) or _long(aged, by_rule, running, cluster)


def _long(aged: Sequence[PendingJob], by_rule: QueueChoice, running: Sequence[QueueRunningJob], cluster: ClusterState) -> PendingJob | None:
    """The job that the rule starts, if it is so long that no chooser may keep it waiting; LONG_RUNS in wait_bounds.py."""
    past_seconds = cluster.history.run_seconds
    if not running or not past_seconds > 0.0:
        return None
    return next((job for job in aged if job.key == by_rule.job and job.best_empty_seconds > LONG_RUNS * past_seconds), None)


def _late(considered: Sequence[PendingJob], cluster: ClusterState, idle_runs: float) -> set[tuple[str, int]]:
    """Jobs for which nothing may be kept idle any more, with the workers that they would start with."""
    starts = ((job.key, overdue(job, cluster.free_slots, idle_runs)) for job in considered)
    return {(key, option.workers) for key, option in starts if option is not None}


def _is_poor(job: PendingJob, option: Option, limit: float | None) -> bool:
    """Whether the free nodes would take more than `limit` times the job's best; None sets no limit."""
    return limit is not None and option.seconds > limit * job.best_empty_seconds


def _fitting(job: PendingJob, free_slots: int) -> list[Option]:
    """Worker counts that fit the free slots."""
    return [option for option in job.options if option.fits and option.workers * job.slots_per_worker <= free_slots]


def _considered(aged: list[PendingJob], by_rule: QueueChoice) -> list[PendingJob]:
    """The oldest, the smallest of the others, and the rule's."""
    chosen = aged[:OLDEST]
    rest = sorted(aged[OLDEST:], key=lambda job: job.least_area / job.weight)  # stable: among equals the older
    chosen = [*chosen, *rest[:SMALLEST]]
    if by_rule.job is not None and by_rule.job not in {job.key for job in chosen}:
        chosen += [job for job in aged if job.key == by_rule.job]
    return chosen


def features(now: Situation) -> FloatArray:
    """(C, FEATURES) of the candidates, of which there is at least one that starts a job."""
    scale, need = arrival_history.typical_seconds(now.cluster, now.pending), arrival_history.typical_area(now.cluster, now.pending)
    soonest = min((job.remaining_seconds for job in now.running), default=math.inf)
    shared = _shared(now, scale, soonest)
    starts = [candidate for candidate in now.candidates if candidate.job is not None]
    lead = min(starts, key=_index)
    best: dict[str, float] = {}
    for candidate in starts:
        job, option = _both(candidate)
        best[job.key] = min(best.get(job.key, math.inf), option.seconds)
    plain = rule.choose(now.pending, now.running, now.cluster, SHORTEST_FIRST)
    waits = rule.later_waits(now.pending, now.cluster, now.settings, busy=bool(now.running))
    rows = np.zeros((len(now.candidates), FEATURES))
    for row, candidate in zip(rows, now.candidates, strict=True):
        # Waiting shows what is given up: the candidate with the least seconds / weight.
        job, option = _both(lead if candidate.job is None else candidate)
        row[:9] = shared
        row[9] = candidate.job is None
        row[10:25] = _own(now, job, option, scale, need, best[job.key])
        row[25] = candidate.key == (now.rule.job, now.rule.workers)
        row[26] = candidate.key == (plain.job, plain.workers)
        row[27] = ratio_log(option.seconds / job.weight / _index(lead), 6.0) / 3.0
        row[28] = ratio_log((soonest + job.best_empty_seconds) / option.seconds, 3.0) if math.isfinite(soonest) else 3.0
        row[29] = squash(job.waited_seconds / now.settings.starvation_seconds) if math.isfinite(now.settings.starvation_seconds) else 0.0
        row[30] = ratio_log(waits.get(job.key, rule.LaterWait()).sooner, 3.0)
    return rows


def _shared(now: Situation, scale: float, soonest: float) -> list[float]:
    """The same for all: free slots, queue, what runs and when it ends, load, speed of the free nodes."""
    slots = now.cluster.total_slots
    backlog = sum_in_order(job.least_area for job in now.pending)
    return [
        now.cluster.free_slots / slots,
        math.log(1.0 + len(now.pending)) / 4.0,
        math.log(1.0 + backlog / (slots * scale)) / 2.0,
        len(now.running) / slots,
        squash(soonest / scale) if math.isfinite(soonest) else 1.0,
        sum(job.slots for job in now.running if job.remaining_seconds <= 0.25 * scale) / slots,
        sum(job.slots for job in now.running if job.remaining_seconds <= scale) / slots,
        min(arrival_history.load(now.cluster), 2.0) / 2.0,
        now.cluster.free_speed_ratio,
    ]


def _own(now: Situation, job: PendingJob, option: Option, scale: float, need: float, best: float) -> list[float]:
    """Of one job with one worker count: seconds and area against the typical and the empty cluster, size, age, what more workers give."""
    seconds, slots = option.seconds, option.workers * job.slots_per_worker
    own = job.best_empty_seconds / job.weight
    ahead = sum(other.best_empty_seconds / other.weight < own for other in now.pending)
    before, after = _neighbours(now, job, option)
    return [
        ratio_log(seconds / scale, 6.0) / 3.0,
        ratio_log(seconds * slots / (job.weight * max(need, 1e-12)), 6.0) / 3.0,
        ratio_log(seconds / job.best_empty_seconds, 3.0),
        ratio_log(seconds / option.empty_seconds, 3.0),
        slots / now.cluster.total_slots,
        slots / now.cluster.free_slots,
        ratio_log(job.weight, 3.0),
        squash(job.waited_seconds / scale),
        squash(job.waited_seconds / job.best_empty_seconds),
        option.communication_seconds / seconds,
        option.speed_ratio / max(now.cluster.free_speed_ratio, 1e-300),
        ahead / len(now.pending),
        min(after / seconds, 3.0) if math.isfinite(after) else 1.0,
        min(seconds / before, 3.0) if math.isfinite(before) else 1.0,
        ratio_log(seconds / best, 3.0),
    ]


def _neighbours(now: Situation, job: PendingJob, option: Option) -> tuple[float, float]:
    """Seconds with the next smaller and the next larger worker count; inf where there is none or it does not fit."""
    at = job.options.index(option)
    before = job.options[at - 1].seconds if at > 0 else math.inf
    after = job.options[at + 1] if at + 1 < len(job.options) else None
    fits = after is not None and after.workers * job.slots_per_worker <= now.cluster.free_slots
    return before, after.seconds if after is not None and fits else math.inf


def _index(candidate: QueueCandidate) -> float:
    job, option = _both(candidate)
    return option.seconds / job.weight


def _both(candidate: QueueCandidate) -> tuple[PendingJob, Option]:
    if candidate.job is None or candidate.option is None:
        raise ValueError("to wait is no start")
    return candidate.job, candidate.option


def squash(value: float) -> float:
    """0..inf to 0..1."""
    return value / (1.0 + value)


def ratio_log(value: float, limit: float) -> float:
    """Natural logarithm within ±limit."""
    return min(max(math.log(value) if value > 0.0 else -limit, -limit), limit)
