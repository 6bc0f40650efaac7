"""Alternatives of a plan: sound plans of the same job that trade time, cost and risk."""

from __future__ import annotations

import math

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from hyperscale.model.api.policy import GpuModel, PolicySpec
from hyperscale.model.cluster import ClusterSnapshot
from hyperscale.model.offers.plan_offers import MAX_OFFERS, PlanAlternatives, is_plan_id
from hyperscale.model.plan import Plan
from hyperscale.model.planning import PlanRequest
from hyperscale.planner.check.plan_check import violations
from hyperscale.planner.choice.alternative_plans import (
    MAX_QUESTIONS,
    MIN_GAIN_RATIO,
    alternative_requests,
    failure_risk,
    offer_of,
    offers,
    ratios,
)
from hyperscale.planner.choice.portfolio import make_plan
from hyperscale.planner.graph.cluster_graph import build
from hyperscale.planner.workload.profile import profile
from tests.builders.clusters import PRODUCTS, both_ways, gpu_node, random_cluster, snapshot, training

KEY = "feedfacefeedface"
PRICED = PolicySpec(gpus=(GpuModel(PRODUCTS[0], price_per_hour=4.0), GpuModel(PRODUCTS[2], price_per_hour=0.4)))
NAMES = ["fast-1", "fast-2", "slow-1", "slow-2"]
FAST_AND_CHEAP = snapshot(
    *(gpu_node(name, free=2, product=PRODUCTS[0]) for name in NAMES[:2]),
    *(gpu_node(name, free=4, product=PRODUCTS[2]) for name in NAMES[2:]),
    links=both_ways(NAMES),
)


def look(cluster: ClusterSnapshot, policy: PolicySpec = PRICED, **asked: object) -> tuple[Plan, PlanRequest, PlanAlternatives]:
    """The plan of a job that may have 1 to 4 workers, the question, and what is offered beside it."""
    request = PlanRequest("team/gnn", training(), **asked)  # type: ignore[arg-type]
    graph = build(cluster, policy)
    plan = make_plan(request, graph, profile(request.job), policy)
    assert isinstance(plan, Plan), plan
    found = [make_plan(each, graph, profile(each.job), policy) for each in alternative_requests(request, plan, cluster, policy)]
    return plan, request, offers(request, plan, [each for each in found if isinstance(each, Plan)], cluster, KEY)


def test_cheaper_gpus_are_offered_with_what_they_cost_in_time() -> None:
    plan, _, offered = look(FAST_AND_CHEAP)
    own, *others = offered.offers
    assert (own.plan_id, own.plan, own.trades) == (plan.plan_id, None, "")
    cheap = min(others, key=lambda offer: offer.cost_per_epoch or math.inf)
    assert cheap.cost_per_epoch is not None
    assert own.cost_per_epoch is not None
    assert cheap.cost_per_epoch < own.cost_per_epoch
    assert cheap.epoch_seconds > own.epoch_seconds
    assert cheap.trades.startswith(f"Against plan {plan.plan_id}: ")
    assert "% more time" in cheap.trades
    assert "% less cost" in cheap.trades


def test_fewer_nodes_are_offered_where_they_hold_all_workers() -> None:
    names = [f"n{index}" for index in range(5)]
    nodes = [*(gpu_node(name, free=1) for name in names[:4]), gpu_node(names[4], free=4, product=PRODUCTS[1])]
    plan, _, offered = look(snapshot(*nodes, links=both_ways(names, bandwidth_bytes_per_second=1e11)))
    assert len(plan.ranks_by_node) > 1
    assert min(offer.nodes for offer in offered.offers) == 1
    safest = min(offered.offers, key=lambda offer: offer.failure_risk)
    assert safest.failure_risk < offered.offers[0].failure_risk


def test_nothing_is_offered_where_nothing_can_be_chosen() -> None:
    alone = snapshot(gpu_node("only", free=1))
    assert len(look(alone)[2].offers) == 1
    plan, request, _ = look(FAST_AND_CHEAP)
    assert alternative_requests(replace(request, workers_fixed=2), plan, FAST_AND_CHEAP, PRICED) == ()
    assert alternative_requests(replace(request, pinned={0: "fast-1"}), plan, FAST_AND_CHEAP, PRICED) == ()


