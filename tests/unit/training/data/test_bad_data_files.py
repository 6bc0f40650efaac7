"""Files that lie, are torn, or hold more than a job states: one line that names them, never a traceback."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hyperscale.model.adjacency import TrainingGraph
from hyperscale.training.data import DataError, Stated, read


def load(place: Path, form: str, stated: Stated | None = None) -> TrainingGraph:
    return read("persistentVolumeClaim", str(place), form, cache=None, seed=3, stated=stated)


HOSTILE = {
    "text.npz": (b"hello", "NPZ", "no readable NPZ archive"),
    "letters.csv": (b"0,1\n1,x\n", "CSV", "'x'|null|string"),
    "ragged.csv": (b"0,1\n1,2,3\n", "CSV", "Expected 2 columns, got 3"),
    "negative.csv": (b"0,1\n-1,2\n", "CSV", "source -1 is outside"),
    "one.csv": (b"a\n1\n", "CSV", "two columns"),
    "empty.csv": (b"", "CSV", "empty|Empty|numbers"),
    "far.csv": (b"0,9999999999\n", "CSV", "beyond 2147483647"),
    "binary.csv": (b"\xff\xfe\x00\x01", "CSV", "text"),
    "broken.csv.gz": (b"\x1f\x8b\x08\x00abc", "CSV", "cannot be read|gzip|truncated|zlib"),
    "text.parquet": (b"PAR1nonsense", "Parquet", "no readable Parquet file"),
    "bomb.graphml": (b'<!DOCTYPE x [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]><graphml>&b;</graphml>', "GraphML", "document type or entity"),
    "loose.graphml": (
        b'<graphml><graph edgedefault="directed"><edge source="a" target="b"/></graph></graphml>',
        "GraphML",
        "line 1: source 'a' is no vertex",
    ),
    "torn.graphml": (b'<graphml><graph edgedefault="directed">', "GraphML", "no well-formed XML"),
    "none.graphml": (b"<graphml/>", "GraphML", "no <graph>"),
    "m.csv": (b"molecule\nCC\n", "SMILES", "no column 'smiles'"),
    "unnamed.csv": (b"", "SMILES", "empty; write a table"),
    "no_molecules.csv": (b"smiles,active\n", "SMILES", "no molecules"),
    "no_atoms.csv": (b'smiles,active\n"",1\n', "SMILES", "row 1: no SMILES"),
    "twice.csv": (b"smiles,active,active\nCC,1,1\n", "SMILES", "column 'active': two columns of this name"),
    "infinite.csv": (b"smiles,active\nCC,inf\n", "SMILES", "graph 0: a label is infinite"),
    "parts.csv": (b"smiles,active,split\nCC,1,1\n", "SMILES", "column 'split': '1' is no part, and nothing is in train"),
    "no_edges.csv": (b"source,destination\n", "CSV", "no vertices"),
    "undirected.graphml": (b"<graphml><graph/></graphml>", "GraphML", "edgedefault is None"),
    "both.graphml": (
        b'<graphml><graph edgedefault="directed"><node id="a"/><edge source="a" target="a" directed="false"/></graph></graphml>',
        "GraphML",
        "another direction than edgedefault",
    ),
    "hyper.graphml": (b'<graphml><graph edgedefault="directed"><hyperedge/></graph></graphml>', "GraphML", "a hyperedge"),
    "gap.graphml": (
        b'<graphml><key id="x" for="node"/><graph edgedefault="directed"><node id="a"/></graph></graphml>',
        "GraphML",
        "vertex 0: 'x': is missing",
    ),
    "wide.graphml": (
        b'<graphml><key id="x" for="node"><default>1e300</default></key><graph edgedefault="directed"><node id="a"/></graph></graphml>',
        "GraphML",
        "'1e300' is no number of 32 bits",
    ),
    "keys.graphml": (b'<graphml><key id="x" for="node"/><key id="x" for="node"/></graphml>', "GraphML", "a second key 'x'"),
    "undeclared.graphml": (
        b'<graphml><graph edgedefault="directed"><node id="a"><data key="x">1</data></node></graph></graphml>',
        "GraphML",
        "key 'x', which no <key> declares",
    ),
    "letters.graphml": (b'<?xml version="1.0" encoding="klingon"?><graphml/>', "GraphML", "unknown encoding"),
    "f.unknown": (b"", "Excel", "write one of CSV, DGL, GraphML, NPZ, OGB, Parquet, SMILES"),
}


@pytest.mark.parametrize("name", sorted(HOSTILE))
def test_bad_files_give_one_line_that_names_them(name: str, tmp_path: Path) -> None:
    content, form, words = HOSTILE[name]
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=words) as caught:
        load(tmp_path / name, form)
    line = str(caught.value)
    assert "\n" not in line
    assert len(line) < 600
    assert name in line or "spec.dataset.format" in line


EDGES = np.array([[0, 1], [1, 2], [2, 3]])
ARRAYS: dict[str, tuple[dict[str, Any], str]] = {
    "classes": ({"labels": np.array([0, 2**62, 1, 0])}, "label of vertex 1: 4611686018427387904 is beyond 999999"),
    "unsigned classes": ({"labels": np.array([0, 2**64 - 1, 1, 0], np.uint64)}, "label of vertex 1: 18446744073709551615 is beyond"),
    "places instead of masks": (
        {"train": np.array([0, 1, 2, 3]), "validation": np.zeros(4, bool), "test": np.zeros(4, bool)},
        "not all three are arrays of truth values",
    ),
    "one mask": ({"train": np.ones(4, bool)}, "not all three"),
    "trained and tested": (
        {"train": np.ones(4, bool), "validation": np.zeros(4, bool), "test": np.array([False, False, True, False])},
        "entry 2: is in train and in test",
    ),
    "nothing to train on": ({"split": np.array(["val", "test", "none", ""])}, "split: nothing is in train"),
    "direction in words": ({"directed": np.array("no")}, "directed: 'no' is no truth value"),
    "half of a matrix": ({"indptr": np.zeros(5, int), "indices": np.zeros(0, int)}, "only indptr, indices of a sparse matrix"),
    "a matrix of letters": (
        {"indptr": np.array([0, 1, 1, 1, 1]), "indices": np.array([0]), "data": np.array(["x"]), "shape": np.array([4, 3])},
        "no CSR matrix of 4 × 3",
    ),
    "an infinite word": (
        {"indptr": np.array([0, 1, 1, 1, 1]), "indices": np.array([0]), "data": np.array([np.inf]), "shape": np.array([4, 3])},
        "features of vertex 0: not finite in 32 bits",
    ),
    "wide numbers": ({"features": np.full((4, 2), 1e300)}, "features of vertex 0: not finite in 32 bits"),
    "no width": ({"features": np.ones((4, 0))}, "features: no column"),
    "no vertices": ({"edges": np.zeros((0, 2), int)}, "no vertices"),
    "unsigned ids": ({"edges": np.array([[0, 2**64 - 1]], np.uint64)}, "18446744073709551616 vertices are more"),
}


@pytest.mark.parametrize("name", sorted(ARRAYS))
def test_arrays_that_cannot_be_meant_are_refused_with_their_name(name: str, tmp_path: Path) -> None:
    arrays, words = ARRAYS[name]
    np.savez(tmp_path / "g.npz", **{"edges": EDGES, **arrays})
    with pytest.raises(DataError, match=words):
        load(tmp_path / "g.npz", "NPZ")


def test_members_of_an_archive_that_are_no_arrays_are_refused(tmp_path: Path) -> None:
    unfinished = b"\x93NUMPY\x01\x00\x10\x00" + b"{'descr':[('" + b"(" * 5000
    for content, words in ((b"not an array", "edges: no array"), (unfinished, "no readable NPZ archive")):
        with zipfile.ZipFile(tmp_path / "g.npz", "w") as archive:
            archive.writestr("edges.npy", content)
            archive.writestr("../../outside.npy", content)
        with pytest.raises(DataError, match=words):
            load(tmp_path / "g.npz", "NPZ")
    assert not (tmp_path.parent.parent / "outside.npy").exists()


VERTICES = {
    "id,label,label\n0,0,1\n1,0,1\n2,0,1\n3,0,1\n": "column 'label': two columns of this name",
    "0,1\n1,1\n2,1\n3,1\n": "the first line has numbers only; name the columns",
    "label\n0\n1\n99999999\n2\n": "nodes.csv: label of vertex 2: 99999999 is beyond",
    "label\n0\n1\n-5\n2\n": "nodes.csv: labels: a label is no class number",
    "a\n1\n1e300\n1\n1\n": "nodes.csv: column 'a': row 1: not finite in 32 bits",
    "split\ntraining\ntest\ntest\ntest\n": "column 'split': 'training' is no part, and nothing is in train",
}


@pytest.mark.parametrize("nodes", sorted(VERTICES))
def test_tables_of_vertices_that_cannot_be_meant_are_refused_with_file_and_column(nodes: str, tmp_path: Path) -> None:
    (tmp_path / "edges.csv").write_text("source,destination\n0,1\n1,2\n2,3\n")
    (tmp_path / "nodes.csv").write_text(nodes)
    with pytest.raises(DataError, match=VERTICES[nodes]):
        load(tmp_path, "CSV")


def test_names_of_columns_and_parts_count_however_they_are_written(tmp_path: Path) -> None:
    (tmp_path / "edges.csv").write_text("\ufeff# from a spreadsheet\r\nSource,Destination\r\n0,1\r\n1,2\r\n", encoding="utf-8")
    (tmp_path / "nodes.csv").write_text("\ufeffID, Label, Split\n2, 1, Test\n0, 0, Train\n1, 1, VAL\n", encoding="utf-8")
    graph = load(tmp_path, "CSV")
    assert graph.labels.tolist() == [0, 1, 1]
    assert [mask.tolist().index(True) for mask in (graph.train, graph.validation, graph.test)] == [0, 1, 2]


def test_what_is_left_out_of_a_table_is_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "edges.csv").write_text("source,destination\n0,1\n1,2\n")
    (tmp_path / "nodes.csv").write_text("id,split\n0,train\n1,tset\n2,none\n")
    load(tmp_path, "CSV")
    assert "column 'split': 1 of 3 entries are in no part, such as 'tset'" in caplog.text
    load_far = tmp_path / "far.csv"
    load_far.write_text("0,1000\n")
    assert len(load(load_far, "CSV").indptr) == 1002
    assert "ids up to 1000 in 1 edges" in caplog.text


def test_defaults_of_graphml_count_where_a_vertex_has_no_value(tmp_path: Path) -> None:
    key = '<key id="d" for="node" attr.name="x"><default>7</default></key><key id="e" for="edge" attr.name="x"/>'
    body = '<node id="a"><data key="d">1</data></node><node id="b"/><edge source="a" target="b"><data key="e">3</data></edge>'
    (tmp_path / "g.graphml").write_text(f'<graphml>{key}<graph edgedefault="undirected">{body}</graph></graphml>')
    assert load(tmp_path / "g.graphml", "GraphML").features.tolist() == [[1.0], [7.0]]


@pytest.mark.parametrize("form", ["CSV", "DGL", "NPZ", "Parquet", "SMILES"])
def test_devices_and_names_of_no_file_are_no_data_sets(form: str) -> None:
    with pytest.raises(DataError, match="/dev/zero is no file and no folder"):
        load(Path("/dev/zero"), form)
    with pytest.raises(DataError, match="cannot be read"):
        load(Path("/" + "a" * 300), form)


def test_pickles_inside_npz_are_not_opened(tmp_path: Path) -> None:
    np.savez(tmp_path / "g.npz", edges=np.array([[0, 1]]), labels=np.array([{"a": 1}, 2], dtype=object))
    with pytest.raises(DataError, match="no objects inside"):
        load(tmp_path / "g.npz", "NPZ")


def test_an_archive_that_claims_more_than_memory_is_not_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "g.npz"
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("features.npy", bytes(4 << 20))
    monkeypatch.setattr("hyperscale.training.data.limits.limit_bytes", lambda: 1 << 20)
    with pytest.raises(DataError, match=r"needs 0\.00 GiB of memory"):
        load(file, "NPZ")


@pytest.mark.parametrize(
    ("stated", "words"),
    [
        (Stated(vertices=3), "spec.dataset.vertices: the job states 3, .* has 4; write 4"),
        (Stated(edges=7), "spec.dataset.edges: the job states 7, .* has 8; write 8"),
        (Stated(feature_size=3), "spec.dataset.featureSize: the job states 3, .* has 2; write 2"),
        (Stated(classes=1), "spec.dataset.classes: the job states 1, .* has 2; write 2"),
    ],
)
def test_a_graph_that_is_larger_than_the_job_states_is_refused(stated: Stated, words: str, tmp_path: Path) -> None:
    file = tmp_path / "g.npz"
    edges = np.array([(0, 1), (1, 2), (2, 0), (2, 3)])
    np.savez(file, edges=edges, features=np.ones((4, 2)), labels=np.array([0, 1, 0, -1]), split=np.array(["train", "val", "test", "train"]))
    with pytest.raises(DataError, match=words):
        load(file, "NPZ", stated)
    load(file, "NPZ", Stated(4, 8, 2, 2))
    load(file, "NPZ", Stated(5, 9, 2, 3))


def test_an_edge_list_longer_than_stated_is_not_read_to_its_end(tmp_path: Path) -> None:
    (tmp_path / "e.csv").write_text("0,1\n" * 1000)
    with pytest.raises(DataError, match="more than the 10 rows"):
        load(tmp_path / "e.csv", "CSV", Stated(edges=10))
