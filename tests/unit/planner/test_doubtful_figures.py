"""Figures that have not been steady widen a forecast; they move no running job."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from hyperscale.model.admission_query import Claim
from hyperscale.model.api.policy import GpuModel, PolicySpec
from hyperscale.model.cluster import ClusterSnapshot, GpuPaths
from hyperscale.model.planning import PlanRequest
from hyperscale.model.running_query import JobMigration, MigrationQuestion, RunningJob
from hyperscale.planner.graph.cluster_graph import build
from hyperscale.planner.migration.migration_evaluation import evaluate_migrations
from hyperscale.planner.search.heuristic import Heuristic
from hyperscale.planner.workload.profile import profile
from tests.builders.clusters import POLICY, both_ways, gpu_node, link, planned, snapshot, training

NAMES = ["a1", "a2", "a3", "a4", "a5", "a6"]
JOB = training(workers={"minReplicas": 4, "maxReplicas": 4})


def cluster(slow: str = "", link_confidence: float = 1.0, use_confidence: float = 1.0) -> ClusterSnapshot:
    """Links of `slow` are ten times worse; all figures of links, or of the GPUs' use, are that sure."""
    links = []
    for one in both_ways(NAMES, latency_seconds=1e-4, bandwidth_bytes_per_second=1e9):
        found = link(one.source, one.destination, 1e-3, 1e8) if slow in (one.source, one.destination) else one
        links.append(
            replace(
                found,
                latency_seconds=replace(found.latency_seconds, confidence=link_confidence),
                bandwidth_bytes_per_second=replace(found.bandwidth_bytes_per_second, confidence=link_confidence),
            )
        )
    nodes = [gpu_node(name, load=0.2) for name in NAMES]
    sure = [
        replace(
            node, gpus=tuple(replace(gpu, utilization_ratio=replace(gpu.utilization_ratio, confidence=use_confidence)) for gpu in node.gpus)
        )
        for node in nodes
    ]
    return snapshot(*sure, links=tuple(links))


def advice(seen: ClusterSnapshot) -> JobMigration:
    plan = planned(cluster(), JOB)
    job = RunningJob(
        PlanRequest(job_key="team-a/gnn", job=JOB), plan, {worker.node: Claim(gpus=1) for worker in plan.workers}, 50_000.0, 0.0
    )
    moves = evaluate_migrations(
        MigrationQuestion((job,)), build(seen, POLICY), POLICY, lambda one: profile(one.request.job), lambda: False, Heuristic()
    )
    return moves.advice[0]


@pytest.mark.parametrize("doubt", ["link_confidence", "use_confidence"])
def test_low_confidence_widens_the_forecast_and_nothing_else(doubt: str) -> None:
    seen = [cluster("", sure, 1.0) if doubt == "link_confidence" else cluster("", 1.0, sure) for sure in (1.0, 0.5, 0.1)]
    plans = [planned(one, JOB) for one in seen]
    predicted = [plan.predicted for plan in plans]
    assert len({tuple(worker.node for worker in plan.workers) for plan in plans}) == 1
    assert len({one.epoch_seconds for one in predicted}) == 1
    lows, highs = [[getattr(one, name) for one in predicted] for name in ("low_seconds", "high_seconds")]
    assert lows == sorted(set(lows), reverse=True)
    assert highs == sorted(set(highs))


def test_a_gain_that_noise_may_have_made_moves_no_job() -> None:
    slow = planned(cluster(), JOB).workers[1].node
    assert advice(cluster(slow)).moved == (1,)
    assert advice(cluster(slow, link_confidence=0.9)).moved == (1,)
    assert advice(cluster(slow, link_confidence=0.1)).moved == ()


WHOLE = training(workers={"minReplicas": 1, "maxReplicas": 1, "resources": {"limits": {"nvidia.com/gpu": 8}}})
TOLD = PolicySpec(gpus=(GpuModel("NVIDIA-A100", intra_node_bytes_per_second=2.4e11),))
WAITS = PolicySpec(gpus=(GpuModel("NVIDIA-A100", intra_node_latency_nanoseconds=5000),))


@pytest.mark.parametrize(
    ("fields", "policy", "told"),
    [
        ({}, POLICY, False),
        ({}, WAITS, False),
        ({}, TOLD, True),
        ({"gpu_paths": GpuPaths("NVLink", 12)}, POLICY, True),
        ({"gpu_paths": GpuPaths("PcieSwitch")}, POLICY, True),
        ({"gpu_paths": GpuPaths("System")}, POLICY, False),
        ({"gpu_paths": GpuPaths("System"), "product": "NVIDIA-X1"}, POLICY, False),
    ],
)
def test_the_inside_of_a_node_by_its_product_alone_is_a_guess(fields: dict[str, Any], policy: PolicySpec, told: bool) -> None:
    plan = planned(snapshot(gpu_node("n", free=8, **fields)), WHOLE, policy)
    assert plan.allreduce is not None
    assert plan.allreduce.measured is told
    name = fields.get("product", "NVIDIA-A100-SXM4-80GB")
    assert (f"IntraNodeLinkAssumed:{name}" in plan.fallbacks) is not told


def test_an_assumed_inside_widens_the_forecast_as_an_estimated_link_does() -> None:
    seen = snapshot(gpu_node("n", free=8))
    assumed, told = planned(seen, WHOLE).predicted, planned(seen, WHOLE, TOLD).predicted
    assert (assumed.epoch_seconds, assumed.communication_seconds) == (told.epoch_seconds, told.communication_seconds)
    network = assumed.communication_seconds
    assert (told.low_seconds or 0.0) - (assumed.low_seconds or 0.0) == pytest.approx(network * (0.8 - 0.3), rel=1e-6)
    assert (assumed.high_seconds or 0.0) - (told.high_seconds or 0.0) == pytest.approx(network * (3.0 - 1.5), rel=1e-6)


def test_a_node_with_one_rank_has_no_inside_to_assume() -> None:
    assert planned(cluster(), JOB).fallbacks == ()
    shared = snapshot(gpu_node("n", free=2))
    assert planned(shared, training(workers={"minReplicas": 2, "maxReplicas": 2})).fallbacks == (
        "IntraNodeLinkAssumed:NVIDIA-A100-SXM4-80GB",
    )
