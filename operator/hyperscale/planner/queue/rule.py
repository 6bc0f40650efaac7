"""The index rule: which pending job starts next, with how many workers. Pure and deterministic.

Every pending job is looked at with one worker count: of those that fit the free slots, the smallest, or a larger one that pays (`thrift`).
The job with the least index, seconds / weight, starts. Refinements are worth more than the order (docs/explanation/streams.md): while
others run, no job starts on nodes where it would take more than `patience` times its best on the empty cluster. Short jobs are content
with poorer nodes than long ones (`start_slowdown`), communication counts more than its seconds (`counted_seconds`), and patience ends when
the job has waited long enough for what the free nodes would cost it (`measure_seconds`).
"""

from __future__ import annotations

import enum
import math
from collections.abc import Sequence
from typing import Final, NamedTuple

from hyperscale.planner.queue.queue_types import ArrivalHistory, ClusterState, Option, PendingJob, QueueChoice, QueueRunningJob, Score
from hyperscale.planner.queue.wait_bounds import STRICT_BOUNDS, idle_seconds_left

MOST_LENGTH: Final = 16.0
"""Mean runs, and one over that: with ε 0.2 the allowed slowdown is within 0.57 and 1.74 times c."""
GOOD_SLOWDOWN: Final = 1.5
"""Of a start for which no job waits; a stricter c wins."""
AHEAD_PART: Final = 0.5
"""Of the slot seconds of shorter jobs that wait; see `later_waits`."""
LEAST_SECONDS: Final = 1e-9
MAX_SCORES: Final = 8
"""Candidates named in a choice."""


class QueueOrder(enum.StrEnum):
    """What the index is."""

    SECONDS = "Seconds"
    """Seconds of the run / weight: shortest first."""
    AREA = "Area"
    """Slot seconds / weight: smallest first."""


class RuleSettings(NamedTuple):
    """Knobs of the rule. The defaults are PlannerPolicy's (`QueuePolicy`); a trained network brings those that it was trained with."""

    order: QueueOrder
    thrift_alone: float
    """α with one pending job. A larger worker count must shorten the run by more than (ratio of the counts) ** α."""
    thrift: float
    """α with several."""
    patience: float
    """c, see `start_slowdown`."""
    size_exponent: float
    """ε, see `start_slowdown`."""
    communication_factor: float
    """κ, see `counted_seconds`."""
    patience_costs: float
    """See `measure_seconds`."""
    wait_speedup: float
    """θ, see `later_waits`."""
    starvation_seconds: float = math.inf
    """A job that has waited longer goes first on good nodes, whatever its index; see `wait_bounds.STRICT_BOUNDS`."""

    def alpha(self, pending: int) -> float:
        """α for a number of pending jobs."""
        return self.thrift_alone if pending == 1 else self.thrift


def by_age(pending: Sequence[PendingJob]) -> list[PendingJob]:
    """Longest waiting first."""
    return sorted(pending, key=lambda job: (-job.waited_seconds, job.key))


def starving(aged: Sequence[PendingJob], settings: RuleSettings) -> PendingJob | None:
    """The job before which no other starts any more; `aged` is `by_age`."""
    return aged[0] if aged and aged[0].waited_seconds > STRICT_BOUNDS * settings.starvation_seconds else None


def late_start(
    aged: Sequence[PendingJob], cluster: ClusterState, settings: RuleSettings, *, busy: bool
) -> tuple[PendingJob, Option] | None:
    """The longest waiting of the jobs beyond the bound for which the free nodes are good enough, and its worker count; None: none.

    aged: `by_age` · busy: others run, so that better nodes may become free
    """
    for job in aged:
        if not job.waited_seconds > settings.starvation_seconds:
            return None
        option = good_start(job, cluster, settings, settings.alpha(len(aged)), busy=busy)
        if option is not None:
            return job, option
    return None


def good_start(job: PendingJob, cluster: ClusterState, settings: RuleSettings, alpha: float, *, busy: bool) -> Option | None:
    """How the job starts on nodes that suit it, however long it has waited; None where the free ones do not."""
    best = job.best_empty_seconds
    limit = start_slowdown(best, cluster.history, settings) * best if busy else math.inf
    return thrifty(job, cluster.free_slots, settings, alpha, limit)


