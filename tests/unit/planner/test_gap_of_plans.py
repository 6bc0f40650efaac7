"""What a plan says of its distance from the best of all."""

from __future__ import annotations

import numpy as np
import pytest

from hyperscale.model.planning import PlanRequest
from hyperscale.planner.graph.cluster_graph import build
from hyperscale.planner.problem.placement_problem import Problem, pose
from hyperscale.planner.search.heuristic import Heuristic
from hyperscale.planner.search.kernels import kernel
from hyperscale.planner.search.subregions import domains_with_room
from hyperscale.planner.workload.profile import profile
from tests.builders.clusters import POLICY, planned, random_cluster, training

pytestmark = pytest.mark.skipif(not kernel.COMPILED, reason="the compiled kernel is not built here")


def problem_of(nodes: int, least: int, most: int) -> Problem:
    job = training(workers={"minReplicas": least, "maxReplicas": most})
    return pose(PlanRequest(job_key="team-a/gnn", job=job), build(random_cluster(3, nodes), POLICY), profile(job), POLICY)


def test_small_problems_are_proven_over_all_worker_counts() -> None:
    for least, most in ((4, 4), (1, 6)):
        plan = planned(random_cluster(5, 14), training(workers={"minReplicas": least, "maxReplicas": most}))
        assert plan.optimality_gap == 0.0


def test_the_bound_never_exceeds_the_best_placement() -> None:
    found = Heuristic().candidates(problem_of(40, 6, 9), lambda: False)
    assert found.lower_bound is not None
    assert found.lower_bound <= min(found).objective * (1 + 1e-9)


def test_no_bound_is_claimed_for_a_search_that_time_cut_short_before_it_knew_one() -> None:
    found = Heuristic().candidates(problem_of(40, 6, 9), lambda: True)
    assert found.lower_bound is None or found.lower_bound <= min(found).objective


def test_domains_with_room_are_parts_of_the_region_that_can_host_all_workers() -> None:
    problem = problem_of(30, 4, 4)
    region = np.arange(len(problem.nodes))
    for members in domains_with_room(problem, region, 4):
        assert int(problem.slots[members].sum()) >= 4
        assert (np.diff(members) > 0).all()
