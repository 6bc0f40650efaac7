"""Figures in the sentences beside a plan."""

from __future__ import annotations

import re

import numpy as np
import pytest

from hyperscale.model.api.policy import GpuModel, PolicySpec
from hyperscale.model.cluster import ClusterSnapshot, GpuPaths
from hyperscale.model.plan import Plan
from hyperscale.planner.choice.reasons import _compared, _percent
from tests.builders.clusters import GIB, PRODUCTS, answer, both_ways, gpu_node, link, planned, snapshot, training

ZONE = "topology.kubernetes.io/zone"


@pytest.mark.parametrize(
    ("other", "text"),
    [
        (1.0, "+0.0 %"),
        (1.0 - 1e-9, "+0.0 %"),
        (1.056, "+5.6 %"),
        (2.0, "+100.0 %"),
        (2.5, "2.5 times as much"),
        (135.673, "136 times as much"),
        (1e9, "over 1000 times as much"),
        (np.inf, "impossible"),
    ],
)
def test_a_difference_is_a_percentage_up_to_twice_as_much_and_a_factor_beyond(other: float, text: str) -> None:
    assert _percent(other, 1.0) == text


def labelled(seed: int) -> ClusterSnapshot:
    """Twelve nodes of which only labels are known, some with little GPU memory."""
    rng = np.random.default_rng(seed)
    return snapshot(
        *(
            gpu_node(
                f"n{index:02d}",
                free=int(rng.choice([1, 2, 8])),
                load=None,
                product=PRODUCTS[int(rng.integers(4))],
                domain=("eu/a", "eu/b", "us/a")[int(rng.integers(3))],
                gpu_memory_bytes=int(rng.choice([6, 16, 80])) * GIB,
            )
            for index in range(12)
        )
    )


@pytest.mark.parametrize("topology", [{}, {"preferred": ZONE}, {"required": ZONE}], ids=["free", "preferred", "required"])
@pytest.mark.parametrize("most", [1, 3, 6])
def test_no_node_is_called_slower_with_a_negative_figure(topology: dict[str, str], most: int) -> None:
    job = training(workers={"minReplicas": 1, "maxReplicas": most}, placement={"topology": topology})
    for seed in range(12):
        for rejection in getattr(answer(labelled(seed), job), "rejected", ()):
            assert not re.search(r"-\d|nan|inf|0\.0 %", rejection.message), rejection
            assert rejection.reason != "SlowerPlan" or re.search(r"\+|times", rejection.message), rejection


@pytest.mark.parametrize(
    ("other", "reason", "text"),
    [
        (1.0, "EqualPlan", "it is as fast"),
        (1.0004, "EqualPlan", "it is as fast"),
        (0.9996, "EqualPlan", "it is as fast"),
        (1.006, "EqualPlan", "0.6 % more, which counts as equal"),
        (1.02, "EqualPlan", "2.0 % more, which counts as equal"),
        (1.03, "SlowerPlan", "+3.0 %"),
        (1.0 / 1.02, "EqualPlan", "2.0 % less, which counts as equal"),
        (0.9, "NotChosen", "10.0 % less; the search did not get there, or ranks that stay or a preference kept it out"),
    ],
)
def test_a_node_left_out_is_called_slower_only_where_a_plan_with_it_would_be(other: float, reason: str, text: str) -> None:
    assert _compared(other, 1.0, 0.02) == (reason, text)


def test_a_twin_of_a_planned_node_is_no_slower_plan() -> None:
    plan = planned(snapshot(*(gpu_node(name) for name in "abc")), training(workers={"minReplicas": 2, "maxReplicas": 2}))
    assert [(entry.node, entry.reason, entry.message) for entry in plan.rejected] == [
        ("c", "EqualPlan", "one worker moved there: it is as fast")
    ]


