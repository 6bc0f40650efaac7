from __future__ import annotations

from pathlib import Path

import pytest

from hyperscale.model.cluster import AbsentLink, Quality
from hyperscale.observe.files.bounded import SnapshotError
from hyperscale.observe.files.snapshot_files import read_snapshot

PUBLISHED = Path(__file__).resolve().parents[3] / "../shared/data/hulk"
HEADER = "node,City,Capability,Memory\r\n"
NODES = HEADER + "0,Beijing,8.6,152\r\n1,Neimeng ,8,320\r\n2,New Delhi,6.1,128\r\n"


def write(directory: Path, edges: str = "0 1 10\n", nodes: str = NODES) -> Path:
    (directory / "edge.txt").write_text(edges)
    (directory / "node_feature.csv").write_text(nodes)
    return directory


@pytest.mark.parametrize("name", ["", "edge.txt", "node_feature.csv"])
def test_the_pair_is_read_from_its_directory_or_either_file(tmp_path: Path, name: str) -> None:
    snapshot = read_snapshot(write(tmp_path) / name)
    assert snapshot.source == "hulk"
    assert snapshot.absent_links is AbsentLink.UNREACHABLE
    assert [(node.name, node.domains, node.allocatable_gpus, node.gpu_memory_bytes) for node in snapshot.nodes] == [
        ("machine-00", ("Beijing",), 1, 152 * 10**9),
        ("machine-01", ("Neimeng",), 1, 320 * 10**9),
        ("machine-02", ("New-Delhi",), 1, 128 * 10**9),
    ]
    assert snapshot.nodes[1].labels["nvidia.com/gpu.compute.major"] == "8"
    assert snapshot.nodes[1].labels["nvidia.com/gpu.compute.minor"] == "0"
    assert [(link.source, link.destination, link.latency_seconds.value) for link in snapshot.links] == [
        ("machine-00", "machine-01", 0.01),
        ("machine-01", "machine-00", 0.01),
    ]


def test_faults_of_the_published_files_are_mended_and_said(tmp_path: Path) -> None:
    snapshot = read_snapshot(write(tmp_path, "0 1 214\n1 0 265\n2 2 9\n0 2 5\n2 0 5\n\n"))
    twice = snapshot.links[0].latency_seconds
    assert (twice.value, twice.quality) == (0.265, Quality.ESTIMATED)
    assert snapshot.links[1].latency_seconds.quality is Quality.MEASURED
    assert len(snapshot.links) == 4
    assert snapshot.metrics.message == (
        "1 lines link a machine to itself (2); 1 pairs are listed twice with different times, the longer one is taken (0-1)"
    )


@pytest.mark.parametrize(
    ("edges", "nodes", "message"),
    [
        ("0 1\n", NODES, "edge.txt: line 1: write `machine machine milliseconds`"),
        ("0 1 ten\n", NODES, "edge.txt: line 1"),
        ("0 1 -4\n", NODES, "edge.txt: line 1"),
        ("0 1 nan\n", NODES, "edge.txt: line 1"),
        ("0 1 1e400\n", NODES, "edge.txt: line 1"),
        ("0 1 4\n0 7 4\n", NODES, "edge.txt: line 2: machine 7 is not in node_feature.csv"),
        ("", "", "node_feature.csv: line 1: write the header"),
        ("", HEADER, "node_feature.csv: has 0 machines"),
        ("", HEADER + "0,Rome\n", "node_feature.csv: line 2: has 2 columns"),
        ("", HEADER + "x,Rome,8,1\n", "line 2: node must be a whole number"),
        ("", HEADER + "0,Rome,fast,1\n", "line 2: Capability must be"),
        ("", HEADER + "0,Rome,8,-1\n", "line 2: Memory must be"),
        ("", HEADER + "0,Rome,8,1\n0,Rome,8,1\n", "line 3: machine 0 occurs twice"),
    ],
)
def test_a_broken_pair_is_refused_with_file_and_line(tmp_path: Path, edges: str, nodes: str, message: str) -> None:
    with pytest.raises(SnapshotError) as caught:
        read_snapshot(write(tmp_path, edges, nodes))
    assert message in str(caught.value)


def test_half_a_pair_and_binary_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "edge.txt").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(SnapshotError, match=r"needs edge.txt and node_feature.csv"):
        read_snapshot(tmp_path)
    (tmp_path / "node_feature.csv").write_text(NODES)
    with pytest.raises(SnapshotError, match="is not UTF-8 text"):
        read_snapshot(tmp_path)


@pytest.mark.skipif(not PUBLISHED.is_dir(), reason="the published Hulk files are not beside this repository")
def test_the_published_graph_has_47_machines_and_613_links_both_ways() -> None:
    snapshot = read_snapshot(PUBLISHED)
    assert (len(snapshot.nodes), len(snapshot.links)) == (47, 2 * 613)
    assert "(11-30, 13-14)" in snapshot.metrics.message
    assert "(14, 4)" in snapshot.metrics.message
