"""The compiled kernel, its numpy twin and the reference objective say the same."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hyperscale.model.graph import IntArray
from hyperscale.model.planning import PlanRequest
from hyperscale.planner.cost.objective import Costs, predict
from hyperscale.planner.graph.cluster_graph import build
from hyperscale.planner.problem.placement_problem import pose
from hyperscale.planner.search.kernels import kernel, kernel_numpy
from hyperscale.planner.search.local_search_batch import replacement_estimates
from hyperscale.planner.workload.profile import profile
from tests.builders.clusters import POLICY, random_cluster, training

pytestmark = pytest.mark.skipif(not kernel.COMPILED, reason="the compiled kernel is not built here")

MODELS = (
    {"architecture": "GraphSAGE", "layers": 3, "hiddenSize": 256},
    {"architecture": "GCN", "layers": 2, "hiddenSize": 64, "batchSize": 1024, "fanouts": [10, 5]},
    {"architecture": "Custom", "parameters": 1_000_000},
)
CASES = st.tuples(st.integers(0, 10_000), st.integers(2, 16), st.sampled_from(["Capacity", "Equal"]), st.sampled_from([0.0, 0.1]))


def case(drawn: tuple[int, int, str, float]) -> tuple[Costs, IntArray, int, np.random.Generator]:
    """Costs, slots with a few nodes that take no worker, a worker count that fits, and a generator.

    Every second case has several GPUs a worker, and nodes whose inside is anything from slower than their network to much faster. Two of
    three have nodes with several cards, and two of five have domains with limited uplinks, some nodes in none. Two of three have switches
    that add up on some nodes, not all alike.
    """
    seed, nodes, balance, unreachable = drawn
    rng = np.random.default_rng(seed)
    gpus = (1, 2, 1, 8)[seed % 4]
    job = training(
        model=MODELS[seed % len(MODELS)],
        partitioning={"balance": balance},
        workers={"maxReplicas": 4, "resources": {"limits": {"nvidia.com/gpu": gpus}}},
    )
    graph = build(random_cluster(seed, nodes, unreachable=unreachable, gpus=gpus), POLICY)
    costs = pose(PlanRequest(job_key="a/b", job=job), graph, profile(job), POLICY).costs(np.arange(nodes))
    slots = rng.integers(0, 4, nodes)
    slots[0] += 1
    inside = replace(costs, latency_seconds=costs.latency_seconds.copy(), seconds_per_byte=costs.seconds_per_byte.copy())
    np.fill_diagonal(inside.latency_seconds, rng.choice([1e-6, 5e-6, 1e-3], nodes))
    np.fill_diagonal(inside.seconds_per_byte, rng.choice([1 / 450e9, 1 / 25e9, 1 / 6e9, 1 / 5e7], nodes))
    if seed % 3:
        inside = replace(inside, rails=rng.choice([1, 2, 3, 8], nodes))
    if seed % 5 in (1, 3):
        levels = 1 + seed % 2
        uplinks = rng.choice([0.0, 1 / 1e9, 1 / 1e8, 1 / 1e7], (levels, 4))
        inside = replace(inside, uplink_domains=rng.integers(-1, 4, (levels, nodes)), uplink_seconds_per_byte=uplinks)
    if seed % 3 != 1:
        inside = replace(inside, sharp_efficiency=rng.choice([0.0, 0.74, 0.85], nodes))
    return inside, slots, int(rng.integers(1, min(9, slots.sum()) + 1)), rng


def drawn_orders(slots: IntArray, workers: int, rng: np.random.Generator, count: int = 5) -> IntArray:
    every = np.repeat(np.arange(len(slots)), slots)
    return np.array([rng.permutation(every)[:workers] for _ in range(count)])


@settings(max_examples=40, deadline=None)
@given(CASES)
def test_objectives_and_moves_agree_with_the_reference(drawn: tuple[int, int, str, float]) -> None:
    costs, slots, workers, rng = case(drawn)
    assert kernel.kernel_for(costs, slots, workers) is not None
    orders = drawn_orders(slots, workers, rng)
    expected = [predict(costs, order).objective for order in orders]
    np.testing.assert_allclose(kernel.objectives(costs, orders), expected, rtol=1e-9)
    position = int(rng.integers(workers))
    moves = np.repeat(orders[:1], len(slots), axis=0)
    moves[:, position] = np.arange(len(slots))
    recomputed = [predict(costs, order).objective for order in moves]
    np.testing.assert_allclose(replacement_estimates(costs, orders[0], position), recomputed, rtol=1e-9)


@settings(max_examples=40, deadline=None)
@given(CASES)
def test_greedy_and_its_seeds_agree_with_the_twin(drawn: tuple[int, int, str, float]) -> None:
    costs, slots, workers, _ = case(drawn)
    seeds = np.flatnonzero(slots > 0)
    ours, theirs = kernel.greedy_all(costs, slots, workers), kernel_numpy.greedy_all(costs, slots, workers, seeds, kernel.NO_START)
    assert ours.shape == theirs.shape
    ranking, expected = kernel.seed_ranking(costs, slots, workers), kernel_numpy.seed_ranking(costs, slots, workers)
    assert sorted(ranking) == sorted(expected) == list(seeds)
    # Sums of another order may decide a tie otherwise.
    same = (ours == theirs).all(axis=1)
    assert not len(same) or same.mean() > 0.5


@settings(max_examples=40, deadline=None)
@given(CASES)
def test_local_search_never_loses_and_leaves_no_better_replacement(drawn: tuple[int, int, str, float]) -> None:
    costs, slots, workers, rng = case(drawn)
    orders = drawn_orders(slots, workers, rng, 3)
    fixed = rng.random(workers) < 0.2
    spare = slots + np.bincount(orders[0][fixed], minlength=len(slots))
    found, seconds = kernel.local_search(costs, spare, orders[:1], fixed, 50)
    np.testing.assert_allclose(seconds, [predict(costs, order).objective for order in found], rtol=1e-9)
    assert not seconds[0] > kernel.objectives(costs, orders[:1])[0] * (1 + 1e-9)
    assert (found[0][fixed] == orders[0][fixed]).all()
    used = np.bincount(found[0][~fixed], minlength=len(slots))
    assert (used <= spare).all()
    for position in np.flatnonzero(~fixed):
        room = used - (np.arange(len(slots)) == found[0][position]) < spare
        best = replacement_estimates(costs, found[0], int(position))[room].min(initial=np.inf)
        assert not best < seconds[0] * (1 - 1e-6) or not np.isfinite(seconds[0])


@settings(max_examples=20, deadline=None)
@given(CASES)
def test_names_of_nodes_do_not_matter_to_what_a_placement_costs(drawn: tuple[int, int, str, float]) -> None:
    costs, slots, workers, rng = case(drawn)
    renamed = rng.permutation(len(slots))
    back = np.argsort(renamed)
    orders = drawn_orders(slots, workers, rng)
    np.testing.assert_allclose(kernel.objectives(costs.subset(renamed), back[orders]), kernel.objectives(costs, orders), rtol=1e-12)
