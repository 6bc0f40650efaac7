"""Nodes of which one GPU is busy: as many workers as are fastest together, and no proof of what was not searched."""

from __future__ import annotations

import pytest

from hyperscale.evaluate.pipeline.plan_origin import plan_origin
from hyperscale.model.api.job import JobSpec
from hyperscale.model.cluster import ClusterSnapshot, Gpu, Node
from hyperscale.model.planning import PlanRequest
from hyperscale.planner.choice.given_order import plan_in_order
from hyperscale.planner.graph.cluster_graph import build
from hyperscale.planner.workload.profile import profile
from tests.builders.clusters import POLICY, PRODUCTS, gpu_node, measured, planned, snapshot, training


def used(name: str, *loads: float, product: str = PRODUCTS[3]) -> Node:
    gpus = tuple(Gpu(uuid=f"GPU-{name}-{at}", utilization_ratio=measured(load)) for at, load in enumerate(loads))
    return gpu_node(name, free=len(loads), product=product, gpus=gpus)


def cluster(busy: float = 0.97) -> ClusterSnapshot:
    """Eight H100, of which one is busy, beside eight idle T4."""
    return snapshot(used("h100", busy, *[0.0] * 7), used("t4", *[0.0] * 8, product=PRODUCTS[2]))


def job(least: int, most: int) -> JobSpec:
    return training(workers={"minReplicas": least, "maxReplicas": most})


def test_more_allowed_workers_make_no_slower_plan() -> None:
    seven, eight = (planned(cluster(), job(1, most)) for most in (7, 8))
    assert [worker.node for worker in eight.workers] == ["h100"] * 7
    assert eight.objective == seven.objective


def test_what_is_left_out_is_said_and_nothing_is_called_proven() -> None:
    plan = planned(cluster(), job(1, 8))
    assert any("1 GPU of h100 counts as taken: with it its busiest would be 97% in use" in reason for reason in plan.reasons)
    assert plan.optimality_gap is None
    assert not any("Proven" in reason for reason in plan.reasons)


def test_who_needs_all_gpus_gets_them() -> None:
    assert len(planned(snapshot(used("h100", 0.97, *[0.0] * 7)), job(8, 8)).workers) == 8


def test_a_little_use_is_no_reason_to_leave_a_gpu() -> None:
    plan = planned(snapshot(used("h100", 0.15, *[0.0] * 7)), job(1, 8))
    assert len(plan.workers) == 8
    assert plan.optimality_gap == 0.0


@pytest.mark.parametrize("least", [1, 8])
def test_an_evaluation_finds_the_figures_of_the_plan_again(least: int) -> None:
    question = PlanRequest(job_key="team-a/gnn", job=job(least, 8))
    plan = planned(cluster(), job(least, 8))
    assert plan_origin(plan, question, cluster(), POLICY).faults == ()


def test_a_given_placement_on_all_gpus_counts_the_busy_one() -> None:
    question, graph = PlanRequest(job_key="team-a/gnn", job=job(1, 8)), build(cluster(), POLICY)
    plans = [plan_in_order(question, graph, profile(question.job), POLICY, ["h100"] * count, "Heuristic") for count in (7, 8)]
    assert all(plan is not None for plan in plans)
    seven, eight = (plan.objective for plan in plans if plan is not None)
    assert eight > 2 * seven
