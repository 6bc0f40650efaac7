"""What the arrivals so far tell about those to come: the queue's transition statistics. Pure."""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from hyperscale.planner.queue.queue_types import ArrivalHistory, ClusterState, PendingJob
from hyperscale.util.float_sums import sum_in_order

FADING_JOBS: Final = 50
"""Arrivals after which older ones fade."""
GAIN: Final = 1.0 / FADING_JOBS
"""Weight of the newest arrival from then on."""

OUTLIER_RUNS: Final = 16.0
"""Mean runs beyond which a job is an outlier: as far as anybody knows while it waits, its length is a mistake."""
OUTLIER_COUNTS: Final = 2.0
"""Mean runs as which an outlier counts until it starts."""
MOST_COUNTS: Final = 64.0
"""Mean runs as which it counts from then on, at most: who starts a job may still give it up at once."""
MOST_GAP_VARIATION: Final = 1000.0
"""Also where all jobs came at once. A finite figure: manifests are JSON, which has no infinity."""


def arrived(history: ArrivalHistory, job: PendingJob, gap_seconds: float) -> ArrivalHistory:
    """`history` after one more job, which came `gap_seconds` after the last (for the first: after the start).

    The rule's patience with all jobs follows from the mean run, so a job of absurd length must not move that much. The load is as it is.
    """
    gain = max(1.0 / (history.arrivals + 1), GAIN)
    return ArrivalHistory(
        arrivals=history.arrivals + 1,
        interval_seconds=history.interval_seconds + gain * (gap_seconds - history.interval_seconds),
        run_seconds=history.run_seconds + gain * (_waiting_seconds(history, job) - history.run_seconds),
        area_seconds=history.area_seconds + gain * (job.least_area - history.area_seconds),
        interval_square=history.interval_square + gain * (gap_seconds**2 - history.interval_square),
    )


def begun(history: ArrivalHistory, job: PendingJob) -> ArrivalHistory:
    """`history` after the start of a job that has arrived: an outlier counts more from now on."""
    waiting_seconds = _waiting_seconds(history, job)
    if waiting_seconds == job.best_empty_seconds:
        return history
    more_seconds = min(job.best_empty_seconds, MOST_COUNTS * history.run_seconds) - waiting_seconds
    return replace(history, run_seconds=history.run_seconds + max(1.0 / history.arrivals, GAIN) * more_seconds)


def _waiting_seconds(history: ArrivalHistory, job: PendingJob) -> float:
    """As what a job's best run counts while it waits."""
    mean = history.run_seconds
    outlier = mean > 0.0 and job.best_empty_seconds > OUTLIER_RUNS * mean
    return OUTLIER_COUNTS * mean if outlier else job.best_empty_seconds


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
