"""Nodes of which one free GPU is busy: Kubernetes gives any of them, so that the busy one counts however few the job takes."""

from __future__ import annotations

from hyperscale.evaluate.pipeline.plan_origin import plan_origin
from hyperscale.model.api.job import JobSpec
from hyperscale.model.cluster import ClusterSnapshot, Gpu, Node
from hyperscale.model.planning import PlanRequest
from tests.builders.clusters import POLICY, PRODUCTS, gpu_node, measured, planned, snapshot, training


def used(name: str, *loads: float, product: str = PRODUCTS[3], held: int = 0) -> Node:
    gpus = tuple(Gpu(uuid=f"GPU-{name}-{at}", utilization_ratio=measured(load)) for at, load in enumerate(loads))
    return gpu_node(name, free=len(loads), product=product, gpus=gpus, requested_gpus=held)


def cluster(busy: float = 0.97, held: int = 0) -> ClusterSnapshot:
    """Eight H100, of which one is busy, beside eight idle A100."""
    return snapshot(used("h100", busy, *[0.0] * 7, held=held), used("a100", *[0.0] * 8, product=PRODUCTS[0]))


def job(least: int, most: int) -> JobSpec:
    return training(workers={"minReplicas": least, "maxReplicas": most})


def test_more_allowed_workers_make_no_slower_plan() -> None:
    objectives = [planned(cluster(), job(1, most)).objective for most in range(1, 9)]
    assert objectives == sorted(objectives, reverse=True)


def test_a_node_with_a_busy_free_gpu_is_avoided_however_few_are_taken() -> None:
    for count in (1, 7, 8):
        assert {worker.node for worker in planned(cluster(), job(count, count)).workers} == {"a100"}


def test_a_busy_gpu_that_a_pod_holds_is_given_to_nobody_else() -> None:
    plan = planned(cluster(held=1), job(7, 7))
    assert {worker.node for worker in plan.workers} == {"h100"}
    assert plan.predicted.epoch_seconds == planned(cluster(busy=0.0), job(7, 7)).predicted.epoch_seconds


def test_a_request_that_knows_of_fewer_free_gpus_leaves_the_busiest_out() -> None:
    assert {worker.node for worker in planned(cluster(), job(7, 7), free_gpus={"h100": 7}).workers} == {"h100"}


def test_an_evaluation_finds_the_figures_of_the_plan_again() -> None:
    question = PlanRequest(job_key="team-a/gnn", job=job(1, 8))
    assert plan_origin(planned(cluster(), question.job), question, cluster(), POLICY).faults == ()