def goes_first(aged: Sequence[PendingJob], cluster: ClusterState, settings: RuleSettings, *, busy: bool) -> PendingJob | None:
    """The only job that may start next because of its wait, whether it fits or not; None: any may. Arguments as in `late_start`."""
    blocking = starving(aged, settings)
    if blocking is not None:
        return blocking
    late = late_start(aged, cluster, settings, busy=busy)
    return late[0] if late is not None else None


def thrifty(job: PendingJob, free_slots: int, settings: RuleSettings, alpha: float, limit_seconds: float = math.inf) -> Option | None:
    """The worker count of `job` among those that fit within the limit, by counted seconds: a larger one must pay. None where none fits."""
    best: Option | None = None
    least = math.inf
    for option in job.options:
        seconds = counted_seconds(option, settings.communication_factor)
        if option.workers * job.slots_per_worker > free_slots or not option.fits or not is_good(option, job, settings, limit_seconds):
            continue
        if best is None or seconds * math.pow(option.workers / best.workers, alpha) < least:
            best, least = option, seconds
    return best


def is_good(option: Option, job: PendingJob, settings: RuleSettings, limit_seconds: float) -> bool:
    """Whether the nodes are good enough: counted seconds within the limit, or seconds within GOOD_SLOWDOWN times the best run.

    A job that communicates much on its best nodes too would otherwise wait long for little.
    """
    if counted_seconds(option, settings.communication_factor) <= limit_seconds:
        return True
    return option.seconds <= min(GOOD_SLOWDOWN, settings.patience) * job.best_empty_seconds


def counted_seconds(option: Option, communication_factor: float) -> float:
    """Seconds on the free nodes, those of communication κ more: on links that others share they grow, and slow the others too."""
    return option.seconds + communication_factor * option.communication_seconds


def start_slowdown(best_seconds: float, past: ArrivalHistory, settings: RuleSettings) -> float:
    """The largest allowed multiple of the best run on the empty cluster: c x (best run / mean run) ** -ε, at least 1.

    A short job delays others little and gains little by a better node; a long one holds poor nodes for long. Without a history: c.
    Lengths beyond MOST_LENGTH count as that, which bounds what absurd jobs among the past ones do to the others.
    """
    return max(1.0, settings.patience * length_factor(best_seconds, past, settings))


def length_factor(best_seconds: float, past: ArrivalHistory, settings: RuleSettings) -> float:
    """(best run / mean run) ** -ε, within what MOST_LENGTH allows; 1 without a history."""
    if not settings.size_exponent or not past.run_seconds > 0.0 or not best_seconds > 0.0:
        return 1.0
    return math.pow(min(max(best_seconds / past.run_seconds, 1.0 / MOST_LENGTH), MOST_LENGTH), -settings.size_exponent)


def measure_seconds(job: PendingJob, settings: RuleSettings) -> float:
    """What patience is counted from: the best run on the empty cluster, or after a long wait the least counted seconds on the free nodes.

    The wait is `patience_costs` times as long as the run would be longer there. At 1, with the fastest worker count, a job that starts then
    ends after at most twice the best time there was (the ski rental argument); the rule may still take fewer workers, within its patience.
    """
    costs = min(option.seconds for option in job.options) - job.best_empty_seconds
    if job.waited_seconds < settings.patience_costs * costs:
        return job.best_empty_seconds
    return min(counted_seconds(option, settings.communication_factor) for option in job.options)


class LaterWait(NamedTuple):
    """What a wait for running jobs that end soon is worth to a pending job that fits."""

    sooner: float = 1.0
    """How many times sooner the job ends that way, by counted seconds; at least 1."""
    waits: bool = False
    """Whether the rule keeps it for them."""


