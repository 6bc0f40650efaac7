"""Cards, their running traffic and uplinks of every node: by the best source, and unknown where nothing can be used."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from hyperscale.model.api.policy import Overrides, PolicySpec, UplinkOverride
from hyperscale.model.cluster import Node, Quality, Sample
from hyperscale.model.graph import ClusterGraph
from hyperscale.planner.graph.cluster_graph import build
from hyperscale.planner.graph.machine_resources import Cards, cards_of, without_own_traffic
from hyperscale.planner.graph.machines_table import INSTANCE_TYPES
from tests.builders.clusters import LEVELS, both_ways, gpu_node, measured, snapshot

ZONE = LEVELS[1]
INSTANCE = "node.kubernetes.io/instance-type"


def said(value: float, source: str = "infiniband") -> Sample:
    return Sample(value=value, age_seconds=3.0, quality=Quality.MEASURED, source=source)


def machine_of(name: str, kind: str, free: int = 8, **fields: Any) -> Node:
    labels = {INSTANCE: kind, LEVELS[0]: "eu", ZONE: "a"}
    return gpu_node(name, free=free, labels=labels, **fields)


def graph_of(*nodes: Node, uplinks: tuple[UplinkOverride, ...] = (), **fields: Any) -> ClusterGraph:
    return build(snapshot(*nodes, **fields), PolicySpec(overrides=Overrides(uplinks=uplinks)))


@pytest.mark.parametrize(
    ("node", "cards"),
    [
        (gpu_node("n"), Cards(None, None, "")),
        (gpu_node("n", network_bytes_per_second=measured(1e9)), Cards(None, 1e9, "")),
        (gpu_node("n", network_bytes_per_second=said(5e10), network_cards=8), Cards(8, 5e10, "infiniband")),
        (machine_of("n", "p5.48xlarge"), Cards(32, 1.25e10, "instance-type")),
        (
            machine_of("n", "p5.48xlarge", network_bytes_per_second=said(1.25e10, "node-exporter"), network_cards=2),
            Cards(32, 1.25e10, "instance-type"),
        ),
        (machine_of("n", "BM.GPU.H100.8", network_bytes_per_second=said(2.5e10), network_cards=14), Cards(14, 2.5e10, "infiniband")),
        (machine_of("n", "BM.GPU.H100.8", network_bytes_per_second=said(2.5e10), network_cards=64), Cards(16, 2.5e10, "infiniband")),
        (machine_of("n", "BM.GPU.H100.8", network_bytes_per_second=said(2.5e10)), Cards(16, 2.5e10, "infiniband")),
        (machine_of("n", "p5.48xlarge", network_bytes_per_second=said(4e11, "override")), Cards(None, 4e11, "override")),
        (machine_of("n", "p5.48xlarge", network_cards=4, sources={"networkCards": "override"}), Cards(4, 1.25e10, "instance-type")),
        (machine_of("n", "m5.large", network_bytes_per_second=said(1e9, "node-exporter"), network_cards=1), Cards(1, 1e9, "node-exporter")),
    ],
)
def test_cards_come_from_the_best_source(node: Node, cards: Cards) -> None:
    assert cards_of(node) == cards


@pytest.mark.parametrize("value", [math.nan, math.inf, -1.0, 0.0])
def test_an_absurd_speed_is_unknown(value: float) -> None:
    graph = graph_of(gpu_node("n", network_bytes_per_second=said(value), network_cards=8))
    assert graph.card_bytes_per_second.tolist() == [math.inf]


def test_rails_are_cards_that_have_a_gpu_each() -> None:
    nodes = machine_of("a", "p5.48xlarge"), machine_of("b", "p5.48xlarge", 2), machine_of("c", "a3-highgpu-8g"), gpu_node("d", free=8)
    assert graph_of(*nodes, machine_of("e", "a3-highgpu-8g")).machine.rails.tolist() == [8, 2, 4, 1, 4]


def test_the_estimate_of_a_pair_is_bounded_by_all_cards_of_both_ends() -> None:
    nodes = tuple(gpu_node(name, network_bytes_per_second=measured(1e8), network_cards=cards) for name, cards in (("a", 4), ("b", 2)))
    assert graph_of(*nodes).link_costs(np.arange(2)).bandwidth_bytes_per_second[0, 1] == 2e8


def test_machines_on_one_fabric_reach_each_other_at_the_rate_of_all_cards() -> None:
    graph = graph_of(
        machine_of("a", "p5.48xlarge"), machine_of("b", "p5.48xlarge"), machine_of("c", "a2-highgpu-8g"), gpu_node("d", free=8)
    )
    costs = graph.link_costs(np.arange(4))
    assert (costs.latency_seconds[0, 1], costs.bandwidth_bytes_per_second[0, 1]) == (75e-6, 4e11)
    plain = graph_of(gpu_node("x"), gpu_node("y")).link_costs(np.arange(2))
    for place in (2, 3):
        assert costs.bandwidth_bytes_per_second[0, place] == plain.bandwidth_bytes_per_second[0, 1]
        assert costs.latency_seconds[0, place] == plain.latency_seconds[0, 1]


def test_a_fabric_ends_at_its_zone() -> None:
    far = gpu_node("b", free=8, domain="eu/b", network_bytes_per_second=said(5e10), network_cards=8)
    near = gpu_node("a", free=8, network_bytes_per_second=said(5e10), network_cards=8)
    assert graph_of(near, far).link_costs(np.arange(2)).bandwidth_bytes_per_second[0, 1] < 4e11


def test_measured_links_stand_whatever_the_machine() -> None:
    nodes = tuple(machine_of(f"n{at}", "p5.48xlarge") for at in range(4))
    graph = graph_of(*nodes, links=both_ways([node.name for node in nodes[:3]], latency_seconds=1e-5, bandwidth_bytes_per_second=1e9))
    costs = graph.link_costs(np.arange(4))
    assert (costs.latency_seconds[0, 1], costs.bandwidth_bytes_per_second[0, 1]) == (1e-5, 1e9)


@pytest.mark.parametrize(
    ("use", "left"),
    [
        (said(0.0), 1.0),
        (said(0.25), 0.75),
        (said(1.0), 0.05),
        (said(7.0), 1.0),
        (said(-0.5), 1.0),
        (said(math.nan), 1.0),
        (Sample(0.5, 3.0, Quality.ESTIMATED), 1.0),
        (Sample(None, 500.0, Quality.UNKNOWN, "older than the limit"), 1.0),
    ],
)
def test_fresh_traffic_leaves_a_part_of_the_cards_and_unknown_traffic_all(use: Sample, left: float) -> None:
    assert graph_of(gpu_node("n", network_use_ratio=use)).machine.cards_left_ratio.tolist() == pytest.approx([left])


def cluster(use: float = 0.0) -> tuple[Node, ...]:
    """Two nodes in each of two zones, with cards of 1e10, of which the first zone's send a part."""
    return tuple(
        gpu_node(
            f"{zone}{at}", domain=f"eu/{zone}", network_bytes_per_second=said(1e10), network_use_ratio=said(use if zone == "a" else 0.0)
        )
        for zone in "ab"
        for at in range(2)
    )


