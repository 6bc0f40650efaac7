"""The queue's history as questions and answers carry it. Pure; without arrays, since the operator's own process counts too."""

from __future__ import annotations

from hyperscale.model.admission_query import Arrivals
from hyperscale.planner.queue.arrival_history import arrived, begun
from hyperscale.planner.queue.queue_types import ArrivalHistory, PendingJob


def history_of(arrivals: Arrivals) -> ArrivalHistory:
    """As choosers see it."""
    return ArrivalHistory(
        arrivals.arrivals, arrivals.interval_seconds, arrivals.run_seconds, arrivals.area_seconds, arrivals.interval_square
    )


def counted(arrivals: Arrivals, job: PendingJob, gap_seconds: float) -> Arrivals:
    """With one more job, which came `gap_seconds` after the last."""
    return _arrivals_of(arrived(history_of(arrivals), job, gap_seconds))


def counted_start(arrivals: Arrivals, job: PendingJob) -> Arrivals:
    """After the start of a job that has been counted."""
    return _arrivals_of(begun(history_of(arrivals), job))


def _arrivals_of(history: ArrivalHistory) -> Arrivals:
    return Arrivals(history.arrivals, history.interval_seconds, history.run_seconds, history.area_seconds, history.interval_square)
