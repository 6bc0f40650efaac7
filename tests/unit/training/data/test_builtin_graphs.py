"""Graphs that come with the package or by a public name."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from hyperscale.training.data import DataError, graph_digest, read
from hyperscale.training.data.formats.archive import write
from hyperscale.training.data.generate import Kind, Recipe, generate

ROOT = Path(__file__).resolve().parents[4]
PLANETOID = {
    "Cora": "bd0008cdb1d5fa8c297c6a93d5cab1c902f70683048f62ff5005f4c49867cf69",
    "CiteSeer": "684154931b52aa291af681af3bba83f63c1097fa53947188ac84e9ab6c38d318",
}
"""`graph_digest` of both graphs with their public split."""


@pytest.mark.parametrize(("name", "size"), [("Cora", (2708, 10556, 1433, 7)), ("CiteSeer", (3327, 9104, 3703, 6))])
def test_cora_and_citeseer_come_with_the_package(
    name: str, size: tuple[int, ...], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.delenv("HYPERSCALE_DATASETS", raising=False)
    monkeypatch.delenv("HYPERSCALE_DATASETS_URL", raising=False)
    graph = read("builtin", name, "DGL", cache=None)
    assert (len(graph.indptr) - 1, len(graph.indices), graph.features.shape[1], graph.classes) == size
    assert (graph.train.sum(), graph.validation.sum(), graph.test.sum()) == (20 * graph.classes, 500, 1000)
    assert graph_digest(graph) == PLANETOID[name], "the arrays of kimiyoung/planetoid at af6abf4"
    assert graph.name == name
    assert not caplog.records


def test_a_wheel_of_this_package_carries_the_graphs_and_their_notice() -> None:
    patterns = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"][
        "hyperscale.training.data.formats"
    ]
    folder = ROOT / "operator/hyperscale/training/data/formats"
    carried = {file.name for pattern in patterns for file in folder.glob(pattern)}
    assert {"cora.npz", "citeseer.npz", "NOTICE"} <= carried


def test_a_graph_of_another_size_under_a_public_name_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "pubmed.npz", generate(Recipe(Kind.SBM, 60, 240, 7, 3), 1))
    monkeypatch.setenv("HYPERSCALE_DATASETS", str(tmp_path))
    with pytest.raises(DataError, match="put the public graph there"):
        read("builtin", "PubMed", "NPZ", cache=None)


def test_without_the_public_graph_a_generated_one_says_so(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.delenv("HYPERSCALE_DATASETS", raising=False)
    monkeypatch.delenv("HYPERSCALE_DATASETS_URL", raising=False)
    graph = read("builtin", "PubMed", "NPZ", cache=None)
    assert graph.name == "PubMed (generated)"
    assert (len(graph.indptr) - 1, len(graph.indices)) == (19717, 88648)
    assert "GENERATED" in caplog.text
