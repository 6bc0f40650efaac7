"""What the planner prefers, one fact at a time."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hyperscale.model.api.policy import PolicySpec
from hyperscale.model.cluster import AbsentLink, Gpu, Node
from hyperscale.planner.graph.cluster_graph import build
from hyperscale.planner.problem.figures import figures_of
from tests.builders.clusters import (
    PRODUCTS,
    both_ways,
    gpu_node,
    link,
    measured,
    planned,
    random_cluster,
    snapshot,
    training,
)

PAIR = {"workers": {"minReplicas": 2, "maxReplicas": 2}}


def nodes_of(plan: object) -> set[str]:
    return {worker.node for worker in plan.workers}  # type: ignore[attr-defined] # Plan or Infeasible, the caller knows


def test_equal_nodes_are_taken_in_name_order() -> None:
    plan = planned(snapshot(*(gpu_node(f"n{index}") for index in range(5))), training(**PAIR))
    assert [worker.node for worker in plan.workers] == ["n0", "n1"]


def test_a_loaded_node_is_left_for_an_idle_equal_one() -> None:
    plan = planned(snapshot(gpu_node("n0", load=0.9), gpu_node("n1"), gpu_node("n2")), training(**PAIR))
    assert nodes_of(plan) == {"n1", "n2"}


def test_load_on_the_planned_nodes_moves_the_next_plan_elsewhere() -> None:
    idle = snapshot(*(gpu_node(f"n{index}") for index in range(4)))
    first = nodes_of(planned(idle, training(**PAIR)))
    loaded = snapshot(*(gpu_node(f"n{index}", load=0.95 if f"n{index}" in first else 0.0) for index in range(4)))
    assert not first & nodes_of(planned(loaded, training(**PAIR)))


def test_a_link_made_ten_times_slower_is_avoided() -> None:
    names = [f"n{index}" for index in range(4)]
    members = [gpu_node(name) for name in names]
    chosen = nodes_of(planned(snapshot(*members, links=both_ways(names)), training(**PAIR)))
    slow = tuple(
        link(entry.source, entry.destination, 1e-3, 1e8) if {entry.source, entry.destination} == chosen else entry
        for entry in both_ways(names)
    )
    assert nodes_of(planned(snapshot(*members, links=slow), training(**PAIR))) != chosen


def test_one_slow_direction_is_enough_to_avoid_a_link() -> None:
    names = ["n0", "n1", "n2"]
    links = tuple(link("n0", "n1", 1e-4, 1e7) if (entry.source, entry.destination) == ("n0", "n1") else entry for entry in both_ways(names))
    plan = planned(snapshot(*(gpu_node(name) for name in names), links=links), training(**PAIR))
    assert nodes_of(plan) != {"n0", "n1"}


def test_without_measured_links_workers_stay_inside_one_zone() -> None:
    members = [gpu_node("n0", domain="eu/a"), gpu_node("n1", domain="us/a"), gpu_node("n2", domain="ap/a"), gpu_node("n3", domain="us/a")]
    plan = planned(snapshot(*members), training(**PAIR))
    assert nodes_of(plan) == {"n1", "n3"}
    assert "LinksEstimatedFromLabels" in plan.fallbacks


def test_two_workers_share_a_machine_that_has_the_gpus() -> None:
    plan = planned(snapshot(gpu_node("n0"), gpu_node("n1", free=2), gpu_node("n2")), training(**PAIR))
    assert plan.gpus_by_node() == {"n1": 2}


def test_a_faster_gpu_is_preferred_and_gets_the_larger_share() -> None:
    members = [gpu_node("n0", product="Tesla-T4"), gpu_node("n1", product=PRODUCTS[0]), gpu_node("n2", product=PRODUCTS[3])]
    plan = planned(snapshot(*members), training(**PAIR))
    shares = {worker.node: worker.share for worker in plan.workers}
    assert shares.keys() == {"n1", "n2"}
    assert shares["n2"] > shares["n1"]


def test_equal_balance_gives_equal_shares() -> None:
    members = [gpu_node("n0", product="Tesla-T4"), gpu_node("n1")]
    plan = planned(snapshot(*members), training(**PAIR, partitioning={"balance": "Equal"}))
    assert [worker.share for worker in plan.workers] == [0.5, 0.5]


def test_a_gpu_with_a_hardware_error_is_avoided_and_named() -> None:
    broken = gpu_node("n0", gpus=(Gpu(uuid="GPU-0", utilization_ratio=measured(0.0), last_xid=measured(79.0)),))
    harmless = gpu_node("n1", gpus=(Gpu(uuid="GPU-1", utilization_ratio=measured(0.0), last_xid=measured(31.0)),))
    plan = planned(snapshot(broken, harmless, gpu_node("n2")), training(**PAIR))
    assert nodes_of(plan) == {"n1", "n2"}
    assert [(entry.node, entry.reason) for entry in plan.rejected] == [("n0", "GPUFault")]


@pytest.mark.parametrize("xid", [46, 48, 62, 63, 64, 74, 79, 92, 94, 95, 110, 119, 120, 136, 140, 143, 149, 150, 151, 154, 156, 158])
def test_a_gpu_whose_last_xid_asks_for_a_reset_is_avoided(xid: int) -> None:
    broken = gpu_node("n0", gpus=(Gpu(uuid="GPU-0", utilization_ratio=measured(0.0), last_xid=measured(float(xid))),))
    plan = planned(snapshot(broken, gpu_node("n1"), gpu_node("n2")), training(**PAIR))
    assert [(entry.node, entry.message) for entry in plan.rejected] == [("n0", f"GPU GPU-0 reported XID {xid}")]


@pytest.mark.parametrize("xid", [0, 13, 31, 43, 45, 69, 109, 121, 137, 144, 155])
def test_a_gpu_whose_last_xid_says_nothing_of_the_hardware_is_planned(xid: int) -> None:
    sound = gpu_node("n0", gpus=(Gpu(uuid="GPU-0", utilization_ratio=measured(0.0), last_xid=measured(float(xid))),))
    assert nodes_of(planned(snapshot(sound, gpu_node("n1")), training(**PAIR))) == {"n0", "n1"}


def test_gpus_held_by_other_pods_do_not_make_the_free_ones_look_busy() -> None:
    half = gpu_node(
        "n0",
        allocatable_gpus=4,
        requested_gpus=2,
        gpus=tuple(Gpu(uuid=f"GPU-{index}", utilization_ratio=measured(1.0 if index < 2 else 0.0)) for index in range(4)),
    )
    plan = planned(snapshot(half, gpu_node("n1", free=2, load=0.3)), training(**PAIR))
    assert nodes_of(plan) == {"n0"}


def loaded(name: str, *loads: float, free: int = 0, **fields: Any) -> Node:
    """A node with a GPU of each load, and as many free ones."""
    gpus = tuple(Gpu(uuid=f"GPU-{name}-{index}", utilization_ratio=measured(load)) for index, load in enumerate(loads))
    return gpu_node(name, free=free or len(loads), gpus=gpus, **fields)


def test_a_worker_is_as_fast_as_the_slowest_of_its_gpus() -> None:
    job = training(workers={"minReplicas": 1, "maxReplicas": 1, "resources": {"limits": {"nvidia.com/gpu": 4}}})
    plan = planned(snapshot(loaded("hot", 0.0, 0.0, 0.0, 0.9), loaded("even", 0.3, 0.3, 0.3, 0.3)), job)
    assert nodes_of(plan) == {"even"}
    assert "30% in use" in plan.reasons[1]


def test_a_worker_gets_the_gpus_that_no_pod_keeps_busy() -> None:
    job = training(workers={"minReplicas": 1, "maxReplicas": 1, "resources": {"limits": {"nvidia.com/gpu": 4}}})
    half = msgspec.structs.replace(loaded("half", 0.0, 0.0, 0.0, 0.0, 0.8, 0.8, 0.8, 0.8), requested_gpus=4)
    plan = planned(snapshot(half, loaded("even", *[0.3] * 8)), job)
    assert nodes_of(plan) == {"half"}
    assert "0% in use" in plan.reasons[1]


def test_a_gpu_without_a_sample_counts_as_the_median_of_the_known() -> None:
    job = training(workers={"minReplicas": 1, "maxReplicas": 1, "resources": {"limits": {"nvidia.com/gpu": 8}}})
    some = loaded("some", 0.0, free=8)
    assert nodes_of(planned(snapshot(some, gpu_node("whole", free=8, load=0.05), gpu_node("busy", free=8, load=0.4)), job)) == {"whole"}
    alone = planned(snapshot(some, gpu_node("small", free=4, load=0.3)), job)
    assert "UtilizationUnknown" in alone.fallbacks


@given(
    loads=st.lists(st.integers(0, 100), max_size=8),
    missing=st.integers(0, 4),
    known=st.integers(0, 100),
    seed=st.integers(1, 12),
    free=st.integers(0, 12),
)
def test_the_busiest_gpu_that_may_be_given_counts_unsampled_ones_as_the_median(
    loads: list[int], missing: int, known: int, seed: int, free: int
) -> None:
    size = max(1, len(loads) + missing)
    taken = 1 + seed % size
    seen = snapshot(loaded("a", *(load / 100 for load in loads), free=size), gpu_node("z", load=known / 100))
    use, sure = figures_of(build(seen, PolicySpec())).utilization(np.array([0, 1]), np.array([taken, 1]), np.array([free, 1]))
    taken = max(taken, min(free, len(loads)))
    enough = taken <= len(loads)
    expected = sorted(loads)[taken - 1] if enough else max(*loads, 0, known)
    assert (use[0], bool(sure[0])) == (pytest.approx(expected / 100), enough)


def test_unknown_utilization_is_named_and_not_taken_for_idle() -> None:
    plan = planned(snapshot(gpu_node("n0", load=None), gpu_node("n1", load=0.0), gpu_node("n2", load=0.1)), training(**PAIR))
    assert nodes_of(plan) == {"n1", "n0"} or nodes_of(plan) == {"n1", "n2"}
    blind = planned(snapshot(gpu_node("n0", load=None), gpu_node("n1", load=None)), training(**PAIR))
    assert "UtilizationUnknown" in blind.fallbacks


def test_pinned_ranks_stay_and_the_others_come_to_them() -> None:
    seen = random_cluster(3, 10)
    plan = planned(seen, training(workers={"minReplicas": 4, "maxReplicas": 4}), pinned={1: "n007", 3: "n002"}, workers_fixed=4)
    assert (plan.node_of(1), plan.node_of(3)) == ("n007", "n002")
    assert len(plan.workers) == 4


def test_a_pinned_rank_needs_no_free_gpu_on_its_node() -> None:
    seen = snapshot(gpu_node("n0", requested_gpus=1), gpu_node("n1"), gpu_node("n2"))
    plan = planned(seen, training(**PAIR), pinned={0: "n0"}, workers_fixed=2)
    assert [worker.node for worker in plan.workers] == ["n0", "n1"]


def test_excluded_nodes_and_gpus_taken_meanwhile_are_not_used() -> None:
    seen = snapshot(*(gpu_node(f"n{index}") for index in range(4)))
    plan = planned(seen, training(**PAIR), excluded_nodes=("n0",), free_gpus={"n1": 0})
    assert nodes_of(plan) == {"n2", "n3"}


def test_a_required_level_keeps_all_workers_in_one_domain() -> None:
    seen = random_cluster(5, 16)
    key = "topology.kubernetes.io/zone"
    plan = planned(seen, training(workers={"minReplicas": 3, "maxReplicas": 3}, placement={"topology": {"required": key}}))
    by_name = {node.name: node for node in seen.nodes}
    assert len({by_name[worker.node].domains[1] for worker in plan.workers}) == 1


def test_a_preferred_level_decides_only_where_it_costs_next_to_nothing() -> None:
    key = "topology.kubernetes.io/zone"
    members = [gpu_node("n0", domain="eu/a"), gpu_node("n1", domain="eu/b"), gpu_node("n2", domain="eu/b", load=0.004)]
    links = both_ways(["n0", "n1", "n2"])
    preferring = training(**PAIR, placement={"topology": {"preferred": key}})
    assert nodes_of(planned(snapshot(*members, links=links), training(**PAIR))) == {"n0", "n1"}
    assert nodes_of(planned(snapshot(*members, links=links), preferring)) == {"n1", "n2"}
    members[2] = gpu_node("n2", domain="eu/b", load=0.5)
    assert nodes_of(planned(snapshot(*members, links=links), preferring)) == {"n0", "n1"}


def test_workers_never_include_nodes_that_cannot_talk() -> None:
    names = ["n0", "n1", "n2", "n3"]
    links = both_ways(["n1", "n2", "n3"])
    plan = planned(
        snapshot(*(gpu_node(name) for name in names), links=links, absent=AbsentLink.UNREACHABLE),
        training(workers={"minReplicas": 2, "maxReplicas": 4}),
    )
    assert nodes_of(plan) <= {"n1", "n2", "n3"}
    assert {"n0": "Unreachable"}.items() <= {entry.node: entry.reason for entry in plan.rejected}.items()


def test_partition_count_limits_the_worker_counts() -> None:
    seen = snapshot(*(gpu_node(f"n{index}") for index in range(6)))
    plan = planned(seen, training(workers={"minReplicas": 2, "maxReplicas": 5}, partitioning={"count": 9}))
    assert (len(plan.workers), plan.partitions) == (3, 9)


def test_a_tiny_graph_is_not_spread_over_workers_it_cannot_use() -> None:
    seen = snapshot(*(gpu_node(f"n{index}") for index in range(4)))
    cora = training(model={"architecture": "GCN"}, dataset={"source": {"builtin": {"name": "Cora"}}})
    plan = planned(seen, cora)
    assert len(plan.workers) == 1
    assert plan.reasons[0].startswith("1 worker:")


def test_a_graph_too_large_for_one_gpu_is_spread_by_memory() -> None:
    members = [gpu_node("n0", gpu_memory_bytes=16 * 2**30), gpu_node("n1", gpu_memory_bytes=16 * 2**30, product=PRODUCTS[3])]
    big = training(
        dataset={
            "source": {"persistentVolumeClaim": {"claimName": "g"}},
            "vertices": 3_000_000,
            "edges": 6_000_000,
            "featureSize": 128,
            "classes": 2,
        },
        workers={"minReplicas": 1, "maxReplicas": 2},
    )
    plan = planned(snapshot(*members, links=both_ways(["n0", "n1"], bandwidth_bytes_per_second=1e6)), big)
    assert len(plan.workers) in {1, 2}
    assert sum(worker.share for worker in plan.workers) == 1.0


def test_prices_of_the_policy_give_the_cost_of_an_epoch() -> None:
    from hyperscale.model.api.policy import GpuModel, PolicySpec

    policy = PolicySpec(gpus=(GpuModel(product="NVIDIA-A100", gigaflops=10_000, price_per_hour=3.6),))
    plan = planned(snapshot(gpu_node("n0")), training(workers={"minReplicas": 1, "maxReplicas": 1}), policy)
    assert plan.predicted.cost_per_epoch is not None
    assert abs(plan.predicted.cost_per_epoch - plan.predicted.epoch_seconds * 0.001) < 1e-8
