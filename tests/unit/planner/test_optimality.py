"""How far plans are from the best possible, found by trying everything."""

from __future__ import annotations

import sys
from itertools import combinations, permutations
from typing import Any

import numpy as np
import pytest

from hyperscale.model.planning import PlanRequest
from hyperscale.planner.cost.objective import objectives
from hyperscale.planner.graph.cluster_graph import build
from hyperscale.planner.problem.placement_problem import Problem, pose
from hyperscale.planner.search.greedy import greedy
from hyperscale.planner.search.local_search_batch import polish_all
from hyperscale.planner.workload.profile import profile
from tests.builders.clusters import POLICY, planned, random_cluster, training

SAMPLED = {"architecture": "GCN", "layers": 2, "hiddenSize": 64, "batchSize": 1024, "fanouts": [10, 5]}
JOBS: dict[str, dict[str, Any]] = {
    "any count": {"workers": {"minReplicas": 1, "maxReplicas": 4}},
    "four": {"workers": {"minReplicas": 4, "maxReplicas": 4}},
    "equal parts": {"workers": {"minReplicas": 3, "maxReplicas": 4}, "partitioning": {"balance": "Equal"}},
    "sampled": {"workers": {"minReplicas": 4, "maxReplicas": 4}, "model": SAMPLED},
}


def problem_of(seed: int, nodes: int, fields: dict[str, Any]) -> Problem:
    job = training(**fields)
    return pose(PlanRequest(job_key="team-a/gnn", job=job), build(random_cluster(seed, nodes), POLICY), profile(job), POLICY)


def best_of_all(problem: Problem) -> float:
    """Objective of the best of all placements with one worker a node."""
    nodes = len(problem.nodes)
    costs = problem.costs(np.arange(nodes))
    best = np.inf
    for count in problem.counts():
        orders = [(first, *turn) for first, *rest in combinations(range(nodes), count) for turn in permutations(rest)]
        best = min(best, float(objectives(costs, np.array(orders)).min()))
    return best


@pytest.mark.parametrize("fields", JOBS.values(), ids=JOBS.keys())
def test_small_problems_are_solved_exactly(fields: dict[str, Any]) -> None:
    for seed in range(12):
        plan = planned(random_cluster(seed, 7), training(**fields))
        assert plan.objective == pytest.approx(best_of_all(problem_of(seed, 7, fields)), rel=1e-7)


def test_workers_that_may_share_nodes_are_placed_exactly_too() -> None:
    fields: dict[str, Any] = {"workers": {"minReplicas": 4, "maxReplicas": 4}}
    for seed in range(8):
        job, seen = training(**fields), random_cluster(seed, 4, free_max=3)
        problem = pose(PlanRequest(job_key="team-a/gnn", job=job), build(seen, POLICY), profile(job), POLICY)
        places = np.repeat(np.arange(4), problem.slots)
        if len(places) < 4:
            continue
        orders = [(first, *turn) for first, *rest in combinations(places.tolist(), 4) for turn in permutations(rest)]
        best = float(objectives(problem.costs(np.arange(4)), np.array(orders)).min())
        assert planned(seen, job).objective == pytest.approx(best, rel=1e-7)


def test_greedy_and_polish_alone_stay_near_the_best_of_all(capsys: pytest.CaptureFixture[str]) -> None:
    """The search that larger problems get, measured where the truth is known."""
    gaps: list[float] = []
    for fields in JOBS.values():
        for seed in range(12):
            problem = problem_of(seed, 7, fields)
            gaps.append(searched(problem) / best_of_all(problem) - 1.0)
    with capsys.disabled():
        sys.stdout.write(f"\n  greedy + polish against all placements: mean {np.mean(gaps):.2%}, worst {max(gaps):.2%} of {len(gaps)}\n")
    assert np.mean(gaps) < 0.02
    assert max(gaps) < 0.15


def searched(problem: Problem) -> float:
    nodes = len(problem.nodes)
    costs = problem.costs(np.arange(nodes))
    nobody = np.zeros(0, dtype=np.int64)
    found = [
        float(polish_all(costs, problem.slots, order[None, :], np.zeros(count, dtype=np.bool_))[1][0])
        for count in problem.counts()
        for order in greedy(costs, problem.slots, count, np.arange(nodes), nobody)
    ]
    return min(found)
