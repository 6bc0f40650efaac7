"""Placements of several jobs at once: never worse than one after the other, no resource given twice, the same answer each time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import msgspec
import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from hyperscale.learn.constructor.joint_questions import FAMILIES, question
from hyperscale.model.admission_query import AdmissionRequest, AdmissionResult, QueuedJob
from hyperscale.model.api.container_resources import ResourceRequirements
from hyperscale.model.api.policy import PolicySpec
from hyperscale.model.cluster import ClusterSnapshot
from hyperscale.model.graph import ClusterGraph, IntArray
from hyperscale.model.plan import Infeasible, Plan
from hyperscale.model.planning import PlanRequest
from hyperscale.planner.check.queue_check import unsound
from hyperscale.planner.choice.given_order import plan_in_order
from hyperscale.planner.choice.portfolio import make_plan
from hyperscale.planner.cost.objective import predict
from hyperscale.planner.graph.cluster_graph import build
from hyperscale.planner.queue.joint import take_turns
from hyperscale.planner.queue.placement_oracle import Expired, PlacementOracle
from hyperscale.planner.queue.queue_policies import choosers
from hyperscale.planner.together.joint_starts import joint_starts
from hyperscale.planner.together.shared_nodes import SharedNodes
from hyperscale.planner.together.start_together import TogetherPlanner
from hyperscale.planner.together.together_search import JointStart, place_together
from hyperscale.planner.workload.profile import profile
from tests.builders.clusters import gpu_node, snapshot, training

FEW = settings(max_examples=12, deadline=None)
POLICY = PolicySpec()
EFFORT = 0.2


def drawn(family: str, seed: int) -> SharedNodes:
    shared = question(family, seed)
    assume(shared is not None)
    assert shared is not None
    return shared


def reference_total(shared: SharedNodes, orders: Sequence[IntArray]) -> float:
    """By the cost model in plain arithmetic."""
    return math.fsum(
        weight * predict(each.costs, order).objective for weight, each, order in zip(shared.weights, shared.of_job, orders, strict=True)
    )


@FEW
@given(st.sampled_from(FAMILIES), st.integers(0, 400))
def test_the_sum_is_never_higher_and_no_place_is_given_twice(family: str, seed: int) -> None:
    shared = drawn(family, seed)
    placed = place_together(shared, joint_starts, seed, EFFORT)
    assert shared.fits(placed.orders)
    assert reference_total(shared, placed.orders) <= reference_total(shared, shared.one_by_one) * (1.0 + 1e-9)
    assert math.isclose(placed.total, reference_total(shared, placed.orders), rel_tol=1e-6)
    for order, workers, each in zip(placed.orders, shared.workers, shared.of_job, strict=True):
        assert len(order) == workers
        assert (np.bincount(order, minlength=len(each.slots)) <= each.slots).all()


@FEW
@given(st.sampled_from(FAMILIES), st.integers(0, 400))
def test_the_same_question_and_seed_give_the_same_placements(family: str, seed: int) -> None:
    shared = drawn(family, seed)
    first, second = (place_together(shared, joint_starts, seed, EFFORT) for _ in range(2))
    assert [order.tolist() for order in first.orders] == [order.tolist() for order in second.orders]
    assert first.total == second.total


@FEW
@given(st.sampled_from(FAMILIES), st.integers(0, 400), st.floats(1.0, 1.5))
def test_no_job_goes_beyond_its_limit(family: str, seed: int, slack: float) -> None:
    shared = drawn(family, seed)
    limits = shared.seconds(shared.one_by_one) * slack
    bound = replace(shared, limits=limits)
    placed = place_together(bound, joint_starts, seed, EFFORT)
    assert (bound.seconds(placed.orders) <= limits * (1.0 + 1e-6)).all()


@FEW
@given(st.sampled_from(FAMILIES), st.integers(0, 400))
def test_a_start_that_takes_a_place_twice_is_left_out(family: str, seed: int) -> None:
    shared = drawn(family, seed)
    twice = [np.zeros(workers, dtype=np.int64) for workers in shared.workers]
    assume(not shared.fits(twice))
    placed = place_together(shared, lambda _: [JointStart("twice", twice)], seed, EFFORT)
    assert "twice" not in placed.totals
    assert shared.fits(placed.orders)


def decided(jobs: tuple[QueuedJob, ...], cluster: ClusterSnapshot, together: bool) -> AdmissionResult:
    graph = build(cluster, POLICY)

    def place(request: PlanRequest, graph: ClusterGraph, expired: Expired) -> Plan | Infeasible:
        return make_plan(request, graph, profile(request.job), POLICY, expired=expired)

    planner = TogetherPlanner(graph, POLICY, lambda request: profile(request.job), plan_in_order) if together else None
    return take_turns(AdmissionRequest(jobs=jobs), PlacementOracle(graph, POLICY, place), POLICY.queue, choosers(POLICY.queue), planner)


def queued(number: int, workers: int, gpus: int, epochs: int, cores: str) -> QueuedJob:
    model = {"architecture": "GraphSAGE", "layers": 2, "hiddenSize": 128, "epochs": epochs}
    job = training(model=model, workers={"minReplicas": workers, "maxReplicas": workers, "resources": {"limits": {"nvidia.com/gpu": gpus}}})
    resources = ResourceRequirements(requests={"cpu": cores}, limits={"nvidia.com/gpu": str(gpus)})
    job = msgspec.structs.replace(job, workers=msgspec.structs.replace(job.workers, resources=resources))
    return QueuedJob(PlanRequest(job_key=f"team/job-{number}", job=job), 1.0)


jobs = st.lists(
    st.tuples(st.integers(1, 4), st.integers(1, 2), st.integers(1, 400), st.sampled_from(["500m", "1", "3"])), min_size=2, max_size=4
).map(lambda drawn: tuple(queued(number, *fields) for number, fields in enumerate(drawn)))
PRODUCTS = ("NVIDIA-H100-80GB-HBM3", "Tesla-T4")
clusters = st.lists(st.tuples(st.integers(0, 4), st.sampled_from(PRODUCTS), st.sampled_from([4.0, 16.0])), min_size=3, max_size=6).map(
    lambda drawn: snapshot(
        *(
            gpu_node(f"n{at}", free=gpus, product=product, domain=f"eu/{'ab'[at % 2]}", allocatable_cpu_cores=cores)
            for at, (gpus, product, cores) in enumerate(drawn)
        )
    )
)


@FEW
@given(jobs, clusters)
def test_decisions_start_the_same_jobs_on_sound_plans_with_no_higher_sum(waiting: tuple[QueuedJob, ...], cluster: ClusterSnapshot) -> None:
    alone, turns = decided(waiting, cluster, together=False), decided(waiting, cluster, together=True)
    assert [start.key for start in turns.starts] == [start.key for start in alone.starts]
    assert turns.holds == alone.holds
    assert turns.fallbacks == alone.fallbacks
    assert unsound(turns, AdmissionRequest(jobs=waiting), cluster) == ()
    epochs = {job.request.job_key: job.request.job.model.epochs for job in waiting}
    sums = [math.fsum(epochs[start.key] * start.plan.objective for start in each.starts) for each in (turns, alone)]
    assert sums[0] <= sums[1] * (1.0 + 1e-9)
    assert [len(start.plan.workers) for start in turns.starts] == [len(start.plan.workers) for start in alone.starts]
