"""60,000 nodes: what is done before and after the deadline is bounded by figures, not by the cluster's square."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from msgspec.structs import replace

from hyperscale.model.api.job import PlannerChoice
from hyperscale.model.cluster import ClusterSnapshot, GpuPaths
from hyperscale.model.graph import ClusterGraph, IntArray, LinkCosts
from hyperscale.model.plan import Plan
from hyperscale.model.planning import PlanRequest
from hyperscale.planner.choice.portfolio import make_plan
from hyperscale.planner.graph import inside
from hyperscale.planner.graph.cluster_graph import build
from hyperscale.planner.problem.placement_problem import Problem, pose
from hyperscale.planner.search.heuristic import Expired, Heuristic
from hyperscale.planner.search.pools import MOST_PAIRS, Pools
from hyperscale.planner.search.search_result import Candidate
from hyperscale.planner.workload.profile import profile
from tests.builders.clusters import POLICY, gpu_node, snapshot, training

NODES = 60_000
JOB = training()


@pytest.fixture(scope="module")
def seen() -> ClusterSnapshot:
    return snapshot(*(gpu_node(f"n{at:05d}", load=None, domain=f"r{at // 5000}/z{at // 100}") for at in range(NODES)))


def test_neighbourhoods_of_a_very_large_cluster_are_scored_by_a_bounded_number_of_links(
    seen: ClusterSnapshot, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = pose(PlanRequest(job_key="a/b", job=JOB), build(seen, POLICY), profile(JOB), POLICY)
    read = 0
    whole = ClusterGraph.link_costs_between

    def counted(graph: ClusterGraph, rows: IntArray, columns: IntArray) -> LinkCosts:
        nonlocal read
        read += len(rows) * len(columns)
        return whole(graph, rows, columns)

    monkeypatch.setattr(ClusterGraph, "link_costs_between", counted)
    assert len(Pools(problem, np.arange(NODES)).pool(4)) < NODES
    assert 0 < read <= MOST_PAIRS


def test_the_inside_is_looked_up_once_for_each_kind_of_node(seen: ClusterSnapshot, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str | None] = []
    found = inside.exchange_of

    def counted(product: str | None, paths: GpuPaths | None = None, gpus: int = 0) -> inside.Exchange:
        asked.append(product)
        return found(product, paths, gpus)

    monkeypatch.setattr(inside, "exchange_of", counted)
    assert len(inside.insides(seen.nodes, POLICY).latency_seconds) == NODES
    assert len(asked) == 1


def test_once_time_is_up_no_other_planner_is_asked_where_one_has_proposed_something() -> None:
    class First:
        name = "Learned"

        def candidates(self, problem: Problem, expired: Expired) -> Sequence[Candidate]:
            return tuple(Heuristic().candidates(problem, expired))

    class Late:
        name = "Heuristic"

        def candidates(self, problem: Problem, expired: Expired) -> Sequence[Candidate]:
            raise AssertionError("asked after the deadline")

    few = snapshot(*(gpu_node(f"n{at}") for at in range(4)))
    job = replace(JOB, planner=PlannerChoice.LEARNED)
    request = PlanRequest(job_key="a/b", job=job)
    plan = make_plan(request, build(few, POLICY), profile(job), POLICY, expired=lambda: True, planners=(First(), Late()))
    assert isinstance(plan, Plan)
    assert plan.fallbacks.count("HeuristicFailed") == 0
