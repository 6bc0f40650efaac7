"""Files that lie, are torn, or hold more than a job states: one line that names them, never a traceback."""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np
import pytest

from hyperscale.data import DataError, Stated, read
from hyperscale.model.adjacency import TrainingGraph


def load(place: Path, form: str, stated: Stated | None = None) -> TrainingGraph:
    return read("pvc", str(place), form, cache=None, seed=3, stated=stated)


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
    "loose.graphml": (b'<graphml><graph><edge source="a" target="b"/></graph></graphml>', "GraphML", "line 1: source 'a' is no vertex"),
    "torn.graphml": (b"<graphml><graph>", "GraphML", "no well-formed XML"),
    "none.graphml": (b"<graphml/>", "GraphML", "no <graph>"),
    "m.csv": (b"molecule\nCC\n", "SMILES", "no column 'smiles'"),
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


def test_pickles_inside_npz_are_not_opened(tmp_path: Path) -> None:
    np.savez(tmp_path / "g.npz", edges=np.array([[0, 1]]), labels=np.array([{"a": 1}, 2], dtype=object))
    with pytest.raises(DataError, match="no objects inside"):
        load(tmp_path / "g.npz", "NPZ")


def test_an_archive_that_claims_more_than_memory_is_not_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "g.npz"
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("features.npy", bytes(4 << 20))
    monkeypatch.setattr("hyperscale.data.limits.limit_bytes", lambda: 1 << 20)
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


def test_variables_state_sizes() -> None:
    assert Stated.from_environment({"HYPERSCALE_DATASET_VERTICES": "12", "HYPERSCALE_DATASET_EDGES": ""}) == Stated(vertices=12)
    with pytest.raises(DataError, match="HYPERSCALE_DATASET_CLASSES: '-1' is no whole number"):
        Stated.from_environment({"HYPERSCALE_DATASET_CLASSES": "-1"})
