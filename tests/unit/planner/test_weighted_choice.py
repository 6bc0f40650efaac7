"""Weights of people choose among plans that are equal within the tolerance, and never a worse one."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from hyperscale.evaluate.preferences.alternatives import Alternative
from hyperscale.evaluate.preferences.revealed_weights import best_alternative
from hyperscale.model.api.policy import GpuModel, PolicySpec
from hyperscale.model.api.preference_policy import PreferenceMode, PreferencePolicy
from hyperscale.model.offers.plan_offers import PlanAlternative
from hyperscale.planner.check.artifact import to_json
from hyperscale.planner.choice.alternative_plans import offer_of, rated_best
from hyperscale.planner.choice.node_risk import node_failure_risk
from hyperscale.planner.choice.ties import burden
from hyperscale.planner.search.search_result import Candidate
from tests.builders.clusters import PRODUCTS, both_ways, gpu_node, planned, random_cluster, snapshot, training

PRICES = tuple(GpuModel(product, price_per_hour=price) for product, price in zip(PRODUCTS, (2.0, 1.0, 0.4, 4.0), strict=True))


def policy(tolerance_percent: int, seed: int = 0) -> PolicySpec:
    preferences = PreferencePolicy(PreferenceMode.APPLY, tolerance_percent)
    return PolicySpec(gpus=PRICES, preferences=preferences, seed=seed)


TIME, COST, RISK = (0.9, 0.05, 0.05), (0.05, 0.9, 0.05), (0.05, 0.05, 0.9)
NAMES = ["a100", "h100"]
TWO_KINDS = snapshot(
    gpu_node("a100", free=1, product=PRODUCTS[0], load=0.0),
    gpu_node("h100", free=1, product=PRODUCTS[3], load=0.44),
    links=both_ways(NAMES),
)
"""The H100, busy with others, is 10 % faster than the A100 and twice as dear."""
ALONE = training(model={"architecture": "GCN", "hiddenSize": 64}, workers={"minReplicas": 1, "maxReplicas": 1})


def test_time_and_cost_choose_different_nodes_within_the_tolerance() -> None:
    fast = planned(TWO_KINDS, ALONE, policy(50), weights=TIME)
    cheap = planned(TWO_KINDS, ALONE, policy(50), weights=COST)
    assert [worker.node for worker in fast.workers] == ["h100"]
    assert [worker.node for worker in cheap.workers] == ["a100"]
    assert any("the namespace's preferences (time 0.05, cost 0.9, risk 0.05)" in sentence for sentence in cheap.reasons)


def test_beyond_the_tolerance_weights_change_nothing() -> None:
    assert [worker.node for worker in planned(TWO_KINDS, ALONE, policy(2), weights=COST).workers] == ["h100"]


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10**6), weights=st.sampled_from([TIME, COST, RISK]), tolerance_percent=st.sampled_from([0, 5, 20]))
def test_the_plan_is_never_worse_than_the_tolerance_allows(seed: int, weights: tuple[float, float, float], tolerance_percent: int) -> None:
    cluster = random_cluster(seed, 5, free_max=3)
    best = planned(cluster, policy=replace(policy(tolerance_percent), tolerance_percent=0))
    chosen = planned(cluster, policy=policy(tolerance_percent), weights=weights)
    assert chosen.objective <= best.objective * (1.0 + max(1, tolerance_percent) / 100.0) * (1.0 + 1e-6)
    assert to_json(planned(cluster, policy=policy(tolerance_percent), weights=weights)) == to_json(chosen)


@settings(max_examples=5, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_without_weights_the_policy_changes_no_byte(seed: int) -> None:
    cluster = random_cluster(seed, 4)
    assert to_json(planned(cluster, policy=policy(50))) == to_json(planned(cluster, policy=PolicySpec(gpus=PRICES)))


@pytest.mark.parametrize(("weights", "best"), [(TIME, "h100"), (COST, "a100")])
def test_the_alternative_is_named_that_weights_rate_best(weights: tuple[float, float, float], best: str) -> None:
    offered = [offer_of(planned(TWO_KINDS, ALONE, policy(50), weights=each), 100) for each in (TIME, COST)]
    nodes = {offered[0].plan_id: "h100", offered[1].plan_id: "a100"}
    assert nodes[rated_best(offered, weights)] == best


EPOCHS = st.floats(1.0, 1e6)


@given(
    figures=st.lists(st.tuples(EPOCHS, st.floats(0.1, 100.0), st.floats(0.0, 0.2)), min_size=2, max_size=3),
    weights=st.sampled_from([TIME, COST, RISK]),
)
def test_the_recommended_plan_is_the_one_that_learning_calls_best(
    figures: list[tuple[float, float, float]], weights: tuple[float, float, float]
) -> None:
    offered = [PlanAlternative(str(at), 1, 1, 1, time, risk, cost) for at, (time, cost, risk) in enumerate(figures)]
    alternatives = [Alternative(*each) for each in figures]
    ours, theirs = (alternatives[at] for at in (int(rated_best(offered, weights)), best_alternative(alternatives, weights)))

    def weight(one: Alternative) -> float:
        logarithms = math.log(one.time_seconds), math.log(one.cost), math.log(max(one.risk, 0.01))
        return math.fsum(each * figure for each, figure in zip(weights, logarithms, strict=True))

    assert weight(ours) == pytest.approx(weight(theirs), abs=1e-8)


def test_risks_below_one_per_cent_do_not_outweigh_cost() -> None:
    """2e-7 against 6e-7 is three times as much, and nothing that anyone can tell apart."""
    cheap, safe = PlanAlternative("cheap", 1, 3, 1, 10.0, 6e-7, 1.0), PlanAlternative("safe", 1, 1, 1, 10.0, 2e-7, 1.5)
    assert rated_best([safe, cheap], RISK) == "cheap"
    three, one = Candidate(10.0, 3, ("a", "b", "c"), (0, 1, 2)), Candidate(10.0, 3, ("a", "a", "a"), (0, 0, 0))
    assert burden(RISK, three, 1.0, 10) < burden(RISK, one, 1.5, 10)
    assert burden(RISK, three, 1.0, 10**5) > burden(RISK, one, 1.5, 10**5), "long runs do differ in risk"
    assert node_failure_risk(1, 10.0 * 10**5) > 0.01
