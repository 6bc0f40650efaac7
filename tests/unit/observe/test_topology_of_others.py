"""Volcano's HyperNodes and Kueue's Topologies, where no label tells of switches."""

from __future__ import annotations

from typing import Any

import pytest

from hyperscale.control.cache.cluster_cache import ClusterCache
from hyperscale.model.api.policy import NodeOverride, Overrides, PolicySpec
from hyperscale.model.metrics_reading import MetricsReading
from hyperscale.observe.kube.fabric import HYPERNODE_LABEL, Fabric, FabricClaims, fabric_of, hypernode, topology_levels
from hyperscale.observe.kube.node_labels import domains
from hyperscale.observe.snapshot.build_snapshot import build_snapshot
from hyperscale.observe.snapshot.snapshot_cache import Memory
from tests.unit.observe.objects import NOW, raw_node

NAMES = ("gpu-a", "gpu-b", "gpu-c", "gpu-d")
ZONE = "topology.kubernetes.io/zone"
RACK = "cloud.provider.com/topology-rack"


def switch(name: str, tier: Any, *members: dict[str, Any]) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"tier": tier, "members": list(members)}}


def exact(name: str, kind: str = "Node") -> dict[str, Any]:
    return {"type": kind, "selector": {"exactMatch": {"name": name}}}


def topology(name: str, *keys: str) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"levels": [{"nodeLabel": key} for key in keys]}}


SWITCHES = (
    switch("leaf-0", 1, exact("gpu-a"), exact("gpu-b")),
    switch("leaf-1", "1", {"type": "Node", "selector": {"regexMatch": {"pattern": "gpu-[cd]"}}}),
    switch("spine", 2, exact("leaf-0", "HyperNode"), {"type": "HyperNode", "selector": {"regexMatch": {"pattern": "leaf-1"}}}),
)


def seen(fabric: Fabric, overrides: Overrides | None = None, memory: Memory | None = None) -> Any:
    nodes = [raw_node(name) for name in NAMES]
    policy = PolicySpec(overrides=overrides or Overrides())
    return build_snapshot(nodes, [], MetricsReading(NOW), policy, NOW, memory=memory, fabric=fabric)


def test_hypernodes_are_levels_where_no_label_tells_of_switches() -> None:
    snapshot = seen(fabric_of(SWITCHES, ()))
    assert snapshot.levels == (f"{HYPERNODE_LABEL}2", f"{HYPERNODE_LABEL}1")
    assert [node.domains for node in snapshot.nodes] == [("spine", "spine/leaf-0")] * 2 + [("spine", "spine/leaf-1")] * 2
    assert {node.sources["domains"] for node in snapshot.nodes} == {"hypernode"}
    assert not any(key.startswith(HYPERNODE_LABEL) for node in snapshot.nodes for key in node.labels)


def test_labels_of_switches_count_before_hypernodes() -> None:
    nodes = [raw_node(name, labels={RACK: "r1"}) for name in NAMES]
    snapshot = build_snapshot(nodes, [], MetricsReading(NOW), PolicySpec(), NOW, fabric=fabric_of(SWITCHES, ()))
    assert snapshot.levels == (RACK,)
    assert snapshot.nodes[0].sources["domains"] == "labels"


def test_zones_stay_above_hypernodes() -> None:
    nodes = [raw_node(name, labels={ZONE: "z"}) for name in NAMES]
    snapshot = build_snapshot(nodes, [], MetricsReading(NOW), PolicySpec(), NOW, fabric=fabric_of(SWITCHES, ()))
    assert snapshot.levels == (ZONE, f"{HYPERNODE_LABEL}2", f"{HYPERNODE_LABEL}1")
    assert snapshot.nodes[0].domains == ("z", "z/spine", "z/spine/leaf-0")


def test_members_may_be_chosen_by_labels() -> None:
    found = hypernode(switch("leaf", 1, {"type": "Node", "selector": {"labelMatch": {"matchLabels": {"leaf": "x"}}}}))
    assert found is not None
    nodes = [raw_node("gpu-a", labels={"leaf": "x"}), raw_node("gpu-b", labels={"leaf": "y"})]
    assert FabricClaims([found]).labels(nodes) == {"gpu-a": {f"{HYPERNODE_LABEL}1": "leaf"}}


def test_a_circle_of_hypernodes_ends() -> None:
    circle = fabric_of([switch("x", 1, exact("y", "HyperNode"), exact("gpu-a")), switch("y", 2, exact("x", "HyperNode"))], ())
    assert FabricClaims(circle.hypernodes).labels([raw_node("gpu-a")]) == {
        "gpu-a": {f"{HYPERNODE_LABEL}1": "x", f"{HYPERNODE_LABEL}2": "y"}
    }


def test_hypernodes_that_all_name_each_other_cost_no_more_than_there_are() -> None:
    everything = {"type": "HyperNode", "selector": {"regexMatch": {"pattern": "s.*"}}}
    tangle = fabric_of([switch(f"s{at:02}", 1 + at % 3, everything, exact(f"gpu-{at}")) for at in range(40)], ())
    found = FabricClaims(tangle.hypernodes).labels([raw_node(f"gpu-{at}") for at in range(40)])
    assert {frozenset(labels.values()) for labels in found.values()} == {frozenset({"s00", "s01", "s02"})}


