"""GPUs that nodes strand for the sizes a cluster is asked for, and equal placements that differ only in them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hyperscale.model.admission_query import AdmissionRequest, QueuedJob
from hyperscale.model.api.policy import PolicySpec
from hyperscale.model.cluster import Node
from hyperscale.model.graph import ClusterGraph, FloatArray
from hyperscale.model.plan import Infeasible, Plan
from hyperscale.model.planning import AskedSize, PlanRequest
from hyperscale.planner.choice.portfolio import make_plan
from hyperscale.planner.choice.stranding import SIZE_WEIGHT, SizeDemand, added_stranding, size_demand, stranded_gpus
from hyperscale.planner.graph.cluster_graph import build
from hyperscale.planner.queue.joint import take_turns
from hyperscale.planner.queue.placement_oracle import PlacementOracle
from hyperscale.planner.queue.queue_policies import choosers
from hyperscale.planner.workload.profile import profile
from tests.builders.clusters import both_ways, gpu_node, planned, random_cluster, snapshot, training

GIB = 2**30
TWELVE_CORES = (AskedSize(1, 12.0, 48.0 * GIB),)
ALONE = {"minReplicas": 1, "maxReplicas": 1}


def rooms(*each: tuple[float, float, float]) -> FloatArray:
    return np.array(each, dtype=np.float64)


def demand(*sizes: AskedSize) -> SizeDemand:
    made = size_demand(sizes)
    assert made is not None
    return made


def test_gpus_beyond_what_cores_and_memory_carry_are_stranded() -> None:
    # 48 cores carry 4 GPUs at 12 cores and 8 at 6; 96 GiB carry 2 at 48 GiB and 4 at 24.
    seen = stranded_gpus(rooms((8, 96, 384 * GIB), (8, 48, 384 * GIB), (8, 96, 96 * GIB), (8, 0, 384 * GIB)), demand(*TWELVE_CORES))
    assert seen.tolist() == [0.0, (4 + 0) / 2, (6 + 4) / 2, 8.0]


def test_the_remainder_of_every_size_counts_by_the_gpus_that_it_asks_for() -> None:
    # 24 single pods and one of 8 GPUs: a quarter of all GPUs are asked for eight at a time.
    sizes = demand(AskedSize(1, 1.0, GIB, weight=24.0), AskedSize(8, 8.0, 8.0 * GIB))
    assert sizes.shares.tolist() == [0.75, 0.25]
    seen = stranded_gpus(rooms((8, 64, 512 * GIB), (7, 64, 512 * GIB), (12, 64, 512 * GIB)), sizes)
    assert seen.tolist() == [0.0, SIZE_WEIGHT * 0.25 * 7, SIZE_WEIGHT * 0.25 * 4]


def test_unknown_cores_and_memory_strand_nothing() -> None:
    assert stranded_gpus(rooms((8, math.inf, math.inf)), demand(*TWELVE_CORES)).tolist() == [0.0]


def test_a_hungry_pod_adds_nothing_where_cores_are_left_over() -> None:
    taken = np.array((1.0, 24.0, 48.0 * GIB))
    added = added_stranding(rooms((8, 96, 384 * GIB), (2, 104, 512 * GIB)), taken, demand(*TWELVE_CORES))
    # On the first node 72 cores are left for 7 GPUs: one is stranded at 12 cores each, none at 6.
    assert added.tolist() == [0.5, 0.0]


def test_nothing_asked_for_is_no_demand() -> None:
    assert size_demand(()) is None
    assert size_demand((AskedSize(0, 4.0, 1.0), AskedSize(2, 4.0, 1.0, weight=0.0))) is None


amounts = st.floats(0, 1e4)
room_sets = st.lists(st.tuples(st.integers(0, 16).map(float), amounts, amounts), min_size=1, max_size=6)
size_sets = st.lists(st.builds(AskedSize, st.integers(1, 16), amounts, amounts, st.floats(0.01, 100)), min_size=1, max_size=5)


@given(room_sets, size_sets)
def test_no_room_strands_less_than_nothing_or_more_than_it_has(each: list[tuple[float, float, float]], sizes: list[AskedSize]) -> None:
    free = rooms(*each)
    stranded = stranded_gpus(free, demand(*sizes))
    assert (stranded >= -1e-9).all()
    assert (stranded <= free[:, 0] * (1.0 + SIZE_WEIGHT) + 1e-9).all()


@given(room_sets, size_sets, amounts)
def test_more_cores_never_strand_more(each: list[tuple[float, float, float]], sizes: list[AskedSize], more: float) -> None:
    free = rooms(*each)
    assert (stranded_gpus(free + np.array((0.0, more, 0.0)), demand(*sizes)) <= stranded_gpus(free, demand(*sizes)) + 1e-9).all()


@given(room_sets, size_sets, st.floats(0.5, 8.0))
def test_only_the_ratio_of_weights_counts(each: list[tuple[float, float, float]], sizes: list[AskedSize], factor: float) -> None:
    scaled = [AskedSize(size.gpus, size.cpu_cores, size.memory_bytes, size.weight * factor) for size in sizes]
    assert stranded_gpus(rooms(*each), demand(*scaled)) == pytest.approx(stranded_gpus(rooms(*each), demand(*sizes)), rel=1e-9, abs=1e-9)


def partly(name: str, free: int, cores: float) -> Node:
    fields: dict[str, Any] = {
        "allocatable_gpus": 8,
        "requested_gpus": 8 - free,
        "allocatable_cpu_cores": cores,
        "allocatable_memory_bytes": 512 * GIB,
    }
    return gpu_node(name, free=free, **fields)


HUNGRY = training(
    workers=ALONE | {"resources": {"limits": {"nvidia.com/gpu": "1"}, "requests": {"cpu": "24", "memory": "16Gi"}}},
)


def test_a_hungry_job_takes_the_node_whose_cores_no_other_job_needs() -> None:
    seen = snapshot(partly("a-tight", 2, 30.0), partly("b-ample", 4, 96.0))
    assert planned(seen, HUNGRY).ranks_by_node == {"a-tight": 1}
    chosen = planned(seen, HUNGRY, asked_sizes=TWELVE_CORES)
    assert chosen.ranks_by_node == {"b-ample": 1}


def test_of_placements_that_strand_as_much_the_fewest_idle_gpus_win() -> None:
    seen = snapshot(partly("a-empty", 8, 96.0), partly("b-last", 1, 96.0))
    light = training(workers=ALONE | {"resources": {"limits": {"nvidia.com/gpu": "1"}, "requests": {"cpu": "12", "memory": "16Gi"}}})
    assert planned(seen, light, asked_sizes=TWELVE_CORES).ranks_by_node == {"b-last": 1}


def test_cores_that_planned_ranks_of_others_hold_are_not_free() -> None:
    seen = snapshot(partly("a-ample", 4, 96.0), partly("b-ample", 4, 96.0))
    held = {"a-ample": {"cpu": 48.0}}
    assert planned(seen, HUNGRY, asked_sizes=TWELVE_CORES).ranks_by_node == {"a-ample": 1}
    assert planned(seen, HUNGRY, asked_sizes=TWELVE_CORES, reserved_amounts=held).ranks_by_node == {"b-ample": 1}


def test_a_plan_that_won_so_says_what_it_is_for() -> None:
    fast = gpu_node("a-fast", free=2, allocatable_cpu_cores=30.0, allocatable_memory_bytes=512 * GIB)
    slower = gpu_node("b-ample", free=4, load=0.01, allocatable_cpu_cores=96.0, allocatable_memory_bytes=512 * GIB)
    plan = planned(snapshot(fast, slower), HUNGRY, PolicySpec(tolerance_percent=2), asked_sizes=TWELVE_CORES)
    assert plan.ranks_by_node == {"b-ample": 1}
    assert any("strands the fewest GPUs for the sizes that this cluster is asked for" in reason for reason in plan.reasons)


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10**6), sizes=size_sets)
def test_sizes_never_cost_more_than_the_tolerance(seed: int, sizes: list[AskedSize]) -> None:
    seen, policy = random_cluster(seed, 6, free_max=4), PolicySpec(tolerance_percent=5)
    least = planned(seen, policy=PolicySpec(tolerance_percent=0)).objective
    assert planned(seen, policy=policy, asked_sizes=tuple(sizes)).objective <= least * 1.05 * (1 + 1e-9)


def test_workers_of_one_node_are_weighed_together() -> None:
    names = ["a-tight", "b-ample"]
    seen = snapshot(partly(names[0], 4, 52.0), partly(names[1], 8, 200.0), links=both_ways(names))
    two = training(
        workers={"minReplicas": 2, "maxReplicas": 2, "resources": {"limits": {"nvidia.com/gpu": "1"}, "requests": {"cpu": "24"}}}
    )
    # Two workers leave 4 cores for the 2 GPUs of a-tight, and 152 cores for the 6 of b-ample.
    assert planned(seen, two, asked_sizes=TWELVE_CORES).ranks_by_node == {"b-ample": 2}


def test_the_queue_places_a_pending_job_by_the_sizes_of_its_question() -> None:
    graph, policy = build(snapshot(partly("a-tight", 2, 30.0), partly("b-ample", 4, 96.0)), PolicySpec()), PolicySpec()

    def place(request: PlanRequest, on: ClusterGraph, expired: Callable[[], bool]) -> Plan | Infeasible:
        return make_plan(request, on, profile(request.job), policy, expired=expired)

    job = QueuedJob(PlanRequest(job_key="team/hungry", job=HUNGRY))
    for sizes, node in (((), "a-tight"), (TWELVE_CORES, "b-ample")):
        question = AdmissionRequest(jobs=(job,), asked_sizes=sizes)
        (start,) = take_turns(question, PlacementOracle(graph, policy, place), policy.queue, choosers(policy.queue)).starts
        assert start.plan.ranks_by_node == {node: 1}
