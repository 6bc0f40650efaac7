"""What the arrivals so far tell about those to come: the queue's transition statistics.

Pure; without arrays, since the operator's own process counts too. Questions and answers carry the history as `Arrivals`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec.structs import replace

from hyperscale.model.admission_query import Arrivals
from hyperscale.planner.queue.queue_types import ArrivalHistory, ClusterState, PendingJob
from hyperscale.util.float_sums import sum_in_order

FADING_JOBS: Final = 50
"""Arrivals after which older ones fade."""
GAIN: Final = 1.0 / FADING_JOBS
"""Weight of the newest arrival from then on."""

WAITING_RUNS: Final = 2.0
"""Mean runs as which a job counts at most until it has run for one: till then its length is a claim."""
MOST_RUNS: Final = 64.0
"""Mean runs as which it counts from then on, at most."""
FIRST_ARRIVALS: Final = 5
FIRST_RUNS: Final = 16.0
"""While fewer jobs have come, the mean is at most this multiple of the newest run: the very first may be the absurd one."""
MOST_GAP_VARIATION: Final = 1000.0
"""Also where all jobs came at once. A finite figure: manifests are JSON, which has no infinity."""


def arrived(history: ArrivalHistory, job: PendingJob, gap_seconds: float) -> ArrivalHistory:
    """`history` after one more job, which came `gap_seconds` after the last (for the first: after the start).

    The rule's patience with all jobs follows from the mean run, so jobs of absurd length must not move that much. The load is as it is.
    """
    gain, best_seconds = max(1.0 / (history.arrivals + 1), GAIN), job.best_empty_seconds
    mean = _mean_before(history, best_seconds)
    return ArrivalHistory(
        arrivals=history.arrivals + 1,
        interval_seconds=history.interval_seconds + gain * (gap_seconds - history.interval_seconds),
        run_seconds=mean + gain * (_waiting_seconds(mean, best_seconds) - mean),
        area_seconds=history.area_seconds + gain * (job.least_area - history.area_seconds),
        interval_square=history.interval_square + gain * (gap_seconds**2 - history.interval_square),
    )


def seconds_on_arrival(history: ArrivalHistory, best_seconds: float) -> float:
    """As what a job's best run counts that arrives next."""
    return _waiting_seconds(_mean_before(history, best_seconds), best_seconds)


def has_run(history: ArrivalHistory, best_seconds: float, counted_as: float) -> ArrivalHistory:
    """`history` after a job has run for a mean run that had counted as less than its best run."""
    more_seconds = min(best_seconds, MOST_RUNS * history.run_seconds) - counted_as
    gain = max(1.0 / max(history.arrivals, 1), GAIN)
    return replace(history, run_seconds=history.run_seconds + gain * max(0.0, more_seconds))


def _mean_before(history: ArrivalHistory, best_seconds: float) -> float:
    """The mean run that a job meets which arrives next."""
    return min(history.run_seconds, FIRST_RUNS * best_seconds) if 0 < history.arrivals < FIRST_ARRIVALS else history.run_seconds


def _waiting_seconds(mean_seconds: float, best_seconds: float) -> float:
    return min(best_seconds, WAITING_RUNS * mean_seconds) if mean_seconds > 0.0 else best_seconds


def gap_variation(history: ArrivalHistory) -> float:
    """Squared coefficient of variation of the gaps: 1 where jobs come by chance, more where several come at once."""
    mean_square = history.interval_seconds**2
    return min(max(0.0, history.interval_square / mean_square - 1.0), MOST_GAP_VARIATION) if mean_square > 0.0 else MOST_GAP_VARIATION


def load(cluster: ClusterState) -> float:
    """Slot seconds that arrive a second, over the slots: above 1 the queue grows. 0 where nothing is known."""
    history = cluster.history
    if not history.arrivals:
        return 0.0
    return history.area_seconds / max(history.interval_seconds * cluster.total_slots, 1e-12)


def typical_seconds(cluster: ClusterState, pending: list[PendingJob]) -> float:
    """Run of a typical job: from history, else of those that wait now."""
    if cluster.history.arrivals:
        return cluster.history.run_seconds
    return sum_in_order(job.best_empty_seconds for job in pending) / len(pending)


def typical_area(cluster: ClusterState, pending: list[PendingJob]) -> float:
    """Slot seconds of a typical job: from history, else of those that wait now."""
    if cluster.history.arrivals:
        return cluster.history.area_seconds
    return sum_in_order(job.least_area for job in pending) / len(pending)


def history_of(arrivals: Arrivals) -> ArrivalHistory:
    """As choosers see it."""
    return ArrivalHistory(
        arrivals.arrivals, arrivals.interval_seconds, arrivals.run_seconds, arrivals.area_seconds, arrivals.interval_square
    )


def counted(arrivals: Arrivals, job: PendingJob, gap_seconds: float) -> Arrivals:
    """With one more job, which came `gap_seconds` after the last."""
    return _arrivals_of(arrived(history_of(arrivals), job, gap_seconds))


def counted_lengths(arrivals: Arrivals, jobs: Sequence[PendingJob]) -> list[float]:
    """As how many seconds each of these jobs counts that arrive one after the other."""
    history, counted_as = history_of(arrivals), []
    for job in jobs:
        counted_as.append(seconds_on_arrival(history, job.best_empty_seconds))
        history = arrived(history, job, 0.0)
    return counted_as


def counted_run(arrivals: Arrivals, best_seconds: float, counted_as: float) -> Arrivals:
    """After a job of this best run has run for a mean run; it had counted as that many seconds."""
    return _arrivals_of(has_run(history_of(arrivals), best_seconds, counted_as))


def _arrivals_of(history: ArrivalHistory) -> Arrivals:
    return Arrivals(history.arrivals, history.interval_seconds, history.run_seconds, history.area_seconds, history.interval_square)
