from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from hyperscale.model.api.policy import PolicySpec
from hyperscale.model.cluster import ClusterSnapshot
from hyperscale.observe.files.bounded import SnapshotError, read_bounded
from hyperscale.observe.files.snapshot_files import encode_snapshot, read_snapshot, write_snapshot
from hyperscale.observe.snapshot.build_snapshot import build_snapshot
from tests.unit.observe.objects import NOW, raw_node, reading, series


def snapshot() -> ClusterSnapshot:
    figures = reading(power=(series(300, node="a", UUID="GPU-1"),), link_latency=(series(0.001, source="a", destination="b"),))
    return build_snapshot([raw_node("a", labels={"topology.kubernetes.io/zone": "z"}), raw_node("b")], [], figures, PolicySpec(), NOW)


def test_a_snapshot_comes_back_as_it_was_and_is_written_again_byte_for_byte(tmp_path: Path) -> None:
    first, second = tmp_path / "first.json", tmp_path / "second.json"
    write_snapshot(first, snapshot())
    write_snapshot(second, read_snapshot(first))
    assert read_snapshot(first) == snapshot()
    assert first.read_bytes() == second.read_bytes()
    assert sorted(tmp_path.iterdir()) == [first, second]


def test_nodes_and_links_stand_one_a_line() -> None:
    lines = encode_snapshot(snapshot()).decode().splitlines()
    assert sum('"allocatableGpus"' in line for line in lines) == 2
    assert sum('"destination"' in line for line in lines) == 1


def test_a_file_in_another_order_is_the_same_snapshot(tmp_path: Path) -> None:
    wire = json.loads(encode_snapshot(snapshot()))
    wire["nodes"].reverse()
    (tmp_path / "s.json").write_text(json.dumps(wire))
    assert read_snapshot(tmp_path / "s.json") == snapshot()


