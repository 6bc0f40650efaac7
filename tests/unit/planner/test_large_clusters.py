"""Clusters that are cut to pools, and time that runs out."""

from __future__ import annotations

import numpy as np
import pytest
from msgspec.structs import replace

from benchmarks.clusters import lingjun
from benchmarks.families import placed
from benchmarks.generate import cluster
from hyperscale.model.plan import Plan
from hyperscale.model.planning import PlanRequest
from hyperscale.planner.check.artifact import to_json
from hyperscale.planner.check.plan_check import violations
from hyperscale.planner.choice.portfolio import make_plan
from hyperscale.planner.graph.cluster_graph import build
from hyperscale.planner.problem.placement_problem import pose
from hyperscale.planner.search.heuristic import Heuristic
from hyperscale.planner.search.kernels.kernel import local_search
from hyperscale.planner.search.pools import POOL_NODES, Pools
from hyperscale.planner.workload.profile import profile
from tests.builders.clusters import POLICY, planned, training

SEEN = cluster(600, seed=3)
JOB = training(workers={"minReplicas": 8, "maxReplicas": 8, "resources": {"limits": {"nvidia.com/gpu": 4}}})


def test_a_large_cluster_gives_the_same_plan_whatever_the_order_of_its_nodes() -> None:
    rng = np.random.default_rng(0)
    shuffled = replace(SEEN, nodes=tuple(SEEN.nodes[index] for index in rng.permutation(len(SEEN.nodes))))
    first, second = planned(SEEN, JOB), planned(shuffled, JOB)
    assert to_json(replace(first, snapshot="", plan_id="")) == to_json(replace(second, snapshot="", plan_id=""))


def test_a_pool_is_bounded_and_keeps_the_pinned_nodes() -> None:
    request = PlanRequest(job_key="a/b", job=JOB, pinned={0: "node-00599"})
    problem = pose(request, build(SEEN, POLICY), profile(JOB), POLICY)
    pool = Pools(problem, np.arange(len(problem.nodes))).pool(8)
    assert len(pool) <= POOL_NODES + 1
    assert problem.pinned[0][1] in pool
    assert (np.diff(pool) > 0).all()


@pytest.mark.parametrize("seed", range(3))
def test_no_worker_of_a_pool_has_a_better_node_elsewhere(seed: int) -> None:
    graph = build(cluster(600, seed=seed), POLICY)
    problem = pose(PlanRequest(job_key="a/b", job=JOB, seed=seed), graph, profile(JOB), POLICY)
    costs = problem.costs(np.arange(len(problem.nodes)))
    best = min(Heuristic().candidates(problem, lambda: False))
    _, seconds = local_search(costs, problem.slots, np.array([best.order]))
    assert len(problem.nodes) > POOL_NODES
    assert best.objective <= seconds[0] * (1.0 + 1e-6)


def test_one_worker_may_leave_the_domain_that_suits_the_others() -> None:
    whole = lingjun(0)
    if whole is None:
        pytest.skip("Lingjun's topology is not in ../shared/data")
    case = placed("lingjun", build(whole.snapshot, POLICY), 8, 0, whole.gpus_per_worker)
    best = min(Heuristic().candidates(case.problem, lambda: False))
    domains = case.graph.domains[case.problem.nodes[list(best.order)], -1]
    # Within one domain the best costs 1 % more.
    assert sorted(np.unique(domains, return_counts=True)[1].tolist()) == [1, 7]


def test_many_workers_find_room_in_a_large_cluster() -> None:
    job = training(workers={"minReplicas": 300, "maxReplicas": 300})
    plan = planned(SEEN, job)
    assert len(plan.workers) == 300
    assert violations(plan, PlanRequest(job_key="team-a/gnn", job=job), SEEN) == ()


def test_a_required_rack_is_kept_on_a_large_cluster() -> None:
    job = training(
        workers={"minReplicas": 4, "maxReplicas": 4, "resources": {"limits": {"nvidia.com/gpu": 4}}},
        placement={"topology": {"required": "fabric.topograph.run/tier-0"}},
    )
    plan = planned(SEEN, job)
    domains = {node.name: node.domains[2] for node in SEEN.nodes}
    assert len({domains[worker.node] for worker in plan.workers}) == 1


def test_a_plan_comes_even_when_time_is_up_from_the_start() -> None:
    job = training(workers={"minReplicas": 2, "maxReplicas": 64})
    asked = 0

    def expired() -> bool:
        nonlocal asked
        asked += 1
        return True

    plan = make_plan(PlanRequest(job_key="a/b", job=job), build(SEEN, POLICY), profile(job), POLICY, expired=expired)
    assert isinstance(plan, Plan)
    assert len(plan.workers) == 2
    assert asked > 0
