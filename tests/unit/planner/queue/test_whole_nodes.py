"""The worker counts that the queue compares: the one that fills a node is among them, so that a wider range never makes a job slower."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hyperscale.model.admission_query import AdmissionRequest, QueuedJob, RunningShare
from hyperscale.model.api.policy import PolicySpec, QueueOrder, QueuePolicy
from hyperscale.model.cluster import Quality, Sample
from hyperscale.model.graph import ClusterGraph
from hyperscale.model.plan import Infeasible, Plan
from hyperscale.model.planning import PlanRequest
from hyperscale.planner.choice.portfolio import make_plan
from hyperscale.planner.graph.cluster_graph import build
from hyperscale.planner.queue.joint import take_turns
from hyperscale.planner.queue.options import MOST_COUNTS, counts_of
from hyperscale.planner.queue.placement_oracle import Expired, PlacementOracle
from hyperscale.planner.queue.queue_policies import choosers
from hyperscale.planner.workload.profile import profile
from tests.builders.clusters import both_ways, gpu_node, snapshot, training

POLICY = PolicySpec(queue=QueuePolicy(order=QueueOrder.RULE))
NAMES = [f"h{number}" for number in range(8)]
RAILS: dict[str, Any] = {"network_bytes_per_second": Sample(5e10, 3.0, Quality.MEASURED), "network_cards": 8}
NODES = [gpu_node(name, free=8, product="NVIDIA-H100-80GB-HBM3", **RAILS) for name in NAMES]
EIGHT_OF_EIGHT_H100 = snapshot(*NODES, links=both_ways(NAMES, latency_seconds=5e-6, bandwidth_bytes_per_second=4e11))


def asked(fewest: int, most: int) -> PlanRequest:
    workers = {"minReplicas": fewest, "maxReplicas": most, "gpuMemory": "10Gi", "resources": {"limits": {"nvidia.com/gpu": 1}}}
    return PlanRequest("team/job", training(workers=workers))


def place(request: PlanRequest, graph: ClusterGraph, expired: Expired) -> Plan | Infeasible:
    return make_plan(request, graph, profile(request.job), POLICY, expired=expired)


@pytest.fixture(scope="module")
def graph() -> ClusterGraph:
    return build(EIGHT_OF_EIGHT_H100, POLICY)


@pytest.mark.parametrize("most", [8, 13, 16, 64])
def test_on_8_gpu_nodes_a_job_beside_others_fills_a_node_however_many_workers_it_may_have(graph: ClusterGraph, most: int) -> None:
    question = AdmissionRequest(jobs=(QueuedJob(asked(1, most)),), running=(RunningShare("team/other", 1, 1e6),), free_gpus={"h0": 7})
    (start,) = take_turns(question, PlacementOracle(graph, POLICY, place), POLICY.queue, choosers(POLICY.queue)).starts
    assert len(start.plan.workers) % 8 == 0
    assert len(start.plan.ranks_by_node) == len(start.plan.workers) // 8


@given(
    fewest=st.integers(1, 20), more=st.integers(0, 100), limit=st.integers(2, MOST_COUNTS), node_workers=st.integers(0, 20), data=st.data()
)
def test_the_counts_are_few_allowed_and_hold_both_ends_and_a_whole_node(
    fewest: int, more: int, limit: int, node_workers: int, data: st.DataObject
) -> None:
    largest = data.draw(st.integers(fewest, fewest + more))
    counts = counts_of(asked(fewest, fewest + more), largest, limit, node_workers)
    assert counts == sorted(set(counts))
    assert len(counts) <= max(2, limit)
    assert (counts[0], counts[-1]) == (fewest, largest)
    if limit > 2 and fewest <= node_workers <= largest:
        assert node_workers in counts
