"""Compiled modules at the edges of what they can be asked: an answer or an error in words, never memory that is not theirs."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from hyperscale.model.graph import IntArray
from hyperscale.model.planning import PlanRequest
from hyperscale.planner.cost.objective import Costs, objectives
from hyperscale.planner.graph.cluster_graph import build
from hyperscale.planner.problem.placement_problem import pose
from hyperscale.planner.search import exact
from hyperscale.planner.search.kernels import kernel
from hyperscale.planner.workload.profile import profile
from tests.builders.clusters import POLICY, random_cluster, training

compiled = pytest.mark.skipif(not kernel.COMPILED, reason="the compiled kernel is not built here")


def instance(nodes: int = 6) -> tuple[Costs, IntArray]:
    """Costs and one slot each."""
    job = training()
    graph = build(random_cluster(1, nodes), POLICY)
    return pose(PlanRequest(job_key="a/b", job=job), graph, profile(job), POLICY).costs(np.arange(nodes)), np.ones(nodes, dtype=np.int64)


def test_a_job_all_of_whose_ranks_stay_has_a_bound_and_no_search() -> None:
    costs, slots = instance()
    order = np.array([0, 1, 2])
    proof = exact.branch_and_bound(costs, slots, 3, order, pinned=order)
    assert proof.work == 0
    assert proof.order is order
    assert proof.lower_bound <= objectives(costs, order[None, :])[0]


@compiled
@pytest.mark.parametrize(("pinned", "length"), [([0, 1, 2], 3), ([0, 1, 2, 3], 3), ([6], 3), ([-1], 3), ([0], 2)])
def test_branch_and_bound_refuses_what_it_has_no_room_for(pinned: list[int], length: int) -> None:
    from hyperscale.planner.search.kernels import _branch

    costs, slots = instance()
    search = kernel.kernel_for(costs, slots, 3)
    assert search is not None
    with pytest.raises(ValueError, match=r"no place is left|on no candidate"):
        _branch.branch_and_bound(search, np.array(pinned, np.int32), np.zeros(length, np.int32), 1e40, 1000, lambda: False)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_links_without_a_figure_end_in_no_placement_or_any(value: float) -> None:
    costs, _ = instance()
    links = np.full((6, 6), value)
    costs = dataclasses.replace(costs, latency_seconds=links, seconds_per_byte=links, memory_bytes=np.full(6, np.inf))
    order = np.arange(5)
    with np.errstate(invalid="ignore"):
        rows = kernel.rings(costs, order[None, :])
        assert sorted(rows[0]) == list(order)


@pytest.mark.parametrize("nodes", [1, 2, 65, 129])
def test_any_number_of_candidates_is_placed(nodes: int) -> None:
    costs, slots = instance(nodes)
    for workers in {1, min(2, nodes), min(12, nodes)}:
        found, seconds = kernel.local_search(costs, slots, kernel.greedy_all(costs, slots, workers))
        assert len(set(found[np.argmin(seconds)])) == workers