def test_uplinks_carry_what_the_policy_says_of_their_domain_or_of_its_level() -> None:
    graph = graph_of(*cluster(), uplinks=(UplinkOverride(ZONE, oversubscription=4.0), UplinkOverride(ZONE, "b", bytes_per_second=3e9)))
    assert graph.machine.uplink_domains.tolist() == [[0, 0, 1, 1]]
    assert graph.machine.uplink_bytes_per_second.tolist() == [[5e9, 3e9]]
    assert graph.machine.uplink_names == (("zone/eu/a", "zone/eu/b"),)


def test_a_domain_may_be_named_with_the_wider_ones_before_it() -> None:
    graph = graph_of(*cluster(), uplinks=(UplinkOverride(ZONE, "eu/a", bytes_per_second=3e9),))
    assert graph.machine.uplink_bytes_per_second.tolist() == [[3e9, math.inf]]


def test_a_label_that_is_no_topology_level_has_uplinks_too() -> None:
    nodes = tuple(gpu_node(name, labels={"pod": pod}) for name, pod in (("n0", "p1"), ("n1", "p2"), ("n2", "")))
    graph = graph_of(*nodes, uplinks=(UplinkOverride("pod", "p2", bytes_per_second=3e9),))
    assert graph.machine.uplink_domains.tolist() == [[0, 1, -1]]
    assert graph.machine.uplink_bytes_per_second.tolist() == [[math.inf, 3e9]]


def test_unknown_cards_below_an_oversubscribed_uplink_count_as_their_links_are_estimated() -> None:
    nodes = gpu_node("a"), gpu_node("b")
    graph = graph_of(*nodes, uplinks=(UplinkOverride(ZONE, oversubscription=4.0),))
    link = graph_of(*nodes).link_costs(np.arange(2)).bandwidth_bytes_per_second[0, 1]
    assert graph.machine.uplink_bytes_per_second.tolist() == [[2 * link / 4.0]]


def test_half_of_what_nodes_send_is_taken_from_their_uplinks_and_a_twentieth_stays() -> None:
    uplinks = (UplinkOverride(ZONE, bytes_per_second=1e10),)
    assert graph_of(*cluster(0.5), uplinks=uplinks).machine.uplink_bytes_per_second.tolist() == [pytest.approx([5e9, 1e10])]
    assert graph_of(*cluster(1.0), uplinks=uplinks).machine.uplink_bytes_per_second.tolist() == [pytest.approx([5e8, 1e10])]


def test_traffic_of_the_nodes_where_a_job_runs_does_not_count_against_it() -> None:
    whole = graph_of(*cluster(0.5), uplinks=(UplinkOverride(ZONE, bytes_per_second=1e10),)).machine
    own = without_own_traffic(whole, [0])
    assert own.cards_left_ratio.tolist() == [1.0, 0.5, 1.0, 1.0]
    assert own.uplink_bytes_per_second.tolist() == [pytest.approx([7.5e9, 1e10])]
    assert whole.cards_left_ratio.tolist() == [0.5, 0.5, 1.0, 1.0]
    assert without_own_traffic(whole, []).uplink_bytes_per_second.tolist() == whole.uplink_bytes_per_second.tolist()


def test_a_cluster_without_any_figure_has_nothing_shared() -> None:
    machine = graph_of(gpu_node("a"), gpu_node("b")).machine
    assert (machine.rails.tolist(), machine.cards_left_ratio.tolist()) == ([1, 1], [1.0, 1.0])
    assert (machine.uplink_domains.shape, machine.uplink_bytes_per_second.shape, machine.uplink_names) == ((0, 2), (0, 0), ())


def test_every_machine_type_has_cards_and_gpus() -> None:
    for entry in INSTANCE_TYPES.values():
        assert min(entry.gpus, entry.cards) >= 1
        assert 10 <= entry.gbit <= 800
        assert entry.hop_seconds is None or 1e-6 < entry.hop_seconds < 1e-3
