"""The queue's history as questions and answers carry it. Pure; without arrays, since the operator's own process counts too."""

from __future__ import annotations

import msgspec

from hyperscale.model.admission_query import Arrivals
from hyperscale.planner.queue.arrival_history import arrived
from hyperscale.planner.queue.queue_types import ArrivalHistory, PendingJob


def history_of(arrivals: Arrivals) -> ArrivalHistory:
    """As choosers see it."""
    return ArrivalHistory(*msgspec.structs.astuple(arrivals))


def counted(arrivals: Arrivals, job: PendingJob, gap_seconds: float) -> Arrivals:
    """With one more job, which came `gap_seconds` after the last."""
    after = arrived(history_of(arrivals), job, gap_seconds)
    return Arrivals(*msgspec.structs.astuple(after))
