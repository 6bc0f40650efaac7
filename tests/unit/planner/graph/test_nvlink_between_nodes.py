"""Nodes of one NVLink domain whose boards have switches between nodes exchange by NVLink, all their GPUs at once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hyperscale.model.cluster import ClusterSnapshot, GpuPaths, Link, Origin, Quality, Sample
from hyperscale.model.graph import ClusterGraph
from hyperscale.planner.graph.cluster_graph import build
from tests.builders.clusters import LEVELS, POLICY, gpu_node, planned, snapshot, training

CLIQUE = "nvidia.com/gpu.clique"
RATE = 4 * 720e9
"""Of a node: four GPUs of 18 NVLinks of 50 GB/s, 0.8 of it sustained."""


def racks(product: str = "NVIDIA-GB200", links: tuple[Link, ...] = (), count: int = 8, **fields: Any) -> ClusterSnapshot:
    """Two NVLink domains by turns."""
    nodes = []
    for at in range(count):
        domain = f"eu/a/dom.{at % 2}"
        given: dict[str, Any] = {"domains": ("eu", "eu/a", domain)} | fields
        nodes.append(gpu_node(f"n{at}", free=4, product=product, **given))
    return snapshot(*nodes, links=links, levels=(*LEVELS, CLIQUE))


def bandwidth(graph: ClusterGraph, one: int, other: int) -> float:
    return float(graph.link_costs(np.array([one, other])).bandwidth_bytes_per_second[0, 1])


@pytest.mark.parametrize("product", ["NVIDIA-GB200", "NVIDIA-GB300"])
def test_nodes_of_one_domain_have_the_nvlinks_of_all_their_gpus(product: str) -> None:
    graph = build(racks(product), POLICY)
    assert bandwidth(graph, 0, 2) == pytest.approx(RATE)
    assert bandwidth(graph, 0, 1) < 1e11
    assert graph.machine.rails.tolist() == [4] * 8


def test_network_cards_do_not_bound_nvlinks() -> None:
    cards = Sample(50e9, 3.0, Quality.MEASURED, source=Origin.INFINIBAND)
    graph = build(racks(network_bytes_per_second=cards, network_cards=4), POLICY)
    assert bandwidth(graph, 0, 2) == pytest.approx(RATE)
    assert bandwidth(graph, 0, 1) == pytest.approx(200e9)


@pytest.mark.parametrize("product", ["NVIDIA-H100-80GB-HBM3", "NVIDIA-B200"])
def test_boards_without_switches_between_nodes_keep_their_network(product: str) -> None:
    graph = build(racks(product), POLICY)
    assert bandwidth(graph, 0, 2) < 1e11
    assert graph.machine.rails.tolist() == [1] * 8


def test_nodes_whose_agents_find_no_nvlink_keep_their_network() -> None:
    assert bandwidth(build(racks(gpu_paths=GpuPaths("System")), POLICY), 0, 2) < 1e11


def test_a_level_of_another_kind_is_no_nvlink_domain() -> None:
    cluster = snapshot(*(gpu_node(f"n{at}", free=4, product="NVIDIA-GB200") for at in range(4)))
    assert bandwidth(build(cluster, POLICY), 0, 1) < 1e11


@pytest.mark.parametrize(("source", "counts"), [(Origin.AGENT, False), (Origin.OVERRIDE, True)])
def test_probes_of_the_pod_network_do_not_count_inside_a_domain(source: str, counts: bool) -> None:
    figures = Sample(5e-5, 3.0, Quality.MEASURED, source=source), Sample(3e9, 3.0, Quality.MEASURED, source=source)
    links = tuple(Link(f"n{one}", f"n{other}", *figures) for one in range(8) for other in range(8) if one != other)
    graph = build(racks(links=links), POLICY)
    assert bandwidth(graph, 0, 2) == pytest.approx(3e9 if counts else RATE)
    assert bandwidth(graph, 0, 1) == pytest.approx(3e9)


def test_workers_fill_the_nodes_of_a_domain() -> None:
    plan = planned(racks(count=16), training(workers={"minReplicas": 8, "maxReplicas": 8}))
    assert sorted(plan.ranks_by_node.values()) == [4, 4]
    assert len({int(name[1:]) % 2 for name in plan.ranks_by_node}) == 1