def test_a_node_that_cannot_hold_its_part_is_not_called_slower() -> None:
    """With equal parts no other GPU can take over what a small GPU does not hold."""
    big = {"vertices": 10_000_000, "edges": 20_000_000, "featureSize": 128, "classes": 2}
    job = training(
        dataset={"source": {"persistentVolumeClaim": {"claimName": "g"}}, **big},
        workers={"minReplicas": 2, "maxReplicas": 2},
        partitioning={"balance": "Equal"},
    )
    plan = planned(snapshot(gpu_node("n0"), gpu_node("n1"), gpu_node("n2", gpu_memory_bytes=GIB // 64)), job)
    assert [(entry.node, entry.reason) for entry in plan.rejected] == [("n2", "GPUMemory")]


def test_nodes_outside_a_required_domain_are_named_as_such() -> None:
    members = (gpu_node("n0", domain="eu/a"), gpu_node("n1", domain="eu/a"), gpu_node("n2", domain="us/a"))
    job = training(workers={"minReplicas": 2, "maxReplicas": 2}, placement={"topology": {"required": ZONE}})
    plan = planned(snapshot(*members), job)
    assert [(entry.node, entry.reason, entry.message) for entry in plan.rejected] == [
        ("n2", "Constraint", f"outside the domain of {ZONE} that was chosen")
    ]


PAIRS = [("a", "b"), ("b", "c"), ("a", "c")]


def hop(plan: Plan) -> str:
    """The sentence about the ring."""
    return next(sentence for sentence in plan.reasons if "hop" in sentence)


def test_the_slowest_hop_is_the_one_that_takes_longest_not_the_narrowest() -> None:
    """One pair waits 30 ms for every message and carries a tenth more than the others."""
    links = [link(*pair, *((3e-2, 1.1e9) if set(pair) == {"b", "c"} else (1e-5, 1e9))) for a, b in PAIRS for pair in ((a, b), (b, a))]
    plan = planned(
        snapshot(*(gpu_node(name) for name in "abc"), links=tuple(links)), training(workers={"minReplicas": 3, "maxReplicas": 3})
    )
    assert hop(plan).startswith("Slowest ring hop is b to c: 30 ms, 1.1 GB/s (measured); allreduce takes ")


def test_the_slowest_hop_may_be_inside_a_node() -> None:
    """Two L40S meet over PCIe, slower than this network."""
    nodes = [gpu_node(name, free=4, product="NVIDIA-L40S", gpu_memory_bytes=48 * GIB) for name in "ab"]
    seen = snapshot(*nodes, links=both_ways(["a", "b"], latency_seconds=2e-6, bandwidth_bytes_per_second=50e9))
    plan = planned(seen, training(workers={"minReplicas": 2, "maxReplicas": 2, "resources": {"limits": {"nvidia.com/gpu": 4}}}))
    assert hop(plan).startswith("Slowest ring hop is inside a: 0.008 ms, 25.2 GB/s (assumed for the product); allreduce takes ")


def test_a_given_number_of_workers_is_not_said_to_be_that_of_an_mpijob_alone() -> None:
    """The queue gives the number too, before any MPIJob exists."""
    plan = planned(snapshot(*(gpu_node(name) for name in "ab")), training(), workers_fixed=2)
    assert plan.reasons[0].endswith(" s an epoch; the queue, or an MPIJob that exists, gives the number.")


def test_hops_that_share_a_card_are_slower_for_it() -> None:
    """The ring leaves a twice, because the rank pinned to b lies between its two."""
    links = [link(*pair, 1e-5, 1e9) for a, b in PAIRS for pair in ((a, b), (b, a))]
    nodes = (gpu_node("a", free=2), gpu_node("b"), gpu_node("c"))
    job = training(workers={"minReplicas": 4, "maxReplicas": 4})
    plan = planned(snapshot(*nodes, links=tuple(links)), job, pinned={0: "a", 1: "b", 2: "a", 3: "c"}, workers_fixed=4)
    assert "1 GB/s (measured, 2 hops share its card)" in hop(plan)


def test_one_worker_of_several_gpus_has_its_ring_told() -> None:
    job = training(workers={"minReplicas": 1, "maxReplicas": 1, "resources": {"limits": {"nvidia.com/gpu": 8}}})
    told = planned(snapshot(gpu_node("h", free=8, gpu_paths=GpuPaths("NVLink", 12))), job)
    assert hop(told).startswith("All ring hops stay inside h: 0.005 ms, 240 GB/s (told by agent or policy); allreduce takes ")
    assert not any(
        "hop" in sentence for sentence in planned(snapshot(gpu_node("h")), training(workers={"minReplicas": 1, "maxReplicas": 1})).reasons
    )


def shared(plan: Plan) -> str:
    """The sentence about pods of one node; empty without one."""
    return next((reason for reason in plan.reasons if "each a pod" in reason), "")


def test_a_plan_says_that_pods_of_one_node_may_not_exchange_as_its_gpus_do() -> None:
    four = training(workers={"minReplicas": 4, "maxReplicas": 4})
    plan = planned(snapshot(gpu_node("a", free=8)), four)
    assert plan.ranks_by_node == {"a": 4}
    assert shared(plan).startswith("a holds 4 workers, each a pod.")
    apart = planned(snapshot(*(gpu_node(name) for name in "abcd")), four)
    assert shared(apart) == ""


def test_nothing_is_said_of_one_pod_or_where_the_policy_states_the_inside() -> None:
    whole = training(workers={"minReplicas": 1, "maxReplicas": 1, "resources": {"limits": {"nvidia.com/gpu": 4}}})
    assert shared(planned(snapshot(gpu_node("a", free=8)), whole)) == ""
    two = training(workers={"minReplicas": 2, "maxReplicas": 2})
    told = PolicySpec(gpus=(GpuModel(product=PRODUCTS[0], intra_node_bytes_per_second=5e9),))
    assert shared(planned(snapshot(gpu_node("a", free=8)), two, told)) == ""


def test_a_next_set_that_is_faster_is_said_to_cost_less() -> None:
    """Within the tolerance the plan that leaves fewer GPUs stranded wins; "costs -0.7 %" was no sentence."""
    rng = np.random.default_rng(7)
    zones = int(rng.integers(2, 6))
    sizes = [int(rng.integers(1, 5)) for _ in range(int(rng.integers(6, 30)))]
    seen = snapshot(
        *(gpu_node(f"n{at:02d}", free=free, product="NVIDIA-A100-SXM4-80GB", domain=f"eu/z{at % zones}") for at, free in enumerate(sizes))
    )
    (next_best,) = [text for text in planned(seen, training(workers={"minReplicas": 5, "maxReplicas": 5})).reasons if "Next best" in text]
    assert next_best.endswith("and costs 0.7 % less, too little to decide.")