def later_waits(aged: Sequence[PendingJob], cluster: ClusterState, settings: RuleSettings, *, busy: bool) -> dict[str, LaterWait]:
    """What waiting is worth to every pending job that fits, by key; arguments as in `late_start`.

    A job waits where it ends more than `enough_sooner` that way: others may take those nodes first, and a long job loses more by poor
    nodes. Jobs before it in the order that wait take them first, also those that patience keeps back. Their slot seconds are halved, since
    some find other nodes. The wait ends after IDLE_COSTS times what the free nodes cost the job.
    """
    waits: dict[str, LaterWait] = {}
    if not settings.wait_speedup > 0.0 or not busy:
        return waits
    ahead_slot_seconds = 0.0
    for job in sorted(aged, key=lambda job: job.best_empty_seconds / job.weight):  # stable: among equals the older
        left = idle_seconds_left(job, cluster.free_slots, 0.0)
        if left is None:
            continue
        enough = enough_sooner(job.best_empty_seconds, cluster.history, settings)
        by_waiting = sooner(job, settings.communication_factor, ahead_slot_seconds)
        waits[job.key] = LaterWait(by_waiting, waits=by_waiting > enough and left > 0.0)
        poor = thrifty(job, cluster.free_slots, settings, 0.0, _limit(job, cluster, settings, busy=True)) is None
        if waits[job.key].waits or poor:
            ahead_slot_seconds += AHEAD_PART * job.least_area
    return waits


def enough_sooner(best_seconds: float, past: ArrivalHistory, settings: RuleSettings) -> float:
    """How many times sooner a job must end by waiting: θ x (best run / mean run) ** -ε, at least 1."""
    return max(1.0, settings.wait_speedup * length_factor(best_seconds, past, settings))


def sooner(job: PendingJob, communication_factor: float, ahead_slot_seconds: float = 0.0) -> float:
    """How many times sooner the job ends by waiting for the best of the next ends of running jobs, in counted seconds; at least 1.

    ahead_slot_seconds: of jobs that take the slots first which those ends leave
    """
    now_seconds = min(counted_seconds(option, communication_factor) for option in job.options)
    later = (
        start.wait_seconds + ahead_slot_seconds / start.freed_slots + start.seconds + communication_factor * start.communication_seconds
        for start in job.later
    )
    least = min(later, default=now_seconds)
    return now_seconds / max(least, LEAST_SECONDS) if least < now_seconds < math.inf else 1.0


def choose(pending: Sequence[PendingJob], running: Sequence[QueueRunningJob], cluster: ClusterState, settings: RuleSettings) -> QueueChoice:
    """What the rule starts next. Scores are indices: seconds (or slot seconds) / weight, less is better."""
    aged, alpha = by_age(pending), settings.alpha(len(pending))
    first = starving(aged, settings)
    if first is not None:
        option = good_start(first, cluster, settings, alpha, busy=False)
        return QueueChoice(None) if option is None else QueueChoice(first.key, option.workers, (Score(first.key, option.workers, 0.0),))
    late = late_start(aged, cluster, settings, busy=bool(running))
    if late is not None:
        return QueueChoice(late[0].key, late[1].workers, (Score(late[0].key, late[1].workers, 0.0),))
    waiting = later_waits(aged, cluster, settings, busy=bool(running))
    scores: list[Score] = []
    impatient = False
    for job in aged:
        option = thrifty(job, cluster.free_slots, settings, alpha, _limit(job, cluster, settings, busy=bool(running)))
        if option is not None and job.key in waiting and waiting[job.key].waits:
            impatient = True
        elif option is not None:
            scores.append(Score(job.key, option.workers, index(job, option, settings)))
        elif running and not impatient:
            impatient = thrifty(job, cluster.free_slots, settings, alpha) is not None
    if not scores:
        return QueueChoice(None, waits_for_better_nodes=impatient)
    ranked = sorted(scores, key=lambda score: score.score)  # stable: among equals the one that waits longest
    return QueueChoice(ranked[0].job, ranked[0].workers, tuple(ranked[:MAX_SCORES]))


def _limit(job: PendingJob, cluster: ClusterState, settings: RuleSettings, *, busy: bool) -> float:
    """The most counted seconds with which the job may start now."""
    if not busy:
        return math.inf
    return start_slowdown(job.best_empty_seconds, cluster.history, settings) * measure_seconds(job, settings)


def index(job: PendingJob, option: Option, settings: RuleSettings) -> float:
    """What the rule sorts by."""
    slots = option.workers * job.slots_per_worker if settings.order is QueueOrder.AREA else 1
    return counted_seconds(option, settings.communication_factor) * slots / job.weight