def changed(path: str, value: Any) -> bytes:
    """The example with one field set; a path such as nodes.0.name."""
    wire: Any = json.loads(encode_snapshot(snapshot()))
    *way, last = [int(part) if part.isdecimal() else part for part in path.split(".")]
    place = wire
    for step in way:
        place = place[step]
    place[last] = value
    return json.dumps(wire).encode()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        pytest.param(b"", "is no JSON object", id="empty"),
        pytest.param(b"\x00\xff\xfe\x80" * 100, "is no JSON object", id="binary garbage"),
        pytest.param(b"[1, 2]", "is no JSON object", id="a list"),
        pytest.param(b"{" * 200_000, "is no JSON object", id="deeply nested"),
        pytest.param(b'{"a": ' * 5_000 + b"1" + b"}" * 5_000, "is no JSON object", id="nested past the stack"),
        pytest.param(b"{}", "has neither takenAt and nodes", id="some other JSON"),
        pytest.param(b'{"takenAt": NaN, "nodes": []}', "is no JSON object", id="NaN is no JSON"),
        pytest.param(b'{"takenAt": 1, "nodes": 5}', "nodes: Expected `array`, got `int`", id="nodes is no array"),
        pytest.param(b'{"takenAt": 1e999, "nodes": []}', "", id="endless time"),
        pytest.param(changed("takenAt", 1e300), "takenAt: write Unix seconds from 0 to 253402300799", id="after the last date"),
        pytest.param(changed("takenAt", -1), "takenAt: write Unix seconds from 0", id="before the first second"),
        pytest.param(
            changed("links.0.latencySeconds.value", 1e300), "links[0].latencySeconds.value: 1e+300 is not possible", id="an endless link"
        ),
        pytest.param(
            changed("links.0.bandwidthBytesPerSecond", {"value": 1e16, "ageSeconds": 1, "quality": "measured"}),
            "write at most 1e+15",
            id="more bytes a second than any link carries",
        ),
        pytest.param(b"PK\x03\x04 and then nothing", "is no NPZ of plain arrays", id="a broken archive"),
        pytest.param(changed("schemaVersion", 2), "schemaVersion: this version reads 1 only", id="a later version"),
        pytest.param(changed("nodes.1.name", "a"), "nodes[1].name: 'a' occurs twice", id="a node twice"),
        pytest.param(changed("nodes.0.name", ""), "nodes[0].name: must not be empty", id="no name"),
        pytest.param(changed("nodes.0.name", 7), "nodes[0].name: Expected `str`, got `int`", id="a name that is a number"),
        pytest.param(changed("nodes.0.domains", []), "nodes[0].domains: has 0 entries, levels has 1", id="domains beside levels"),
        pytest.param(changed("nodes.0.allocatableGpus", -1), "must not be negative", id="negative GPUs"),
        pytest.param(changed("nodes.0.allocatableCpuCores", -1.0), "must not be negative", id="negative cores"),
        pytest.param(changed("nodes.0.gpuProdukt", "H"), "nodes[0].gpuProdukt: is no field here; did you mean gpuProduct?", id="typo"),
        pytest.param(changed("link", []), "link: is no field here; did you mean links?", id="typo of the snapshot"),
        pytest.param(changed("nodes.0.gpus.0.watts", 1.0), "nodes[0].gpus[0].watts: is no field here", id="unknown field of a GPU"),
        pytest.param(changed("nodes.0.allocatableGpus", 2**63), "nodes[0].allocatableGpus: 9.22337e+18 is", id="GPUs past 64 bits"),
        pytest.param(changed("nodes.0.requestedGpus", 2**63), "nodes[0].requestedGpus: 9.22337e+18 is", id="GPUs held likewise"),
        pytest.param(changed("nodes.0.gpuMemoryBytes", 2**63), "nodes[0].gpuMemoryBytes: 9.22337e+18 is", id="memory likewise"),
        pytest.param(changed("nodes.0.allocatable", {"pods": 1e300}), "nodes[0].allocatable and requested: write", id="endless pods"),
        pytest.param(changed("nodes.0.allocatableCpuCores", 1e300), "nodes[0].allocatableCpuCores: 1e+300 is", id="endless cores"),
        *(
            pytest.param(
                changed("nodes.0.gpus.0.utilizationRatio", {"value": value, "ageSeconds": 1, "quality": "measured"}),
                f"nodes[0].gpus[0].utilizationRatio.value: {value:g} is not possible; write at most 1",
                id=f"a GPU {value:g} times in use",
            )
            for value in (5.0, 1e300)
        ),
        *(
            pytest.param(changed("nodes.0.gpuPaths", {"kind": kind, "nvlinks": links}), message, id=f"{links} NVLinks by {kind}")
            for kind, links, message in (
                ("NVLink", -3, "nodes[0].gpuPaths.nvlinks: -3 is not possible with kind NVLink; write 1 to 64"),
                ("NVLink", 0, "nodes[0].gpuPaths.nvlinks: 0 is not possible"),
                ("NVLink", 2**63 - 1, "nodes[0].gpuPaths.nvlinks: 9223372036854775807 is not possible"),
                ("System", 4, "nodes[0].gpuPaths.nvlinks: 4 is not possible with kind System; write 0"),
                ("Foo", 18, "nodes[0].gpuPaths.kind: 'Foo' is none of NVLink, PcieSwitch"),
            )
        ),
        pytest.param(
            changed("nodes.0.networkBytesPerSecond", {"value": -5.0, "ageSeconds": 1, "quality": "measured"}),
            "nodes[0].networkBytesPerSecond.value: must be a finite number, 0 or more",
            id="a card of negative speed",
        ),
        pytest.param(
            changed("nodes.0.networkUseRatio", {"value": 3.0, "ageSeconds": 1, "quality": "measured"}),
            "nodes[0].networkUseRatio.value: 3 is not possible",
            id="a card three times in use",
        ),
        pytest.param(
            changed("nodes.0.gpus.0.powerWatts.value", -1), "nodes[0].gpus[0].powerWatts.value: must be a finite", id="negative watts"
        ),
        pytest.param(
            changed("nodes.0.gpus.0.powerWatts.value", None), "value must be null exactly when quality is unknown", id="nothing measured"
        ),
        pytest.param(
            changed("nodes.0.gpus.0.powerWatts.quality", "superb"), "nodes[0].gpus[0].powerWatts.quality: Invalid enum", id="quality"
        ),
        pytest.param(changed("links.0.destination", "x"), "links[0].destination: no node is called 'x'", id="a link to nowhere"),
        pytest.param(changed("links.0.destination", "a"), "links[0].destination: must differ from source", id="a link to itself"),
        pytest.param(changed("links.0.latencySeconds.ageSeconds", -3), "links[0].latencySeconds.ageSeconds: must be", id="negative age"),
    ],
)
def test_what_is_no_snapshot_is_refused_in_one_line_that_names_the_place(tmp_path: Path, content: bytes, message: str) -> None:
    file = tmp_path / "s.json"
    file.write_bytes(content)
    with pytest.raises(SnapshotError) as caught:
        read_snapshot(file)
    assert message in caught.value.message
    assert "\n" not in str(caught.value)
    assert str(file) in str(caught.value)


def test_a_link_listed_twice_is_refused(tmp_path: Path) -> None:
    wire = json.loads(encode_snapshot(snapshot()))
    wire["links"] *= 2
    (tmp_path / "s.json").write_text(json.dumps(wire))
    with pytest.raises(SnapshotError, match=r"links\[1\].source: the pair 'a', 'b' occurs twice"):
        read_snapshot(tmp_path / "s.json")


def test_files_that_are_none_are_refused_in_one_line(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path, message in (
        (tmp_path / "none.json", "does not exist"),
        (tmp_path / "pipe", "not a regular file"),
        (tmp_path, "edge.txt and node_feature.csv"),
    ):
        with pytest.raises(SnapshotError, match=message):
            read_snapshot(path)
    with pytest.raises(SnapshotError, match="cannot be read"):
        read_snapshot("s\0.json")


def test_a_file_over_the_limit_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "big").write_bytes(b" " * 1001)
    with pytest.raises(SnapshotError, match="is larger than"):
        read_bounded(tmp_path / "big", 1000)


def test_a_snapshot_that_cannot_be_written_leaves_nothing_behind(tmp_path: Path) -> None:
    with pytest.raises(SnapshotError, match="cannot be written"):
        write_snapshot(tmp_path / "missing" / "s.json", snapshot())
    (tmp_path / "s.json").mkdir()
    with pytest.raises(SnapshotError, match="cannot be written"):
        write_snapshot(tmp_path / "s.json", snapshot())
    assert [path.name for path in tmp_path.iterdir()] == ["s.json"]
