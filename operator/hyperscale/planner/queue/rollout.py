"""What a decision is worth: the rule rolled forward on predicted times until every pending job has ended. Pure.

Later placements are not known, so a job that starts later is taken to run as on the empty cluster as soon as its GPUs are free. That is
the same for every choice, so choices may be compared by it; it is no promise to a user.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from msgspec.structs import replace

from hyperscale.planner.queue.queue_types import ClusterState, PendingJob, QueueChoice, QueueRunningJob
from hyperscale.util.float_sums import sum_in_order

Choose = Callable[[Sequence[PendingJob], Sequence[QueueRunningJob], ClusterState], QueueChoice]
"""One step: which pending job starts next, with how many workers, or none."""

MOST_ROLLED: Final = 24
"""Jobs that are rolled forward, the first in order; the others come after them whatever was chosen."""


@dataclass(frozen=True)
class Started:
    """A choice to be judged."""

    key: str
    slots: int
    seconds: float
    weight: float


def weighted_mean_seconds(
    started: Iterable[Started],
    waiting: tuple[PendingJob, ...],
    running: tuple[QueueRunningJob, ...],
    cluster: ClusterState,
    rule: Choose,
    *,
    settled: bool = False,
) -> float:
    """Weighted mean over `started` and `waiting` of the seconds from now to their end.

    started: run from now on; their slots are not in `cluster.free_slots` any more
    waiting: with their times on the empty cluster; rolled forward by `rule`
    settled: nothing more starts before the next job ends, since that is what was chosen: to wait is not free
    """
    begun = tuple(started)
    total = sum_in_order(one.seconds * one.weight for one in begun)
    weight = sum_in_order(one.weight for one in begun)
    active = (*running, *(QueueRunningJob(one.key, one.slots, one.seconds) for one in begun))
    for job in waiting[:MOST_ROLLED]:
        weight += job.weight
    for job, ends in rolled_ends({job.key: job for job in waiting[:MOST_ROLLED]}, active, cluster, rule, settled=settled):
        total += job.weight * ends
    return total / weight if weight else 0.0


def rolled_ends(
    waiting: Mapping[str, PendingJob],
    running: tuple[QueueRunningJob, ...],
    cluster: ClusterState,
    rule: Choose,
    *,
    settled: bool = False,
) -> Iterable[tuple[PendingJob, float]]:
    """Yield every waiting job and the second in which it ends.

    waiting: by key
    settled: none of them starts before the first of `running` ends
    """
    left = dict(waiting)
    ends = [(job.remaining_seconds, job.key, job.slots) for job in running]
    heapq.heapify(ends)
    now, free = _begin(ends, cluster.free_slots, settled)
    while left:
        shown = tuple(_at_best(job, free) for job in left.values())
        active = tuple(QueueRunningJob(key, slots, end - now) for end, key, slots in sorted(ends))
        choice = rule(shown, active, replace(cluster, free_slots=free))
        if choice.job is not None and choice.job in left:
            job = left.pop(choice.job)
            seconds = next(option.empty_seconds for option in job.options if option.workers == choice.workers)
            slots = choice.workers * job.slots_per_worker
            free -= slots
            heapq.heappush(ends, (now + seconds, job.key, slots))
            yield job, now + seconds
        elif ends:
            now, _, slots = heapq.heappop(ends)
            free += slots
        else:  # more than the cluster holds by this reckoning: the same for every choice
            yield from ((job, now + job.best_empty_seconds) for job in left.values())
            return


def _begin(ends: list[tuple[float, str, int]], free: int, settled: bool) -> tuple[float, int]:
    """Second from which jobs may start, and the free slots then; with `settled` the first end, which leaves the heap."""
    if not settled or not ends:
        return 0.0, free
    now, _, slots = heapq.heappop(ends)
    return now, free + slots


def _at_best(job: PendingJob, free: int) -> PendingJob:
    """The job if every worker count that fits by number ran as on the empty cluster."""
    options = tuple(
        replace(option, seconds=option.empty_seconds if option.workers * job.slots_per_worker <= free else float("inf"))
        for option in job.options
    )
    return replace(job, options=options, later=())
