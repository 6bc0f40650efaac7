"""Where a figure came from decides a plan: then it is part of the snapshot's digest and of a question's identity."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from hyperscale.model.cluster import ClusterSnapshot, Origin, Quality, Sample
from hyperscale.model.digest import snapshot_digest
from hyperscale.model.graph import Fabrics
from hyperscale.model.plan import Plan
from hyperscale.model.planning import PlanRequest
from hyperscale.planner.choice.portfolio import make_plan
from hyperscale.planner.graph.cluster_graph import build
from hyperscale.planner.problem.placement_problem import pose
from hyperscale.planner.search.heuristic import Heuristic
from hyperscale.planner.workload.profile import profile
from tests.builders.clusters import POLICY, gpu_node, snapshot, training

JOB = training(workers={"minReplicas": 1, "maxReplicas": 16, "resources": {"limits": {"nvidia.com/gpu": 1, "rdma/ib": 1}}})
REQUEST = PlanRequest(job_key="team-a/gnn", job=JOB)


def cards(source: str, **fields: Any) -> ClusterSnapshot:
    """Four nodes of eight GPUs whose eight cards were read by `source`."""
    speed = Sample(50e9, 3.0, Quality.MEASURED, source=source)
    return snapshot(*(gpu_node(f"n{at}", free=8, network_bytes_per_second=speed, network_cards=8, **fields) for at in range(4)))


def planned_by(planner: Heuristic, cluster: ClusterSnapshot) -> Plan:
    plan = make_plan(REQUEST, build(cluster, POLICY), profile(JOB), POLICY, planners=[planner])
    assert isinstance(plan, Plan)
    return plan


def test_the_exporter_that_read_the_cards_is_part_of_the_digest() -> None:
    sources = (Origin.INFINIBAND, Origin.NODE_EXPORTER, Origin.AGENT)
    assert len({snapshot_digest(cards(source)) for source in sources}) == len(sources)
    assert snapshot_digest(cards(Origin.AGENT)) == snapshot_digest(cards(Origin.PROMETHEUS))


def test_an_administrator_s_count_of_cards_is_part_of_the_digest() -> None:
    stated, counted = ({"networkCards": source} for source in (Origin.OVERRIDE, Origin.NODE_EXPORTER))
    assert snapshot_digest(cards("", sources=stated)) != snapshot_digest(cards("", sources=counted)) == snapshot_digest(cards(""))


def test_a_warm_planner_does_not_answer_with_another_cluster_s_search() -> None:
    fabric, ethernet = cards(Origin.INFINIBAND), cards(Origin.NODE_EXPORTER)
    cold = {cluster: planned_by(Heuristic(), each) for cluster, each in (("fabric", fabric), ("ethernet", ethernet))}
    assert cold["fabric"].plan_id != cold["ethernet"].plan_id
    warm = Heuristic()
    assert planned_by(warm, fabric) == cold["fabric"]
    assert planned_by(warm, ethernet) == cold["ethernet"]


@pytest.mark.parametrize("field", ["rails", "cards_left_ratio", "card_bytes_per_second", "fabric"])
def test_problems_on_other_machines_differ(field: str) -> None:
    graph = build(cards(Origin.INFINIBAND), POLICY)
    fabric = graph.machine.fabric
    assert fabric is not None
    plain = Fabrics(np.zeros(4, dtype=np.bool_), fabric.hop_seconds, fabric.tiers)
    other: Any = plain if field == "fabric" else getattr(graph.machine, field) * 0.5
    given: dict[str, Any] = {field: other}
    changed = replace(graph, machine=replace(graph.machine, **given))
    assert pose(REQUEST, graph, profile(JOB), POLICY).identity == pose(REQUEST, graph, profile(JOB), POLICY).identity
    assert pose(REQUEST, graph, profile(JOB), POLICY).identity != pose(REQUEST, changed, profile(JOB), POLICY).identity


def test_problems_on_other_insides_differ() -> None:
    graph = build(cards(Origin.INFINIBAND, product="NVIDIA-H100-80GB-HBM3"), POLICY)
    changed = replace(graph, inside=replace(graph.inside, sharp_efficiency=np.zeros(4)))
    assert pose(REQUEST, graph, profile(JOB), POLICY).identity != pose(REQUEST, changed, profile(JOB), POLICY).identity
