"""A plan lists the links between its nodes for the workers: few digits, both directions as the slower one, no more nodes than it may."""

from __future__ import annotations

import json
import math

import msgspec
import numpy as np
import pytest

from hyperscale.control.render.mpijob import MAX_ANNOTATION_BYTES, plan_annotation
from hyperscale.model.api.node_links import MAX_LINKED_NODES, NodeLinks
from hyperscale.model.plan import Plan, WorkerPlacement
from hyperscale.planner.check.artifact import to_json
from hyperscale.planner.choice.links_of_plan import links_of_plan
from hyperscale.planner.graph.cluster_graph import build
from tests.builders.clusters import POLICY, both_ways, gpu_node, planned, snapshot, training

NAMES = ["n0", "n1", "n2"]
THREE = snapshot(*(gpu_node(name, free=2) for name in NAMES), links=both_ways(NAMES))


def on_nodes(count: int) -> NodeLinks | None:
    graph = build(snapshot(*(gpu_node(f"n{number:03}") for number in range(count))), POLICY)
    return links_of_plan(graph.link_costs(np.arange(count)), np.arange(count))


def test_figures_are_the_graphs_in_the_order_of_first_workers_rounded_and_as_slow_as_the_slower_direction() -> None:
    graph = build(THREE, POLICY)
    links = links_of_plan(graph.link_costs(np.arange(3)), np.array([2, 2, 0, 1]))
    assert links is not None
    costs = graph.link_costs(np.array([2, 0, 1]))
    pairs = [(0, 0), (0, 1), (0, 2), (1, 1), (1, 2), (2, 2)]
    slower = [1.0 / min(costs.bandwidth_bytes_per_second[a, b], costs.bandwidth_bytes_per_second[b, a]) for a, b in pairs]
    assert links.seconds_per_byte == pytest.approx(slower, rel=5e-3)
    later = [max(costs.latency_seconds[a, b], costs.latency_seconds[b, a]) for a, b in pairs]
    assert links.latency_seconds == pytest.approx(later, rel=5e-3)
    assert all(float(f"{figure:.3g}") == figure for figure in (*links.seconds_per_byte, *links.latency_seconds))


def test_a_plan_of_several_nodes_has_links_and_one_of_a_single_node_has_none() -> None:
    several = planned(THREE, training(workers={"minReplicas": 6, "maxReplicas": 6}))
    nodes = len(several.ranks_by_node)
    assert nodes == 3
    assert several.links is not None
    assert len(several.links.seconds_per_byte) == len(several.links.latency_seconds) == nodes * (nodes + 1) // 2
    alone = planned(snapshot(gpu_node("n0", free=4)), training(workers={"minReplicas": 4, "maxReplicas": 4}))
    assert alone.links is None
    assert "links" not in json.loads(to_json(alone))


def test_many_nodes_have_links_up_to_a_number_that_the_annotation_can_carry() -> None:
    assert on_nodes(MAX_LINKED_NODES + 1) is None
    most = on_nodes(MAX_LINKED_NODES)
    assert most is not None
    workers = tuple(
        WorkerPlacement(at, at, f"ip-10-0-{at % MAX_LINKED_NODES}-17.eu-central-1.compute.internal", 1, 1 / 512, "NVIDIA-H100-80GB-HBM3")
        for at in range(512)
    )
    plan = msgspec.structs.replace(planned(THREE, training()), workers=workers, links=most)
    assert len(plan_annotation(plan)) < MAX_ANNOTATION_BYTES
    assert msgspec.json.decode(plan_annotation(plan), type=Plan).links == most


@pytest.mark.parametrize("rate", [1e-320, math.inf])
def test_a_rate_whose_inverse_is_no_figure_leaves_the_links_out(rate: float) -> None:
    costs = build(THREE, POLICY).link_costs(np.arange(3))
    costs.bandwidth_bytes_per_second[0, 0] = rate
    assert links_of_plan(costs, np.arange(3)) is None
