from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hyperscale.model.cluster import AbsentLink
from hyperscale.observe.files.bounded import SnapshotError
from hyperscale.observe.files.snapshot_files import read_snapshot

DTFM = Path(__file__).resolve().parents[3] / "../shared/data/dtfm"
GOOD: dict[str, Any] = {"devices": 2, "region": ["eu", "us"], "delay_ms": [[1, 40], [41, 1]], "bandwidth_gbps": [[5, 1], [2, 5]]}


def write_json(directory: Path, **change: Any) -> Path:
    file = directory / "matrix.json"
    file.write_text(json.dumps({key: value for key, value in {**GOOD, **change}.items() if value is not None}))
    return file


def test_a_matrix_in_json_gives_a_link_for_every_ordered_pair(tmp_path: Path) -> None:
    snapshot = read_snapshot(write_json(tmp_path))
    assert [node.name for node in snapshot.nodes] == ["device-00", "device-01"]
    assert [node.domains for node in snapshot.nodes] == [("eu",), ("us",)]
    assert snapshot.absent_links is AbsentLink.UNREACHABLE
    assert [(link.latency_seconds.value, link.bandwidth_bytes_per_second.value) for link in snapshot.links] == [
        (0.04, 1.25e8),
        (0.041, 2.5e8),
    ]


def test_a_matrix_in_npz_says_the_same(tmp_path: Path) -> None:
    np.savez(
        tmp_path / "m.npz",
        nodes=np.array(["b", "a"]),
        latency_seconds=np.array([[0, 0.04], [0.041, 0]]),
        bandwidth_bytes_per_second=np.array([[0, 1e8], [2e8, 0]]),
        gpus=np.array([4, 8]),
    )
    snapshot = read_snapshot(tmp_path / "m.npz")
    assert [(node.name, node.allocatable_gpus) for node in snapshot.nodes] == [("a", 8), ("b", 4)]
    assert [(link.source, link.latency_seconds.value, link.bandwidth_bytes_per_second.value) for link in snapshot.links] == [
        ("a", 0.041, 2e8),
        ("b", 0.04, 1e8),
    ]


def test_a_matrix_without_bandwidth_leaves_it_unknown(tmp_path: Path) -> None:
    links = read_snapshot(write_json(tmp_path, bandwidth_gbps=None)).links
    assert {(link.bandwidth_bytes_per_second.value, link.bandwidth_bytes_per_second.fault) for link in links} == {(None, "not in the file")}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"delay_ms": [[1, 2, 3], [4, 5, 6]]}, "delay_ms: has shape (2, 3)"),
        ({"delay_ms": [[1, 2], [3]]}, "delay_ms: must be n rows of n numbers"),
        ({"delay_ms": [[1, None], [3, 4]]}, "delay_ms: "),
        ({"delay_ms": [[1, "2"], [3, 4]]}, "delay_ms: must hold numbers only"),
        ({"delay_ms": [[1, -2], [3, 4]]}, "delay_ms: every number off the diagonal must be finite"),
        ({"delay_ms": 5}, "delay_ms: "),
        ({"delay_ms": []}, "delay_ms: "),
        ({"delay_ms": {"a": 1}}, "delay_ms: "),
        ({"latency_seconds": [[0, 1], [1, 0]]}, "latency_seconds and delay_ms: write only one of them"),
        ({"bandwidth_gbps": [[1, 0], [1, 1]]}, "bandwidth: must be above 0"),
        ({"bandwidth_gbps": [[1]]}, "both must be n × n"),
        ({"devices": 3}, "devices: says 3, the matrix has 2 rows"),
        ({"nodes": ["a", "a"]}, "nodes: names must be unique"),
        ({"nodes": ["a"]}, "nodes: has 1 entries for 2 nodes"),
        ({"region": ["eu"]}, "region: has 1 entries for 2 nodes"),
        ({"region": [1, 2]}, "region: Expected `str`"),
        ({"gpus": [1, -1]}, "gpus: must not be negative"),
        ({"gpus": ["one", "two"]}, "gpus: Expected `int`"),
    ],
)
def test_a_broken_matrix_is_refused_with_its_key(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    with pytest.raises(SnapshotError) as caught:
        read_snapshot(write_json(tmp_path, **change))
    assert message in caught.value.message


@pytest.mark.parametrize("hole", [np.nan, np.inf, -1.0])
def test_a_hole_in_an_npz_matrix_is_refused(tmp_path: Path, hole: float) -> None:
    np.savez(tmp_path / "m.npz", latency_seconds=np.array([[0, hole], [1, 0]]))
    with pytest.raises(SnapshotError, match="must be finite and not negative"):
        read_snapshot(tmp_path / "m.npz")


def test_objects_in_an_npz_are_never_unpickled(tmp_path: Path) -> None:
    np.savez(tmp_path / "m.npz", latency_seconds=np.array([[{}, {}], [{}, {}]], dtype=object))
    with pytest.raises(SnapshotError, match="is no NPZ of plain arrays"):
        read_snapshot(tmp_path / "m.npz")


def test_an_npz_that_unpacks_to_more_than_a_file_may_hold_is_refused(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    with (
        zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open("latency_seconds.npy", "w", force_zip64=True) as member,
    ):
        for _ in range(257):
            member.write(bytes(1024 * 1024))
    (tmp_path / "bomb.npz").write_bytes(buffer.getvalue())
    with pytest.raises(SnapshotError, match="unpacks to more than 256 MiB"):
        read_snapshot(tmp_path / "bomb.npz")


@pytest.mark.skipif(not DTFM.is_dir(), reason="the DT-FM matrices are not beside this repository")
@pytest.mark.parametrize("case", ["case1_on_demand_datacenter", "case2_spot_datacenter", "case3_multi_university"])
def test_the_published_dtfm_cases_are_read(case: str) -> None:
    snapshot = read_snapshot(DTFM / f"{case}.json")
    assert (len(snapshot.nodes), len(snapshot.links)) == (64, 64 * 63)


@pytest.mark.parametrize("content", [b"text", b"\x93NUMPY\x01\x00\x10\x00" + b"{'descr':[('" + b"(" * 5000], ids=["text", "header"])
def test_a_member_of_an_npz_that_is_no_array_is_refused(tmp_path: Path, content: bytes) -> None:
    with zipfile.ZipFile(tmp_path / "m.npz", "w") as archive:
        archive.writestr("latency_seconds.npy", content)
    with pytest.raises(SnapshotError, match="is no NPZ of plain arrays"):
        read_snapshot(tmp_path / "m.npz")