def test_an_answer_that_the_checker_refuses_is_not_offered() -> None:
    plan, request, offered = look(FAST_AND_CHEAP)
    good = offered.offers[1].plan
    assert good is not None
    away = replace(good, workers=tuple(replace(worker, node="gone") for worker in good.workers), ranks_by_node={"gone": good.ranks})
    assert len(offers(request, plan, [away], FAST_AND_CHEAP, KEY).offers) == 1
    too_many = replace(request, job=training(workers={"minReplicas": 1, "maxReplicas": max(1, len(good.workers) - 1)}))
    assert len(offers(too_many, plan, [good], FAST_AND_CHEAP, KEY).offers) == 1
    assert len(offers(request, plan, [plan], FAST_AND_CHEAP, KEY).offers) == 1


@settings(max_examples=12, deadline=None)
@given(seed=st.integers(0, 10**6), nodes=st.integers(2, 7))
def test_every_offer_is_a_sound_plan_that_gains_something(seed: int, nodes: int) -> None:
    cluster = random_cluster(seed, nodes, free_max=3)
    plan, request, offered = look(cluster)
    assert len(alternative_requests(request, plan, cluster, PRICED)) <= MAX_QUESTIONS
    assert 1 <= len(offered.offers) <= MAX_OFFERS
    own = offered.offers[0]
    for offer in offered.offers[1:]:
        assert offer.plan is not None
        assert violations(offer.plan, request, cluster) == ()
        assert min(ratios(offer, own)) <= 1.0 - MIN_GAIN_RATIO
        assert is_plan_id(offer.plan_id)
        assert offer.plan_id == offer.plan.plan_id != plan.plan_id
    assert msgspec.json.encode(look(cluster)[2]) == msgspec.json.encode(offered), "the same question gives the same bytes"


def test_the_order_of_answers_does_not_matter() -> None:
    plan, request, _ = look(FAST_AND_CHEAP)
    graph = build(FAST_AND_CHEAP, PRICED)
    asked = alternative_requests(request, plan, FAST_AND_CHEAP, PRICED)
    answers = [one for each in asked if isinstance(one := make_plan(each, graph, profile(each.job), PRICED), Plan)]
    assert offers(request, plan, answers, FAST_AND_CHEAP, KEY) == offers(request, plan, answers[::-1], FAST_AND_CHEAP, KEY)


def test_the_risk_is_that_of_nodes_times_time() -> None:
    plan, _, _ = look(FAST_AND_CHEAP)
    one_day = replace(plan, predicted=replace(plan.predicted, epoch_seconds=86400.0), ranks_by_node={"a": 1, "b": 1})
    assert failure_risk(one_day, 1) == pytest.approx(-math.expm1(-2 * 6.5e-3), rel=1e-8)
    assert failure_risk(one_day, 10**6) <= 1.0


def test_the_plan_that_was_in_force_stays_on_offer_when_another_is_preferred() -> None:
    plan, _, offered = look(FAST_AND_CHEAP)
    other = offered.offers[1].plan
    assert other is not None
    after = offered.in_force(other, plan)
    assert [offer.plan_id for offer in after.offers] == [offer.plan_id for offer in offered.offers]
    kept, now = after.offer(plan.plan_id), after.offer(other.plan_id)
    assert kept is not None
    assert kept.plan is not None
    assert kept.plan.workers == plan.workers
    assert now is not None
    assert now.plan is None
    assert after.in_force(kept.plan, other).offer(other.plan_id) == offered.offers[1]
    assert offer_of(kept.plan, 100).epoch_seconds == kept.epoch_seconds


@pytest.mark.parametrize("text", ["", "0123", "0123456789ABCDEF", "0123456789abcde\n", "../../../../etc/p", "é" * 16])
def test_what_is_no_plan_id_is_recognised(text: str) -> None:
    assert not is_plan_id(text)
    assert is_plan_id("0123456789abcdef")
