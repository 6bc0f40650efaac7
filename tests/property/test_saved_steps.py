"""What planning saves itself changes no figure: kept kernels, rings of single nodes, tables of links, checks that no node can fail."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hyperscale.model import graph as graph_module
from hyperscale.model.planning import PlanRequest
from hyperscale.planner.cost.objective import ring_costs, volumes
from hyperscale.planner.graph.cluster_graph import build
from hyperscale.planner.graph.completion_models import _rising
from hyperscale.planner.problem.node_checks import EARLY_CHECKS, LATE_CHECKS, asked
from hyperscale.planner.problem.worker_demand import demand_of
from hyperscale.planner.search.kernels import kernel
from hyperscale.planner.search.local_search_batch import ring_with_each
from tests.builders.clusters import POLICY, gpu_node, link, snapshot, training
from tests.property.test_kernel_agreement import CASES, case, drawn_orders


@settings(max_examples=80, deadline=None)
@given(CASES)
def test_a_ring_with_each_candidate_has_the_bits_of_that_ring(drawn: tuple[int, int, str, float]) -> None:
    costs, slots, workers, rng = case(drawn)
    orders, volume = drawn_orders(slots, workers, rng), volumes(costs, workers)
    orders[0] = rng.permutation(np.resize(rng.permutation(len(slots)), workers))
    positions = rng.integers(0, workers, len(orders))
    joined = np.repeat(orders[:, None, :], len(slots), axis=1)
    for row, position in enumerate(positions):
        joined[row, :, position] = np.arange(len(slots))
    expected = ring_costs(costs, joined.reshape(-1, workers), volume).reshape(len(orders), len(slots))
    assert ring_with_each(costs, orders, positions, volume).tobytes() == expected.tobytes()


@pytest.mark.skipif(not kernel.COMPILED, reason="the compiled kernel is not built here")
@settings(max_examples=30, deadline=None)
@given(CASES)
def test_a_kernel_that_served_other_searches_answers_as_a_new_one(drawn: tuple[int, int, str, float]) -> None:
    costs, slots, workers, rng = case(drawn)
    orders = drawn_orders(slots, workers, rng)
    kernel.local_search(costs, slots, orders)
    kernel.greedy_all(costs, slots, workers)
    kept, new = kernel.kernel_for(costs, slots, workers), kernel.own_kernel(costs, slots, workers)
    assert kept is kernel.kernel_for(costs, slots.copy(), workers)
    assert kept is not None
    assert new is not None
    answers = []
    for each in (kept, new):
        rows, seconds = orders.astype(np.int32), np.empty(len(orders))
        each.local_search(rows, np.zeros(workers, dtype=np.uint8), kernel.SWEEPS, seconds)
        answers.append((rows.tobytes(), seconds.tobytes()))
    assert answers[0] == answers[1]


def test_costs_keep_few_kernels() -> None:
    costs, slots, _, _ = case((1, 6, "Equal", 0.0))
    for workers in range(1, 4 * kernel.KEPT_KERNELS):
        kernel.kernel_for(costs, slots, workers)
        assert len(costs.compiled) <= kernel.KEPT_KERNELS + 1


@settings(max_examples=40, deadline=None)
@given(st.lists(st.one_of(st.integers(0, 5), st.integers(0, 1 << 40)), min_size=1, max_size=60))
def test_keys_of_any_size_are_put_in_their_stable_order(keys: list[int]) -> None:
    numbers = np.array(keys, dtype=np.int64)
    assert _rising(numbers).tolist() == np.argsort(numbers, kind="stable").tolist()


@pytest.mark.parametrize("seed", range(4))
def test_links_have_the_same_figures_by_table_and_by_bisection(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(seed)
    names = [f"n{at}" for at in range(8)]
    links = [
        link(a, b, *rng.choice([(1e-4, 1e9), (2e-3, 1e8), (1e-3, 0.0)]).tolist()) for a, b in permutations(names, 2) if rng.random() < 0.6
    ]
    # Listed again, which no source should do: the first of both counts.
    links += links[:3]
    cluster = snapshot(*map(gpu_node, names), links=tuple(links))
    by_table = build(cluster, POLICY).link_costs(np.arange(8))
    monkeypatch.setattr(graph_module, "MAX_TABLE_NODES", 0)
    by_bisection = build(cluster, POLICY).link_costs(np.arange(8))
    for figure in ("latency_seconds", "bandwidth_bytes_per_second", "measured"):
        np.testing.assert_array_equal(getattr(by_table, figure), getattr(by_bisection, figure))


def test_no_node_fails_a_check_that_a_job_does_not_ask_for() -> None:
    nodes = [
        gpu_node("bare", labels={}, gpu_memory_bytes=None, product=None, load=None),
        gpu_node("full", allocatable_cpu_cores=1.0, requested_cpu_cores=2.0, allocatable_memory_bytes=1, requested_memory_bytes=9),
        gpu_node("empty", allocatable={"pods": 0.0}),
    ]
    demands = [demand_of(PlanRequest(job_key="a/b", job=training()))]
    demands.append(demands[0]._replace(further=(), gpu_memory_bytes=0))
    demands.append(
        demands[0]._replace(cpu_cores=4.0, memory_bytes=8, labels=(("a", "b"),), products=frozenset({"T4"}), required_key="zone")
    )
    for demand in demands:
        for checks in (EARLY_CHECKS, LATE_CHECKS):
            for check in set(checks) - set(asked(demand, checks)):
                assert [check(node, demand) for node in nodes] == [None] * len(nodes)
    assert len(asked(demands[1], LATE_CHECKS)) < len(asked(demands[2], LATE_CHECKS))
