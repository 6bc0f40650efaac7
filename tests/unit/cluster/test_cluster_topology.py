"""The topology file, generated topologies, and the figures of links."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from e2e.cluster.nodes import manifest
from e2e.cluster.topology import (
    ALL_PAIRS_UP_TO_NODES,
    DEFAULT_FILE,
    MAX_LINKS,
    LinkTable,
    TopologyError,
    generate,
    load,
    measured_pairs,
)


def test_the_default_has_twelve_nodes_three_regions_and_four_products() -> None:
    topology = load(DEFAULT_FILE)
    assert len(topology.nodes) == 12
    assert len({machine.region for machine in topology.nodes}) == 3
    assert len({topology.product_of(machine).product for machine in topology.nodes}) == 4
    assert {topology.gpus_of(machine) for machine in topology.nodes} == {4, 8}


def test_a_link_takes_the_figures_of_the_narrowest_common_place() -> None:
    links = LinkTable(load(DEFAULT_FILE))
    rack = links.figures("eu-h100-0", "eu-h100-1").latency_seconds
    region = links.figures("eu-h100-0", "eu-a100-0").latency_seconds
    far = links.figures("eu-h100-0", "us-a100-0").latency_seconds
    farther = links.figures("us-a100-0", "ap-v100-0").latency_seconds
    assert rack < region < far < farther
    assert rack == pytest.approx(15e-6, rel=0.06)


def test_an_override_of_one_link_is_taken_as_it_stands() -> None:
    figures = LinkTable(load(DEFAULT_FILE)).figures("us-l40s-0", "us-l40s-1")
    assert figures.latency_microseconds == 25
    assert figures.bandwidth_bytes_per_second == 50e9 / 8


def test_a_manifest_carries_the_labels_of_feature_discovery_and_topology() -> None:
    topology = load(DEFAULT_FILE)
    node = manifest(topology, next(one for one in topology.nodes if one.name == "us-a100-0"), "2026-01-01T00:00:00Z")
    labels = node["metadata"]["labels"]
    assert labels["nvidia.com/gpu.product"] == "NVIDIA-A100-SXM4-80GB"
    assert labels["nvidia.com/gpu.memory"] == "81920"
    assert labels["nvidia.com/gpu.count"] == "4"
    assert labels["topology.kubernetes.io/region"] == "us-east"
    assert node["status"]["allocatable"]["nvidia.com/gpu"] == "4"
    assert all(isinstance(value, str) and len(value) <= 63 for value in labels.values())


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 600), st.integers(0, 5))
def test_a_generated_topology_is_valid_repeatable_and_has_the_asked_size(size: int, seed: int) -> None:
    topology = generate(size, seed)
    assert topology == generate(size, seed)
    assert len({machine.name for machine in topology.nodes}) == size
    places: dict[str, set[tuple[str, str, str]]] = {}
    for machine in topology.nodes:
        places.setdefault(machine.rack, set()).add((machine.region, machine.zone, machine.product))
    assert all(len(found) == 1 for found in places.values()), "a rack stands in one place and holds one product"
    links = LinkTable(topology)
    for source, destination in measured_pairs(topology)[:200]:
        figures = links.figures(source, destination)
        assert 0 < figures.latency_seconds < 1
        assert figures.bandwidth_bytes_per_second > 0


@settings(max_examples=5, deadline=None)
@given(st.integers(ALL_PAIRS_UP_TO_NODES + 1, 5000))
def test_links_of_a_large_cluster_are_bounded_and_distinct(size: int) -> None:
    pairs = measured_pairs(generate(size))
    assert len(pairs) <= MAX_LINKS
    assert len(set(pairs)) == len(pairs)
    assert all(source != destination for source, destination in pairs)


def test_a_topology_survives_a_round_trip_through_json(tmp_path: Path) -> None:
    topology = generate(40)
    path = tmp_path / "topology.json"
    path.write_bytes(msgspec.json.encode(topology))
    assert load(path) == topology


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nodes: [", "while parsing"),
        ("products: {}\nnodes: [{name: a, product: p, region: r, zone: z, rack: k}]", "a.product: p is none of"),
        (
            "products: {}\nnodes: []\nlinks: {pairs: [{source: a, destination: b, latencyMicroseconds: 1, bandwidthGbitPerSecond: 1}]}",
            "no node",
        ),
        ("products: {}\nnodes: []\nextra: 1", "extra"),
    ],
)
def test_a_bad_file_is_refused_with_its_place(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "topology.yaml"
    path.write_text(text)
    with pytest.raises(TopologyError, match=message) as caught:
        load(path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("size", [0, -1, 5001])
def test_a_size_out_of_range_is_refused(size: int) -> None:
    with pytest.raises(TopologyError, match="--size"):
        generate(size)
