"""Agents measure the pod network: between nodes of one fabric their figures do not count, a dead link does."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hyperscale.model.cluster import ClusterSnapshot, Link, Origin, Quality, Sample
from hyperscale.model.digest import snapshot_digest
from hyperscale.model.graph import ClusterGraph
from hyperscale.planner.graph.cluster_graph import build
from tests.builders.clusters import POLICY, gpu_node, planned, snapshot, training

FABRIC = 8 * 50e9
INFINIBAND: dict[str, Any] = {
    "network_cards": 8,
    "network_bytes_per_second": Sample(50e9, 3.0, Quality.MEASURED, source=Origin.INFINIBAND),
}
P5 = {"node.kubernetes.io/instance-type": "p5.48xlarge"}


def sample(value: float, source: str) -> Sample:
    return Sample(value, 3.0, Quality.MEASURED, source=source)


def probed(source: str, latency: float = 5e-5, bandwidth: float = 3e9, names: str = "abcdef") -> tuple[Link, ...]:
    return tuple(Link(one, other, sample(latency, source), sample(bandwidth, source)) for one in names for other in names if one != other)


def on_infiniband(links: tuple[Link, ...] = (), zones: tuple[str, ...] = ("eu/a",), **fields: Any) -> ClusterSnapshot:
    given = INFINIBAND | fields
    return snapshot(*(gpu_node(name, free=8, domain=zones[at % len(zones)], **given) for at, name in enumerate("abcdef")), links=links)


def figures(graph: ClusterGraph, one: int = 0, other: int = 1) -> tuple[float, float]:
    links = graph.link_costs(np.array([one, other]))
    return float(links.latency_seconds[0, 1]), float(links.bandwidth_bytes_per_second[0, 1])


def test_probes_of_the_pod_network_leave_a_fabric_s_figures_as_they_are() -> None:
    assert figures(build(on_infiniband(), POLICY))[1] == FABRIC
    assert figures(build(on_infiniband(probed(Origin.AGENT)), POLICY)) == figures(build(on_infiniband(), POLICY))


def test_one_probed_pair_does_not_differ_from_the_others() -> None:
    graph = build(on_infiniband(probed(Origin.AGENT, names="ab")), POLICY)
    assert figures(graph) == figures(graph, 2, 3)


def test_probes_leave_a_fabric_of_the_instance_type_as_it_is() -> None:
    def typed(links: tuple[Link, ...]) -> ClusterSnapshot:
        nodes = [gpu_node(name, free=8) for name in "abcdef"]
        return snapshot(*(gpu_node(node.name, free=8, labels=node.labels | P5) for node in nodes), links=links)

    plain, seen = (figures(build(typed(links), POLICY)) for links in ((), probed(Origin.AGENT)))
    assert plain == seen
    assert seen[1] > 1e11


@pytest.mark.parametrize("source", [Origin.OVERRIDE, Origin.PROMETHEUS, ""])
def test_figures_of_other_sources_count(source: str) -> None:
    assert figures(build(on_infiniband(probed(source)), POLICY)) == (5e-5, 3e9)


def test_the_plan_says_that_the_cards_rate_counts() -> None:
    job = training(workers={"minReplicas": 16, "maxReplicas": 16, "resources": {"limits": {"nvidia.com/gpu": 1, "rdma/ib": 1}}})
    for links, said in (((), False), (probed(Origin.AGENT), True), (probed(Origin.PROMETHEUS), False)):
        plan = planned(on_infiniband(links), job)
        assert any("not what agents measured on the pod network" in reason for reason in plan.reasons) is said
        assert len(plan.ranks_by_node) == 2 or not said


def test_a_dead_link_stays_dead() -> None:
    links = build(on_infiniband(probed(Origin.AGENT, bandwidth=0.0, names="ab")), POLICY).link_costs(np.arange(3))
    assert not links.reachable[0, 1]
    assert links.reachable[0, 2]


def test_a_node_that_answers_some_is_not_cut_off() -> None:
    dead = [link for link in probed(Origin.AGENT, bandwidth=0.0, names="abc") if "a" in (link.source, link.destination)]
    alive = probed(Origin.AGENT, names="ad")
    assert 0 in build(on_infiniband(tuple(dead)), POLICY).cut_off
    assert 0 not in build(on_infiniband((*dead, *alive)), POLICY).cut_off


def test_probes_between_zones_and_off_the_fabric_count() -> None:
    assert figures(build(on_infiniband(probed(Origin.AGENT), zones=("eu/a", "eu/b")), POLICY)) == (5e-5, 3e9)
    ethernet = sample(50e9, Origin.NODE_EXPORTER)
    assert figures(build(on_infiniband(probed(Origin.AGENT), network_bytes_per_second=ethernet), POLICY)) == (5e-5, 3e9)


def test_who_measured_a_link_is_part_of_the_digest() -> None:
    by_agent, by_query, untold = (snapshot_digest(on_infiniband(probed(source))) for source in (Origin.AGENT, Origin.PROMETHEUS, ""))
    assert by_agent != by_query == untold


def test_networks_that_do_not_talk_to_each_other_are_not_one_fabric() -> None:
    def pair(one: str, other: str) -> float:
        nodes = [gpu_node(name, free=8) for name in "ab"]
        typed = [
            gpu_node(node.name, free=8, labels=node.labels | {"node.kubernetes.io/instance-type": kind})
            for node, kind in zip(nodes, (one, other), strict=True)
        ]
        return figures(build(snapshot(*typed, links=probed(Origin.AGENT, names="ab")), POLICY))[1]

    assert pair("a3-highgpu-8g", "a3-ultragpu-8g") == 3e9, "TCPX beside RoCE: what agents measured counts"
    assert pair("Standard_ND96amsr_A100_v4", "Standard_ND96isr_H100_v5") == 3e9
    assert pair("p4d.24xlarge", "p5.48xlarge") == 5e10, "EFA is one network"
