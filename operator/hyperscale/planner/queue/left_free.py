"""Faster GPUs that a start leaves free for other jobs, where they gain it little. Pure and deterministic.

A job that holds a part of the cluster's speed for its run delays others by about that part of its run: jobs that wait and fit beside
it, and as many to come as run now (by Little's law that number arrives during a mean run). A job that communicates much gains little by
faster GPUs, and holds as much of the cluster's speed as one that gains much. So each start compares its placement with those without
the fastest GPU kinds, and takes the one whose run is shortest with that delay counted (docs/explanation/streams.md).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from msgspec.structs import replace

from hyperscale.model.plan import MAX_SENTENCES, Infeasible, Plan
from hyperscale.model.planning import PlanRequest
from hyperscale.planner.queue.options import run_seconds
from hyperscale.planner.queue.placement_oracle import PlacementOracle

HOLDING_PART: Final = 0.5
"""Of the jobs that wait or run: on average others are delayed for half of what a start holds."""
MOST_LONGER: Final = 2.0
"""A run on slower GPUs may take this multiple of the fastest placement's."""


class HeldPlacement(NamedTuple):
    """A placement that a start may take."""

    seconds: float
    """Of the run."""
    speed_ratio: float
    """Speed of its GPUs / speed of all GPUs of the cluster, 0..1."""


class Competition(NamedTuple):
    """For whom a start leaves GPUs free, and how much longer its run may be."""

    weight: float
    """Of the job that starts."""
    fitting: float
    """Weights of the pending jobs that fit beside it."""
    coming: float
    """Jobs that run, each with the mean weight of the pending ones."""
    patience_seconds: float
    """The rule's limit for the run: `start_slowdown` times the best one."""


class StartPlan(NamedTuple):
    """With which plan a job starts."""

    plan: Plan | Infeasible
    leaves: bool = False
    """Faster GPUs, on purpose."""


def holding_price(others: Competition) -> float:
    """How many of its own runs the others lose by a start that holds all of the cluster's speed."""
    return HOLDING_PART * (others.fitting + others.coming) / others.weight


def longest_run(first_seconds: float, patience_seconds: float) -> float:
    """The most seconds of a run that leaves faster GPUs free: within the rule's patience, and MOST_LONGER times the fastest placement's."""
    return min(MOST_LONGER * first_seconds, max(first_seconds, patience_seconds))


def cheapest(placements: Iterable[HeldPlacement], price: float, patience_seconds: float) -> int:
    """Which placement a job starts with: the first is the fastest, each further one leaves out one more of the fastest GPU kinds.

    They are asked for up to the first that takes too long. Raises ValueError for none.
    """
    best, least, longest = -1, math.inf, math.inf
    for place, placement in enumerate(placements):
        if place == 0:
            longest = longest_run(placement.seconds, patience_seconds)
        elif not placement.seconds <= longest:
            break
        cost = placement.seconds * (1.0 + price * placement.speed_ratio)
        if best < 0 or cost < least:
            best, least = place, cost
    if best < 0:
        raise ValueError("no placement to choose from")
    return best


def start_plan(desk: PlacementOracle, request: PlanRequest, others: Competition | None) -> StartPlan:
    """The plan with which a job starts, and whether it leaves faster GPUs free; its first reason says so.

    It leaves none where one of its ranks is pinned, where a person weighs its time against cost, and where `others` is None.
    """
    price = holding_price(others) if others is not None else 0.0
    if others is None or not price or request.pinned or request.weights is not None:
        return StartPlan(desk.final(request))
    answers = list(_slower(desk, request, others.patience_seconds))
    if len(answers) < 2:
        return StartPlan(desk.final(request))
    placements = [HeldPlacement(run_seconds(request, answer.plan), desk.speed_held(answer.plan)) for answer in answers]
    chosen = answers[cheapest(placements, price, others.patience_seconds)]
    fast, plan = answers[0].plan, desk.final(chosen.request)
    if chosen is answers[0] or not isinstance(plan, Plan):
        return StartPlan(desk.final(request))
    longer = 100.0 * (run_seconds(request, plan) / run_seconds(request, fast) - 1.0)
    sentence = (
        f"leaves faster GPUs free for other jobs: the run is {longer:.0f} % longer and holds {100.0 * desk.speed_held(plan):.0f} % "
        f"of the cluster's GPU speed instead of {100.0 * desk.speed_held(fast):.0f} %"
    )
    return StartPlan(replace(plan, reasons=(sentence, *plan.reasons)[:MAX_SENTENCES]), leaves=True)


class _Answer(NamedTuple):
    request: PlanRequest
    plan: Plan


def _slower(desk: PlacementOracle, request: PlanRequest, patience_seconds: float) -> Iterator[_Answer]:
    """The fastest placement, then those without one more of the fastest GPU kinds, as long as one may be taken and time is left."""
    longest = math.inf
    for closed in desk.fastest_first(request):
        if closed and desk.hurried():
            return
        left = replace(request, free_gpus={**request.free_gpus, **dict.fromkeys(closed, 0)})
        plan = desk.now(left)
        if not isinstance(plan, Plan) or not run_seconds(request, plan) <= longest:
            return
        if not closed:
            longest = longest_run(run_seconds(request, plan), patience_seconds)
        yield _Answer(left, plan)
