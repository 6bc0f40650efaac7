"""Plans of one job that trade time, cost and risk: which questions find them, and which of the answers are worth a look. Pure.

The planners answer ordinary questions about the same job: another worker count, cheaper nodes, fewer nodes. So every alternative is a plan
like any other, and the independent checker accepts it for the job's own question too.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Final, NamedTuple

from msgspec.structs import replace

from hyperscale.model.api.policy import PolicySpec
from hyperscale.model.cluster import ClusterSnapshot
from hyperscale.model.offers.plan_offers import MAX_OFFERED_WORKERS, PlanAlternative, PlanAlternatives, trimmed
from hyperscale.model.plan import Plan
from hyperscale.model.planning import PlanRequest
from hyperscale.planner.check.artifact import rounded
from hyperscale.planner.check.plan_check import violations
from hyperscale.planner.choice.node_risk import node_failure_risk, weighed_risk
from hyperscale.planner.problem.speeds import gpu_speeds

MAX_QUESTIONS: Final = 6
"""Asked about one plan."""
MIN_GAIN_RATIO: Final = 0.02
"""An offer is better in time, cost or risk by at least this part: less is no reason to choose."""
MAX_LOSS_RATIO: Final = 4.0
"""Factor by which an offer may be worse in each."""
MIN_RATIO: Final = 1e-9
"""Of a figure that is 0."""
Weights = tuple[float, float, float]


class Ratios(NamedTuple):
    """Figures of an offer / those of the plan; below 1 is better."""

    time: float
    cost: float
    risk: float


def failure_risk(plan: Plan, epochs: int) -> float:
    """Return the probability that a node of the plan fails before the run ends: 1 - exp(-rate x nodes x seconds)."""
    return rounded(node_failure_risk(len(plan.ranks_by_node), epochs * plan.predicted.epoch_seconds))


def alternative_requests(request: PlanRequest, plan: Plan, snapshot: ClusterSnapshot, policy: PolicySpec) -> tuple[PlanRequest, ...]:
    """Return the questions whose answers may trade time, cost and risk against `plan`, at most MAX_QUESTIONS.

    request: the question that `plan` answers; with a fixed worker count or pinned workers there is nothing to choose.
    """
    if request.workers_fixed is not None or request.pinned or not 0 < len(plan.workers) <= MAX_OFFERED_WORKERS:
        return ()
    asked = (*_fewer_nodes(request, plan, snapshot), *_cheaper_nodes(request, plan, snapshot, policy), *_other_counts(request, plan))
    return asked[:MAX_QUESTIONS]


def offers(request: PlanRequest, plan: Plan, answers: Sequence[Plan], snapshot: ClusterSnapshot, key: str) -> PlanAlternatives:
    """Return `plan` and up to two of the `answers` that are better in something and that no other answer beats in everything.

    Answers that the checker refuses for `request` itself are left out.

    key: as `PlanAlternatives.key`
    """
    epochs = request.job.model.epochs
    own = offer_of(plan, epochs)
    sound = {answer.plan_id: answer for answer in answers if _is_sound(answer, plan, request, snapshot)}
    rated = [(ratios(offer_of(sound[name], epochs), own), sound[name]) for name in sorted(sound)]
    worthwhile = [(each, answer) for each, answer in rated if min(each) <= 1.0 - MIN_GAIN_RATIO and max(each) <= MAX_LOSS_RATIO]
    chosen = _two_of([entry for entry in worthwhile if not any(_beats(other, entry[0]) for other, _ in worthwhile)])
    listed = (replace(offer_of(answer, epochs), trades=trades(each, plan), plan=trimmed(answer)) for each, answer in chosen)
    return PlanAlternatives(key, (own, *listed))


def offer_of(plan: Plan, epochs: int) -> PlanAlternative:
    """Return what is compared of a plan."""
    return PlanAlternative(
        plan_id=plan.plan_id,
        workers=len(plan.workers),
        nodes=len(plan.ranks_by_node),
        gpus=plan.ranks,
        epoch_seconds=plan.predicted.epoch_seconds,
        failure_risk=failure_risk(plan, epochs),
        cost_per_epoch=plan.predicted.cost_per_epoch,
    )


def ratios(offer: PlanAlternative, own: PlanAlternative) -> Ratios:
    """Return the figures of an offer by those of the plan; cost is GPU seconds where a price is missing."""
    priced = offer.cost_per_epoch is not None and own.cost_per_epoch is not None
    cost, own_cost = (offer.cost_per_epoch or 0.0, own.cost_per_epoch or 0.0) if priced else (offer.gpu_seconds, own.gpu_seconds)
    return Ratios(_ratio(offer.epoch_seconds, own.epoch_seconds), _ratio(cost, own_cost), _ratio(offer.failure_risk, own.failure_risk))


def rated_best(listed: Sequence[PlanAlternative], weights: Weights) -> str:
    """Return the id of the offer with the least weighted sum of logarithms of time, cost and risk; the first of equal ones.

    Risks below LEAST_RISK are equal, as they are where answers of people reveal the weights.
    """
    own = listed[0]

    def burden(offer: PlanAlternative) -> float:
        against = ratios(offer, own)
        logarithms = *(math.log(max(each, MIN_RATIO)) for each in against[:2]), weighed_risk(offer.failure_risk)
        return round(math.fsum(weight * each for weight, each in zip(weights, logarithms, strict=True)), 9)

    return min(listed, key=burden).plan_id


def trades(each: Ratios, plan: Plan) -> str:
    """Return one sentence on what an offer gains and loses against `plan`."""
    cost = "cost" if plan.predicted.cost_per_epoch is not None else "GPU time"
    named = zip(("time", cost, "risk of a node failure"), each, strict=True)
    parts = [
        f"{abs(ratio - 1.0) * 100.0:.3g} % {'less' if ratio < 1.0 else 'more'} {name}" for name, ratio in named if abs(ratio - 1.0) >= 0.005
    ]
    return f"Against plan {plan.plan_id}: {', '.join(parts)}."


def _other_counts(request: PlanRequest, plan: Plan) -> Iterator[PlanRequest]:
    limits, workers = request.job.workers, len(plan.workers)
    wanted = (math.ceil(workers / 2), limits.min_replicas, 2 * workers)
    for count in dict.fromkeys(min(max(each, limits.min_replicas), limits.max_replicas) for each in wanted):
        if count != workers and count <= MAX_OFFERED_WORKERS:
            yield replace(request, workers_fixed=count)


def _cheaper_nodes(request: PlanRequest, plan: Plan, snapshot: ClusterSnapshot, policy: PolicySpec) -> Iterator[PlanRequest]:
    """Without the nodes whose GPUs cost as much as the dearest planned one, or an unknown price."""
    prices = {node.name: speed.price_per_hour for node, speed in zip(snapshot.nodes, gpu_speeds(snapshot.nodes, policy), strict=True)}
    planned = [prices.get(node) for node in plan.ranks_by_node]
    known_prices = [price for price in planned if price is not None]
    if len(known_prices) < len(planned) or not known_prices:
        return
    dearest = max(known_prices)
    excluded = tuple(name for name, price in sorted(prices.items()) if price is None or price >= dearest)
    if len(excluded) < len(prices):
        without = replace(request, excluded_nodes=tuple(sorted({*request.excluded_nodes, *excluded})))
        yield replace(without, workers_fixed=len(plan.workers))
        yield without


def _fewer_nodes(request: PlanRequest, plan: Plan, snapshot: ClusterSnapshot) -> Iterator[PlanRequest]:
    """On the roomiest nodes that hold as many workers, where these are fewer than planned."""
    if request.apart:
        return
    room = _room(request, snapshot)
    # Planned nodes first where several have as much room: an alternative that moves less is easier to judge.
    roomiest = sorted(room, key=lambda name: (-room[name], name not in plan.ranks_by_node, name))
    cumulative = list(accumulate(room[name] for name in roomiest))
    needed = bisect_left(cumulative, len(plan.workers)) + 1
    if needed < len(plan.ranks_by_node) and needed <= len(cumulative):
        excluded = {node.name for node in snapshot.nodes} - set(roomiest[:needed])
        without = tuple(sorted({*request.excluded_nodes, *excluded}))
        yield replace(request, excluded_nodes=without, workers_fixed=len(plan.workers))


def _room(request: PlanRequest, snapshot: ClusterSnapshot) -> dict[str, int]:
    """Workers that fit each usable node by its free GPUs; the planners look at the rest."""
    each = request.job.workers.gpus_per_worker
    usable = [node for node in snapshot.nodes if node.ready and node.schedulable and node.name not in request.excluded_nodes]
    return {node.name: request.free_gpus.get(node.name, node.free_gpus) // each for node in usable}


def _is_sound(answer: Plan, plan: Plan, request: PlanRequest, snapshot: ClusterSnapshot) -> bool:
    """Whether an answer is another placement, not too large to be kept, and right for the job's own question."""
    other = [worker.node for worker in answer.workers] != [worker.node for worker in plan.workers]
    return other and len(answer.workers) <= MAX_OFFERED_WORKERS and not violations(answer, request, snapshot)


def _two_of(entries: Sequence[tuple[Ratios, Plan]]) -> list[tuple[Ratios, Plan]]:
    """The cheapest, and of the others the one that is best in risk or time; by falling ids where they are equal."""
    ranked = sorted(entries, key=lambda entry: (entry[0].cost, entry[1].plan_id))
    rest = sorted(ranked[1:], key=lambda entry: (min(entry[0].risk, entry[0].time), entry[1].plan_id))
    return [*ranked[:1], *rest[:1]]


def _beats(one: Ratios, other: Ratios) -> bool:
    return one != other and all(first <= second for first, second in zip(one, other, strict=True))


def _ratio(figure: float, own: float) -> float:
    return figure / own if own > 0.0 else 1.0 if figure == own else math.inf
