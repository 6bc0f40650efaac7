"""`hyperscale data` and `hyperscale partition` on small files."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from pyarrow import parquet

from hyperscale.model.api.datasets import DatasetSize
from hyperscale.training.data import read
from hyperscale.training.data.formats import builtin
from hyperscale.training.data.formats.archive import write
from hyperscale.training.data.generate import Kind, Recipe, generate
from tests.unit.cli.cli_samples import run

SMALL = DatasetSize(60, 240, 7, 3)


@pytest.fixture
def generated(tmp_path: Path) -> Path:
    file = tmp_path / "graph.npz"
    ran = run("data", "generate", "SBM", "--vertices", "400", "--edges", "3200", "--classes", "4", "--out", str(file), "-o", "json")
    assert ran.code == 0, ran.err
    assert json.loads(ran.out)["edges"] == 3200
    return file


def test_a_generated_graph_reads_back_as_it_was(generated: Path) -> None:
    ran = run("data", "inspect", str(generated), "-o", "json")
    about = json.loads(ran.out)
    assert (about["vertices"], about["edges"], about["featureSize"], about["classes"]) == (400, 3200, 64, 4)
    assert about["homophily"] > 0.7
    again = run("data", "inspect", str(generated))
    assert about["digest"] in again.out
    assert "    featureSize: 64\n" in again.out, "as spec.dataset wants it"


def test_inspecting_names_the_format_which_a_job_takes_for_dgl_otherwise(generated: Path) -> None:
    assert "    format: NPZ\n" in run("data", "inspect", str(generated)).out
    assert json.loads(run("data", "inspect", str(generated), "-o", "json").out)["format"] == "NPZ"
    assert "format" not in run("data", "inspect", "Cora").out


def test_parts_follow_the_shares_and_land_in_parquet(generated: Path, tmp_path: Path) -> None:
    out = tmp_path / "parts.parquet"
    ran = run("partition", str(generated), "--shares", "2,1,1", "-o", "parquet", "--out", str(out))
    answer = json.loads(ran.out)
    assert [part["share"] for part in answer["parts"]] == [0.5, 0.25, 0.25]
    assert sum(part["vertices"] for part in answer["parts"]) == 400
    table = parquet.read_table(out)
    assert np.bincount(table["part"].to_numpy()).tolist() == [part["vertices"] for part in answer["parts"]]
    assert table["vertex"].to_pylist() == list(range(400))


@pytest.mark.parametrize("method", ["Auto", "METIS", "MtKaHyPar", "Random", "Degree", "None", "Fennel"])
def test_every_method_answers_with_a_table(method: str, generated: Path) -> None:
    ran = run("partition", str(generated), "--partitions", "3", "--method", method)
    assert ran.code == 0, ran.err
    assert len([line for line in ran.out.splitlines() if line.strip()[:1] in "012" and "%" in line]) == 3


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("data", "inspect", "/nowhere/graph.npz"), "no such file or folder"),
        (("data", "generate", "SBM", "--vertices", "9", "--edges", "98", "--out", "x.npz"), "--edges: 98 are more than half of all pairs"),
        (("data", "generate", "SBM", "--vertices", "0", "--edges", "9", "--out", "x.npz"), "whole number from 1"),
        (("partition", "Cora"), "write for example --partitions 4"),
        (("partition", "Cora", "--shares", "1,-1"), "not above 0"),
        (("partition", "Cora", "--shares", "1,nan"), "not above 0"),
        (("partition", "Cora", "--shares", "1,x"), "are no numbers"),
        (("partition", "Cora", "--shares", "1,2", "--partitions", "3"), "2 numbers for 3 parts"),
        (("partition", "Cora", "--partitions", "2", "-o", "parquet"), "add --out"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(arguments: tuple[str, ...], words: str) -> None:
    ran = run(*arguments)
    assert ran.code == 2
    assert words in ran.err
    assert ran.err.count("\n") == 1


def test_a_folder_that_says_nothing_of_its_form_asks_for_it(tmp_path: Path) -> None:
    assert "add --format" in run("data", "inspect", str(tmp_path)).err


def test_inspecting_a_plain_edge_list_counts_no_vertex_that_it_does_not_name_and_says_what_it_lacks(tmp_path: Path) -> None:
    file = tmp_path / "friends.txt"
    file.write_text("# who knows whom\n1 2\n2 3\n3 1\n3 4\n")
    ran = run("data", "inspect", str(file))
    assert ran.code == 2, "nothing could be trained on it"
    expected = ("    vertices: 4\n", "    edges: 8\n", "ids begin at 1", "no labels", "4 rows of edges became 8 directed edges")
    assert [text for text in (*expected, "spec.dataset.direction: Directed") if text not in ran.out] == []
    assert "Isolated" not in ran.out or "0 vertices" in ran.out
    assert ran.err.count("\n") == 1
    assert "nodes.csv" in ran.err
    answer = json.loads(run("data", "inspect", str(file), "-o", "json").out)
    assert (answer["vertices"], answer["train"]) == (4, 0)
    assert len(answer["notes"]) >= 3


def test_inspecting_says_how_features_are_treated(generated: Path) -> None:
    assert "normalizeFeatures" in run("data", "inspect", "Cora").out
    ran = run("data", "inspect", str(generated))
    assert ran.code == 0
    assert "rows sum to 1" in ran.out


@pytest.fixture
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A folder with a graph under PubMed's name behind an address."""

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            return

    folder = tmp_path_factory.mktemp("served")
    write(folder / "pubmed.npz", generate(Recipe(Kind.SBM, *SMALL), 1))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.mark.filterwarnings("ignore")
def test_a_public_graph_comes_from_the_address_that_is_named(address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HYPERSCALE_DATASETS", raising=False)
    monkeypatch.setenv("HYPERSCALE_DATASETS_URL", address)
    monkeypatch.setattr(builtin, "BUILTIN_SIZES", {"PubMed": SMALL})
    assert read("builtin", "PubMed", "", cache=tmp_path).name == "PubMed"
    assert len(list(tmp_path.iterdir())) == 1
    monkeypatch.setenv("HYPERSCALE_DATASETS_URL", f"{address}/elsewhere")
    assert read("builtin", "PubMed", "", cache=None).name == "PubMed (generated)", "not at that address"
