"""Plans that differ by no more than the tolerance: the cheaper count wins, then the node that is left with the fewest idle GPUs."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from hyperscale.model.api.policy import GpuModel, PolicySpec
from hyperscale.model.cluster import Node
from tests.builders.clusters import both_ways, gpu_node, planned, snapshot, training

SMALL = {
    "model": {"architecture": "GCN", "layers": 2, "hiddenSize": 16},
    "dataset": {"source": {"builtin": {"name": "Cora"}}, "vertices": 2708, "edges": 10556, "featureSize": 1433, "classes": 7},
}
EXACT = PolicySpec(tolerance_percent=0)


def partly_free(name: str, free: int, load: float = 0.0) -> Node:
    return gpu_node(name, free=free, load=load, allocatable_gpus=8, requested_gpus=8 - free)


def test_a_job_of_one_gpu_takes_the_node_that_has_exactly_one_left() -> None:
    seen = snapshot(partly_free("a-empty", 8), partly_free("b-half", 4), partly_free("c-last", 1))
    job = training(**SMALL, workers={"minReplicas": 1, "maxReplicas": 1})
    plan = planned(seen, job)
    assert plan.ranks_by_node == {"c-last": 1}
    assert plan.optimality_gap == 0.0


def test_workers_of_one_node_move_together_to_the_node_that_they_fill() -> None:
    names = ["a-empty", "b-empty", "c-four"]
    seen = snapshot(partly_free(names[0], 8), partly_free(names[1], 8), partly_free(names[2], 4), links=both_ways(names))
    assert planned(seen, training(workers={"minReplicas": 4, "maxReplicas": 4})).ranks_by_node == {"c-four": 4}


@pytest.mark.parametrize(("load", "chosen"), [(0.01, "b-last"), (0.03, "a-empty")], ids=["within", "beyond"])
def test_a_better_fit_may_cost_no_more_than_the_tolerance(load: float, chosen: str) -> None:
    seen = snapshot(partly_free("a-empty", 8), partly_free("b-last", 1, load=load))
    job = training(workers={"minReplicas": 1, "maxReplicas": 1})
    plan = planned(seen, job, PolicySpec(tolerance_percent=2))
    assert plan.ranks_by_node == {chosen: 1}
    least = planned(seen, job, EXACT).objective
    assert plan.objective <= least * 1.02 * (1 + 1e-9)
    if chosen == "b-last":
        assert plan.reasons[-1].startswith("Proven optimal within 2 % by the cost model: ")
        assert plan.reasons[-2].startswith("Plans within 2 % are equal: ")
        assert plan.optimality_gap == pytest.approx(plan.objective / least - 1.0, rel=1e-3)
    else:
        assert plan.reasons[-1].startswith("Proven optimal by the cost model: ")


def test_among_counts_that_differ_less_than_the_tolerance_the_cheaper_wins() -> None:
    names = [f"n{at}" for at in range(6)]
    seen = snapshot(*(gpu_node(name) for name in names), links=both_ways(names, latency_seconds=1e-5, bandwidth_bytes_per_second=1e10))
    job = training(workers={"minReplicas": 1, "maxReplicas": 6})
    by_count = {}
    for count in range(1, 7):
        by_count[count] = planned(seen, training(workers={"minReplicas": count, "maxReplicas": count}), EXACT).objective
    least = min(by_count.values())
    best = min(by_count, key=lambda count: by_count[count])
    assert len(planned(seen, job, EXACT).workers) == best
    for percent in (1, 10, 50):
        cheapest = min(count for count, objective in by_count.items() if objective <= least * (1 + percent / 100))
        assert len(planned(seen, job, PolicySpec(tolerance_percent=percent)).workers) == cheapest
    assert cheapest < best


def test_prices_count_where_the_policy_has_them() -> None:
    names = ["a-dear", "b-cheap"]
    seen = snapshot(gpu_node(names[0], product="NVIDIA-A100-SXM4-80GB"), gpu_node(names[1], product="NVIDIA-A100-PCIE-40GB"))
    same = [
        GpuModel(product="NVIDIA-A100-SXM4-80GB", gigaflops=13_000, price_per_hour=4.0),
        GpuModel(product="NVIDIA-A100-PCIE-40GB", gigaflops=13_000, price_per_hour=2.0),
    ]
    plan = planned(seen, training(**SMALL, workers={"minReplicas": 1, "maxReplicas": 1}), PolicySpec(gpus=tuple(same)))
    assert plan.ranks_by_node == {"b-cheap": 1}


ALONE = PolicySpec(
    tolerance_percent=5,
    gpus=(
        GpuModel(product="NVIDIA-A10", gigaflops=130, intra_node_bytes_per_second=10_000_000_000, intra_node_latency_nanoseconds=10_000),
    ),
)
"""GPUs so slow that communication hardly counts: few ranks a node are faster by less than the tolerance."""


@pytest.mark.parametrize(
    ("free", "workers", "chosen"),
    [
        ([(8, 8)] * 4 + [(4, 8)], 4, {"n4": 4}),
        ([(8, 8)] * 4 + [(5, 8), (3, 8)], 8, {"n4": 5, "n5": 3}),
        ([(2, 4)] * 4 + [(4, 4)] * 4, 8, {"n0": 2, "n1": 2, "n2": 2, "n3": 2}),
        ([(8, 8)] * 6, 8, {"n0": 8}),
    ],
    ids=["one node is filled", "two begun nodes are filled", "begun nodes go before free ones", "seven of eight nodes stay free"],
)
def test_equal_plans_fill_begun_nodes_and_leave_whole_nodes_free(free: list[tuple[int, int]], workers: int, chosen: dict[str, int]) -> None:
    names = [f"n{at}" for at in range(len(free))]
    nodes = [
        gpu_node(name, free=left, allocatable_gpus=whole, requested_gpus=whole - left, product="NVIDIA-A10")
        for name, (left, whole) in zip(names, free, strict=True)
    ]
    seen = snapshot(*nodes, links=both_ways(names, latency_seconds=1e-6, bandwidth_bytes_per_second=4e10))
    job = training(model={"architecture": "Custom", "parameters": 1000}, workers={"minReplicas": workers, "maxReplicas": workers})
    fastest = planned(seen, job, msgspec.structs.replace(ALONE, tolerance_percent=0))
    assert len(fastest.ranks_by_node) > len(chosen)
    plan = planned(seen, job, ALONE)
    assert plan.ranks_by_node == chosen
    assert plan.objective <= fastest.objective * 1.05 * (1 + 1e-9)


@settings(max_examples=15, deadline=None)
@given(
    rooms=st.lists(st.tuples(st.integers(1, 8), st.integers(0, 4)), min_size=2, max_size=8),
    workers=st.integers(1, 10),
    percent=st.sampled_from([1.0, 5.0, 50.0]),
)
def test_no_equal_plan_leaves_more_gpus_idle_than_the_fastest(rooms: list[tuple[int, int]], workers: int, percent: float) -> None:
    names = [f"n{at}" for at in range(len(rooms))]
    left = {name: free for name, (free, _) in zip(names, rooms, strict=True)}
    assume(sum(left.values()) >= workers)
    nodes = [
        gpu_node(name, free=free, allocatable_gpus=free + held, requested_gpus=held, product="NVIDIA-A10")
        for name, (free, held) in zip(names, rooms, strict=True)
    ]
    seen = snapshot(*nodes, links=both_ways(names, latency_seconds=1e-6, bandwidth_bytes_per_second=4e10))
    job = training(model={"architecture": "Custom", "parameters": 1000}, workers={"minReplicas": workers, "maxReplicas": workers})
    fastest, plan = (planned(seen, job, msgspec.structs.replace(ALONE, tolerance_percent=each)) for each in (0, percent))
    assert plan.objective <= fastest.objective * (1 + percent / 100) * (1 + 1e-9)
    assert all(count <= left[name] for name, count in plan.ranks_by_node.items())
    assert sum(left[name] for name in plan.ranks_by_node) <= sum(left[name] for name in fastest.ranks_by_node)


@pytest.mark.parametrize("percent", [1, 5])
def test_a_fuller_layout_is_never_dearer_than_what_it_replaces(percent: int) -> None:
    inside = {"intra_node_bytes_per_second": 10_000_000_000, "intra_node_latency_nanoseconds": 10_000}
    cheap = GpuModel(product="NVIDIA-A10", gigaflops=130, price_per_hour=1.0, **inside)
    dear = GpuModel(product="NVIDIA-A30", gigaflops=130, price_per_hour=4.0, **inside)
    rooms = [("x1", 3, "NVIDIA-A10"), ("y1", 4, "NVIDIA-A30")]
    nodes = [gpu_node(name, free=free, allocatable_gpus=8, requested_gpus=8 - free, product=product) for name, free, product in rooms]
    seen = snapshot(*nodes, links=both_ways(["x1", "y1"], latency_seconds=1e-6, bandwidth_bytes_per_second=4e10))
    job = training(model={"architecture": "Custom", "parameters": 1000}, workers={"minReplicas": 4, "maxReplicas": 4})
    price = {"x1": 1.0, "y1": 4.0}
    exact, equal = (planned(seen, job, PolicySpec(tolerance_percent=each, gpus=(cheap, dear))) for each in (0, percent))
    exact_price, equal_price = (sum(price[worker.node] for worker in plan.workers) for plan in (exact, equal))
    assert equal_price <= exact_price