def test_only_nodes_that_changed_are_tried_again() -> None:
    leaf = fabric_of([switch("leaf", 1, {"type": "Node", "selector": {"labelMatch": {"matchLabels": {"rack": "r1"}}}})], ())
    claims, key = FabricClaims(leaf.hypernodes), f"{HYPERNODE_LABEL}1"
    nodes = [raw_node("gpu-a", labels={"rack": "r1"}), raw_node("gpu-b", labels={"rack": "r2"})]
    first = claims.labels(nodes)
    assert first == {"gpu-a": {key: "leaf"}}
    assert claims.labels(nodes)["gpu-a"] is first["gpu-a"]
    assert claims.labels([raw_node("gpu-a", labels={"rack": "r2"}), raw_node("gpu-b", labels={"rack": "r1"})]) == {"gpu-b": {key: "leaf"}}
    assert claims.labels(nodes[1:]) == {}


async def test_a_fabric_that_changes_is_in_the_next_snapshot() -> None:
    world = ClusterCache()
    for name in ("gpu-a", "gpu-b"):
        world.see_node(raw_node(name))
    for switches in ([switch("x", 1, exact("gpu-a"))], [switch("y", 1, exact("gpu-a"), exact("gpu-b"))], []):
        fabric = fabric_of(switches, ())
        await world.snapshots.see_fabric(fabric)
        found = world.snapshot(PolicySpec(), NOW)
        fresh = build_snapshot(world.snapshots.names()[0], [], MetricsReading(0.0), PolicySpec(), NOW, fabric=fabric)
        assert [node.domains for node in found.nodes] == [node.domains for node in fresh.nodes]


def test_patterns_with_several_numbers_are_usual() -> None:
    pattern = r"^gpu-[0-9]+-row[0-9]+-rack\d+-[a-z]+-.*$"
    leaf = fabric_of([switch("leaf", 1, {"type": "Node", "selector": {"regexMatch": {"pattern": pattern}}})], ())
    assert FabricClaims(leaf.hypernodes).labels([raw_node("gpu-1-row2-rack3-a-b")]) == {
        "gpu-1-row2-rack3-a-b": {f"{HYPERNODE_LABEL}1": "leaf"}
    }


@pytest.mark.parametrize(
    "resource",
    [
        {},
        {"metadata": {"name": "x"}, "spec": None},
        switch("x", "high", exact("gpu-a")),
        switch("x", 1),
        switch("x", 1, {"type": "Node", "selector": {"regexMatch": {"pattern": "(a+)+$"}}}),
        switch("x", 1, {"type": "Node", "selector": {"regexMatch": {"pattern": "("}}}),
        switch("x", 1, {"type": "Node", "selector": {"regexMatch": {"pattern": ".*.*.*.*.*.*.*.*x"}}}),
        switch("x", 1, {"type": "Node", "selector": {"regexMatch": {"pattern": "a*a*a*a*a*a*a*a*x"}}}),
        switch("x", 1, {"type": "Pod", "selector": {"exactMatch": {"name": "gpu-a"}}}),
        switch("x", 1, {"type": "Node", "selector": {"labelMatch": {"matchLabels": {"a": "b"}, "matchExpressions": [{"key": "c"}]}}}),
        switch("x", 1, {"type": "Node", "selector": {"exactMatch": ["gpu-a"]}}),
    ],
)
def test_hypernodes_that_say_nothing_usable_are_passed_over(resource: dict[str, Any]) -> None:
    assert hypernode(resource) is None


def test_a_kueue_topology_says_which_labels_are_levels() -> None:
    levels = topology("tas", "example.com/hall", "example.com/row", "kubernetes.io/hostname")
    assert topology_levels(levels) == ("example.com/hall", "example.com/row")
    other = topology("another", "example.com/nowhere")
    nodes = [raw_node(name, labels={ZONE: "z", "example.com/hall": "h1", "example.com/row": name[-1]}) for name in NAMES]
    snapshot = build_snapshot(nodes, [], MetricsReading(NOW), PolicySpec(), NOW, fabric=fabric_of((), (levels, other)))
    assert snapshot.levels == (ZONE, "example.com/hall", "example.com/row")
    assert build_snapshot(nodes, [], MetricsReading(NOW), PolicySpec(), NOW).levels == (ZONE,)


@pytest.mark.parametrize("resource", [{}, {"spec": {"levels": "x"}}, {"spec": {"levels": [None, {"nodeLabel": ""}]}}])
def test_topologies_that_say_nothing_are_passed_over(resource: dict[str, Any]) -> None:
    assert fabric_of((), (resource,)) == Fabric()


def test_what_others_describe_may_come_and_go_between_two_snapshots() -> None:
    memory = Memory()
    assert seen(Fabric(), memory=memory).levels == ()
    assert len(seen(fabric_of(SWITCHES, ()), memory=memory).levels) == 2
    assert len(seen(fabric_of(SWITCHES[:1], ()), memory=memory).levels) == 1
    word = Overrides(nodes=(NodeOverride("gpu-a", topology={RACK: "r7"}),))
    assert seen(Fabric(), word, memory=memory).nodes[0].domains == ("r7",)
    assert seen(Fabric(), memory=memory) == seen(Fabric())


def test_a_gap_in_the_labels_of_a_node_keeps_domains_apart() -> None:
    levels = ("region", "zone", "rack")
    assert domains({"region": "a", "rack": "1"}, levels) == ("a", "", "a//1")
    assert domains({"zone": "a", "rack": "1"}, levels) == ("", "a", "a/1")
