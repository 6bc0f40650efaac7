"""Graphs that are slow to read are kept by the version of what read them, however that package came here."""

from __future__ import annotations

from importlib import metadata
from pathlib import Path

import networkx as nx
import pytest

import hyperscale
from hyperscale.training.data import graph_cache, graph_digest, read


@pytest.fixture
def drawing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A GraphML file, read where no package has metadata: as the worker image holds this one."""

    def absent(package: str) -> str:
        raise metadata.PackageNotFoundError(package)

    monkeypatch.setattr(metadata, "version", absent)
    nx.write_graphml(nx.cycle_graph(12), tmp_path / "g.graphml")
    return tmp_path / "g.graphml"


def test_a_package_without_metadata_is_known_by_its_own_version(drawing: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = drawing.parent / "cache"

    def kept() -> int:
        read("persistentVolumeClaim", str(drawing), "GraphML", cache=cache)
        return len(list(cache.iterdir()))

    assert (kept(), kept()) == (1, 1)
    monkeypatch.setattr(hyperscale, "__version__", "0.2.0")
    assert kept() == 2, "another version reads it again"


@pytest.mark.parametrize("package", ["msgspec._no_such_module", "networkx.algorithms.cycles"], ids=["absent", "silent"])
def test_what_is_read_by_an_unknown_version_is_not_kept(drawing: Path, monkeypatch: pytest.MonkeyPatch, package: str) -> None:
    monkeypatch.setitem(graph_cache.SLOW, "GraphML", package)
    graph = read("persistentVolumeClaim", str(drawing), "GraphML", cache=drawing.parent / "cache")
    assert graph_digest(graph) == graph_digest(read("persistentVolumeClaim", str(drawing), "GraphML", cache=None))
    assert not (drawing.parent / "cache").exists()
