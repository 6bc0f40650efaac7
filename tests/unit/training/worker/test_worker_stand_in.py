"""A generated graph in place of a builtin one that was not found: every result and every progress figure says so."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import prometheus_client
import pytest
import torch

from benchmarks.threads import run_threads, solo
from hyperscale.model.adjacency import LocalPart
from hyperscale.model.api.datasets import DatasetSize
from hyperscale.model.api.measured import Measured
from hyperscale.training.data.formats import builtin
from hyperscale.training.data.formats.archive import write
from hyperscale.training.data.generate import Kind, Recipe, generate
from hyperscale.training.engine.report import Reporter
from hyperscale.training.molecules.molecules import GraphTrainer
from hyperscale.training.runtime.comm import Comm
from hyperscale.training.worker import load_part, prepare
from hyperscale.training.worker import train as worker
from tests.builders.training import a_run, environment
from tests.unit.training.worker.test_worker_molecules import many_graphs, parts_of

SMALL = DatasetSize(60, 240, 7, 3)
SAMPLED = {"architecture": "GraphSAGE", "batchSize": 8, "fanouts": [3, 3]}


@pytest.fixture(autouse=True)
def small_pubmed_that_is_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """PubMed's name with the size of a test."""
    for variable in (builtin.FOLDER_VARIABLE, builtin.URL_VARIABLE):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr(builtin, "BUILTIN_SIZES", {"PubMed": SMALL})


def trained(model: dict[str, Any], monkeypatch: pytest.MonkeyPatch, **variables: str) -> Measured:
    """The result of one rank, trained as `mpirun` would start it."""
    variables = {"HYPERSCALE_DATASET_PATH": "PubMed", **variables}
    run = a_run({"epochs": 1, **model}, None, 0, 1, **variables)
    for name, value in environment({"epochs": 1, **model}, None, 0, 1, **variables).items():
        monkeypatch.setenv(name, value)
    results: list[Measured] = run_threads(1, lambda comm: worker.train(run, comm))
    return results[0]


@pytest.mark.parametrize("model", [{}, SAMPLED], ids=["full graph", "sampled"])
def test_a_result_on_a_stand_in_says_generated(model: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    assert trained(model, monkeypatch).generated


def test_a_result_on_many_graphs_says_generated_too(monkeypatch: pytest.MonkeyPatch) -> None:
    part: LocalPart = replace(parts_of(many_graphs(6), 1)[0], name="PubMed (generated)")
    monkeypatch.setattr(load_part, "part", lambda *_: part)
    chosen = worker.choose(a_run({"hiddenSize": 8}), solo(), part, torch.device("cpu"))
    assert isinstance(chosen, GraphTrainer)
    assert trained({"hiddenSize": 8}, monkeypatch).generated


def test_a_result_on_the_builtin_graph_does_not(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    write(tmp_path / "pubmed.npz", generate(Recipe(Kind.SBM, *SMALL), 1))
    monkeypatch.setenv(builtin.FOLDER_VARIABLE, str(tmp_path))
    assert not trained({}, monkeypatch).generated


def test_a_graph_that_the_job_asks_to_generate_is_no_stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    path = "SBM?vertices=60&edges=240&featureSize=7&classes=3"
    assert not trained({}, monkeypatch, HYPERSCALE_DATASET_SOURCE="generated", HYPERSCALE_DATASET_PATH=path).generated


def test_a_users_own_file_may_have_any_name() -> None:
    assert not builtin.is_stand_in("persistentVolumeClaim", "PubMed (generated)")


@pytest.mark.parametrize("ranks", [2, 1], ids=["a part a rank", "merged parts"])
def test_parts_that_the_partition_job_wrote_of_a_stand_in_say_so(ranks: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    variables = {
        "HYPERSCALE_DATASET_PATH": "PubMed",
        "HYPERSCALE_WORKERS": str(ranks),
        "HYPERSCALE_PARTITIONS": "2",
        "HYPERSCALE_PARTITIONING_METHOD": "Random",
        "HYPERSCALE_PARTITION_DIR": str(tmp_path),
    }
    told = environment({}, None, 0, ranks, **variables)
    assert prepare.main({**os.environ, **told}) == 0
    monkeypatch.setattr(builtin, "read", lambda *_: pytest.fail("the parts are on the volume"))

    def rank(comm: Comm) -> tuple[LocalPart, bool]:
        run = a_run({}, None, comm.rank, comm.size, **variables)
        part = load_part.part(run, comm, told)
        return part, load_part.is_stand_in(run, part)

    assert [said for _, said in run_threads(ranks, rank)] == [True] * ranks


def test_progress_on_a_stand_in_says_so_and_other_progress_has_no_such_series() -> None:
    reporter = Reporter(a_run())
    assert "hyperscale_training_generated{" not in prometheus_client.generate_latest(reporter.registry).decode()
    reporter.flag("generated")
    assert "hyperscale_training_generated{" in prometheus_client.generate_latest(reporter.registry).decode()
