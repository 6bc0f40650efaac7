"""The queue's history as questions and answers carry it. Pure; without arrays, since the operator's own process counts too."""

from __future__ import annotations

from collections.abc import Sequence

from hyperscale.model.admission_query import Arrivals
from hyperscale.planner.queue.arrival_history import arrived, has_run, seconds_on_arrival
from hyperscale.planner.queue.queue_types import ArrivalHistory, PendingJob


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
