"""Overrides of a policy laid over a snapshot from a file: the outcome is that of a live cluster under the same policy."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from hyperscale.model.api.policy import LinkOverride, NodeOverride, Overrides, PolicySpec
from hyperscale.model.cluster import ClusterSnapshot, Link, Node, Quality, Sample
from hyperscale.observe.snapshot.build_snapshot import build_snapshot
from hyperscale.observe.snapshot.offline import with_overrides
from tests.unit.observe.objects import NOW, raw_node, reading, series

REGION = "topology.kubernetes.io/region"
ZONE = "topology.kubernetes.io/zone"
RACK = "cloud.provider.com/topology-rack"
NAMES = ("gpu-a", "gpu-b", "gpu-c")
LATENCY = tuple(series(1e-4, source=one, destination=other) for one in NAMES for other in NAMES if one != other)


def live(labels: tuple[dict[str, str], ...], policy: PolicySpec) -> ClusterSnapshot:
    nodes = [raw_node(name, labels={"nvidia.com/gpu.product": "Tesla-T4", **own}) for name, own in zip(NAMES, labels, strict=True)]
    return build_snapshot(nodes, [], reading(link_latency=LATENCY), policy, NOW)


values = st.sampled_from(["1", "2", "a/b"])
label_sets = st.tuples(*[st.dictionaries(st.sampled_from([REGION, ZONE, RACK]), values) for _ in NAMES])
node_overrides = st.builds(
    NodeOverride,
    name=st.sampled_from((*NAMES, "gone")),
    gpu_product=st.sampled_from([None, "NVIDIA-L4"]),
    gpu_memory=st.sampled_from([None, 23_000 * 2**20]),
    network_bytes_per_second=st.sampled_from([None, 1e9]),
    topology=st.dictionaries(st.sampled_from([REGION, ZONE, RACK, "example.com/row"]), st.sampled_from(["1", "9"])),
)
link_overrides = st.one_of(
    st.builds(
        LinkOverride, source=st.sampled_from(NAMES), destination=st.sampled_from((*NAMES, "gone")), latency_nanoseconds=st.just(50_000)
    ),
    st.builds(
        LinkOverride, source=values, destination=values, level=st.sampled_from([ZONE, RACK]), bandwidth_bytes_per_second=st.just(1e9)
    ),
)


@settings(max_examples=50, deadline=None)
@given(
    labels=label_sets,
    nodes=st.lists(node_overrides, max_size=3, unique_by=lambda override: override.name),
    links=st.lists(link_overrides, max_size=3),
    listed=st.sampled_from([(), (ZONE, RACK, "example.com/row")]),
)
def test_over_a_file_they_do_what_they_do_live_and_twice_is_no_more_than_once(
    labels: tuple[dict[str, str], ...], nodes: list[NodeOverride], links: list[LinkOverride], listed: tuple[str, ...]
) -> None:
    plain = PolicySpec(topology_levels=listed)
    policy = replace(plain, overrides=Overrides(nodes=tuple(nodes), links=tuple(links)))
    there = live(labels, policy)
    found, _ = with_overrides(live(labels, plain), policy)
    assert found == there
    again, _ = with_overrides(found, policy)
    assert (again.nodes, again.links, again.levels) == (found.nodes, found.links, found.levels)


def test_a_matrix_without_labels_gets_racks() -> None:
    bare = ClusterSnapshot(taken_at=NOW, nodes=tuple(Node(name, None, None, 8, 0) for name in NAMES), links=(), levels=())
    words = tuple(NodeOverride(name, topology={RACK: rack}) for name, rack in zip(NAMES, ("r1", "r1", "r2"), strict=True))
    across = LinkOverride("r1", "r2", level=RACK, latency_nanoseconds=1_000_000)
    found, notes = with_overrides(bare, PolicySpec(overrides=Overrides(nodes=words, links=(across,))))
    assert notes == ()
    assert found.levels == (RACK,)
    assert [node.domains for node in found.nodes] == [("r1",), ("r1",), ("r2",)]
    assert {(link.source, link.destination) for link in found.links} == {
        ("gpu-a", "gpu-c"),
        ("gpu-b", "gpu-c"),
        ("gpu-c", "gpu-a"),
        ("gpu-c", "gpu-b"),
    }


def test_levels_of_a_file_that_no_label_is_known_by_are_kept() -> None:
    nodes = tuple(replace(Node(name, None, None, 8, 0), domains=(hall, f"{hall}/row-1")) for name, hall in zip(NAMES, "xxy", strict=True))
    bare = ClusterSnapshot(taken_at=NOW, nodes=nodes, links=(), levels=("example.com/hall", "example.com/row"))
    found, _ = with_overrides(bare, PolicySpec(overrides=Overrides(nodes=(NodeOverride("gpu-c", topology={"example.com/hall": "x"}),))))
    assert found.levels == bare.levels
    assert found.nodes[2].domains == ("x", "x/row-1")


@pytest.mark.parametrize("policy", [PolicySpec(), PolicySpec(seed=7)])
def test_without_overrides_the_snapshot_is_the_same_object(policy: PolicySpec) -> None:
    sample = Sample(1e-4, None, Quality.MEASURED)
    bare = ClusterSnapshot(taken_at=NOW, nodes=(Node("a", None, None, 8, 0),), links=(Link("a", "b", sample),), levels=())
    assert with_overrides(bare, policy)[0] is bare


def test_what_fits_nothing_is_said() -> None:
    bare = ClusterSnapshot(taken_at=NOW, nodes=(Node("a", None, None, 8, 0),), links=(), levels=())
    words = Overrides(nodes=(NodeOverride("b"), NodeOverride("c")), links=(LinkOverride("a", "z", latency_nanoseconds=10_000),))
    found, notes = with_overrides(bare, PolicySpec(overrides=words))
    assert notes == (
        "an override names no link of this cluster (a to z)",
        "overrides speak of nodes that are not there (b and 1 more)",
    )
    assert found.metrics.message == "; ".join(notes)
