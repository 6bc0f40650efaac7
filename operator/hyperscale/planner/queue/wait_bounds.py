"""How long a chooser may let jobs wait: bounds that hold whatever it says. Pure."""

from __future__ import annotations

from typing import Final

from hyperscale.planner.queue.queue_types import Option, PendingJob

PATIENCE_COSTS: Final = 1.6
"""Patience for better nodes ends after this multiple of what the free ones would cost the job (docs/explanation/streams.md)."""
IDLE_COSTS: Final = 3.0
"""A wait for running jobs that end soon, or for what else nodes are kept free for, ends after this multiple."""
IDLE_RUNS: Final = 0.5
"""Own best runs that a chooser may keep a job which fits waiting beyond that; see `idle_seconds_left`."""
LONG_RUNS: Final = 8.0
"""Mean runs beyond which no chooser keeps a job waiting that the rule would start: so long a job's wait outweighs what nodes gain."""
STRICT_BOUNDS: Final = 2.0
"""Starvation bounds that a job has waited when no other starts before it any more.

From one bound on it goes first on nodes that suit it; others may start while there are none. A job that starts on any free nodes at once
runs many times its best there, and those behind it reach the bound too (docs/explanation/streams.md).
"""


def quickest(job: PendingJob, free_slots: int) -> Option | None:
    """The fastest of the worker counts that fit the free slots, the smaller of two that are equal; None where none fits."""
    fitting = [option for option in job.options if option.fits and option.workers * job.slots_per_worker <= free_slots]
    return min(fitting, key=lambda option: (option.seconds, option.workers), default=None)


def idle_seconds_left(job: PendingJob, free_slots: int, idle_runs: float = IDLE_RUNS) -> float | None:
    """Seconds for which a chooser may still start nothing although this job fits; below 0 it may not; None where it does not fit.

    A job that fits waits no longer than IDLE_COSTS times what the free nodes cost it over the best ones, and `idle_runs` of its best run
    more. Other jobs may start before it: that is what `starvation_seconds` bounds.
    """
    option = quickest(job, free_slots)
    if option is None:
        return None
    costs = option.seconds - job.best_empty_seconds
    return IDLE_COSTS * costs + idle_runs * job.best_empty_seconds - job.waited_seconds


def overdue(job: PendingJob, free_slots: int, idle_runs: float = IDLE_RUNS) -> Option | None:
    """How the job would start, where nothing may be kept idle for others any more; else None."""
    left = idle_seconds_left(job, free_slots, idle_runs)
    return quickest(job, free_slots) if left is not None and left < 0.0 else None
