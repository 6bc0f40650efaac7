"""Weights of people choose among plans that are equal within the tolerance, and never a worse one."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from hyperscale.model.api.policy import GpuModel, PolicySpec
from hyperscale.model.api.preference_policy import PreferenceMode, PreferencePolicy
from hyperscale.planner.check.artifact import to_json
from hyperscale.planner.choice.alternative_plans import offer_of, rated_best
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
