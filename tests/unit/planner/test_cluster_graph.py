"""The graph behind a plan: which figure a pair of nodes gets."""

from __future__ import annotations

import numpy as np
import pytest

from hyperscale.model.cluster import UNKNOWN_SAMPLE, AbsentLink, Link
from hyperscale.planner.graph.cluster_graph import build
from hyperscale.planner.graph.tiers import RACK, WORLD, constants
from tests.builders.clusters import LEVELS, POLICY, both_ways, gpu_node, link, measured, snapshot

ALL = np.arange(3)


def test_a_pair_has_the_figures_of_its_own_sample() -> None:
    costs = build(snapshot(gpu_node("a"), gpu_node("b"), links=(link("a", "b", 1e-3, 5e8),)), POLICY).link_costs(np.arange(2))
    assert (costs.latency_seconds[0, 1], costs.bandwidth_bytes_per_second[0, 1], costs.measured[0, 1]) == (1e-3, 5e8, True)


def test_an_unmeasured_direction_takes_the_opposite_one_and_is_not_called_measured() -> None:
    costs = build(snapshot(gpu_node("a"), gpu_node("b"), links=(link("a", "b", 1e-3, 5e8),)), POLICY).link_costs(np.arange(2))
    assert (costs.latency_seconds[1, 0], costs.measured[1, 0]) == (1e-3, False)


def test_a_pair_nobody_measured_is_estimated_from_what_both_share() -> None:
    members = (gpu_node("n0", domain="eu/a"), gpu_node("n1", domain="eu/a"), gpu_node("n2", domain="eu/b"), gpu_node("n3", domain="us/a"))
    costs = build(snapshot(*members), POLICY).link_costs(np.arange(4))
    latency = costs.latency_seconds[0]
    assert latency[0] < latency[1] < latency[2] < latency[3] == WORLD.latency_seconds
    assert not costs.measured.any()
    assert costs.reachable.all()


def test_half_a_sample_is_completed_by_an_estimate() -> None:
    half = Link("a", "b", measured(2e-3), UNKNOWN_SAMPLE)
    costs = build(snapshot(gpu_node("a"), gpu_node("b"), links=(half,)), POLICY).link_costs(np.arange(2))
    assert costs.latency_seconds[0, 1] == 2e-3
    assert costs.bandwidth_bytes_per_second[0, 1] > 0
    assert not costs.measured[0, 1]


def test_absent_pairs_are_unreachable_only_where_the_source_lists_every_link() -> None:
    members = tuple(gpu_node(name) for name in ("a", "b", "c"))
    seen = snapshot(*members, links=both_ways(["a", "b"]), absent=AbsentLink.UNREACHABLE)
    costs = build(seen, POLICY).link_costs(ALL)
    assert costs.reachable.tolist() == [[True, True, False], [True, True, False], [False, False, True]]
    assert (costs.latency_seconds[0, 2], costs.bandwidth_bytes_per_second[0, 2]) == (np.inf, 0.0)


def test_a_node_may_occur_twice_and_meets_itself_inside_the_machine() -> None:
    graph = build(snapshot(gpu_node("a"), gpu_node("b"), links=both_ways(["a", "b"])), POLICY)
    costs = graph.link_costs(np.array([0, 0, 1]))
    assert costs.latency_seconds[0, 1] == costs.latency_seconds[0, 0] < costs.latency_seconds[0, 2]


def test_enough_measured_links_of_a_tier_set_the_estimate_of_the_others() -> None:
    names = [f"n{index}" for index in range(5)]
    links = tuple(entry for entry in both_ways(names, latency_seconds=7e-4) if "n4" not in (entry.source, entry.destination))
    costs = build(snapshot(*(gpu_node(name) for name in names), links=links), POLICY).link_costs(np.arange(5))
    assert costs.latency_seconds[0, 4] == 7e-4
    assert not costs.measured[0, 4]


def test_the_network_has_every_node_and_only_listed_links() -> None:
    seen = snapshot(gpu_node("a"), gpu_node("b"), gpu_node("c"), links=(link("a", "b"), link("b", "gone")))
    network = build(seen, POLICY).network
    assert sorted(network) == ["a", "b", "c"]
    assert list(network.edges) == [("a", "b")]
    assert network.edges["a", "b"] == {"latency_seconds": 1e-4, "bandwidth_bytes_per_second": 1e9}


def test_two_nodes_of_one_name_are_refused() -> None:
    with pytest.raises(ValueError, match="two nodes have the same name"):
        build(snapshot(gpu_node("a"), gpu_node("a")), POLICY)


@pytest.mark.parametrize(
    "levels",
    [
        (),
        LEVELS,
        ("city",),
        ("network.topology.nvidia.com/spine", "network.topology.nvidia.com/leaf"),
        (*LEVELS, "rack", "nvidia.com/gpu.clique"),
    ],
)
def test_a_narrower_tier_is_never_the_worse_one(levels: tuple[str, ...]) -> None:
    tiers = constants(levels)
    assert len(tiers.latency_seconds) == len(levels) + 1
    assert (np.diff(tiers.latency_seconds) <= 0).all()
    assert (np.diff(tiers.bandwidth_bytes_per_second) >= 0).all()


def test_the_narrowest_level_inside_a_zone_counts_as_one_switch() -> None:
    assert constants(("fabric.topograph.run/tier-1", "fabric.topograph.run/tier-0")).latency_seconds[2] == pytest.approx(
        RACK.latency_seconds
    )
