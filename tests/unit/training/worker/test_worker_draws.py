"""What dropout leaves out follows from seed, epoch and the numbers in the whole graph: any number of ranks trains as one process does."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from benchmarks.threads import run_threads
from hyperscale.model.adjacency import TrainingGraph
from hyperscale.training.engine.full import FullTrainer
from hyperscale.training.engine.ops import Passes
from hyperscale.training.engine.sparse_features import SparseRows
from hyperscale.training.modelgraph import csr, fused_operations, kernels
from hyperscale.training.modelgraph.kernels import Drop
from hyperscale.training.partition import local_part
from hyperscale.training.runtime.comm import Comm
from hyperscale.training.sampling.sampled_trainer import SampledTrainer
from tests.builders.training import a_run, labelled_graph

CPU = torch.device("cpu")
VERTICES = 60
DROPPED = {"dropout": 0.5, "attentionDropout": 0.5}


def words() -> TrainingGraph:
    """A graph whose features are mostly zeros; those of the last vertices are not, so that their rank alone would keep them as they are."""
    graph = labelled_graph(5, VERTICES, features=200, degree=6.0)
    rng = np.random.default_rng(1)
    filled = rng.random(graph.features.shape) < np.where(np.arange(VERTICES) < 54, 0.02, 0.3)[:, None]
    return replace(graph, features=np.where(filled, np.abs(graph.features) + 0.1, 0.0).astype(np.float32))


def trained(
    kind: type[FullTrainer], graph: TrainingGraph, ranks: int, model: dict[str, Any], hyper: dict[str, Any], passes: Passes
) -> list[torch.Tensor]:
    """Losses of three epochs, and the weights after them."""
    rng = np.random.default_rng(2)
    cut = np.where(np.arange(VERTICES) < 54, rng.choice(max(ranks - 1, 1), VERTICES), ranks - 1).astype(np.int32)

    def rank(comm: Comm) -> list[torch.Tensor]:
        trainer = kind(a_run(model, hyper, rank=comm.rank, size=ranks), comm, local_part(graph, cut, comm.rank, ranks), CPU, passes)
        losses = [trainer.epoch(number).loss for number in range(1, 4)]
        assert isinstance(trainer._x, SparseRows) == (graph.features.shape[1] == 200)
        return [torch.tensor(losses), *(parameter.detach().clone() for parameter in trainer.model.parameters())]

    made: list[list[torch.Tensor]] = run_threads(ranks, rank)
    return made[0]


def same(given: list[torch.Tensor], wanted: list[torch.Tensor]) -> bool:
    return all(torch.allclose(one, other, rtol=1e-4, atol=1e-5) for one, other in zip(given, wanted, strict=True))


@pytest.mark.parametrize("passes", [fused_operations, csr], ids=["fused", "products"])
@pytest.mark.parametrize("features", ["numbers", "words"])
@pytest.mark.parametrize(
    ("architecture", "hyper"),
    [
        ("GCN", {}),
        ("GraphSAGE", {}),
        ("GraphSAGE", {"aggregator": "GCN"}),
        ("GAT", {}),
        ("GAT", {"projectedDropout": 0.5}),
    ],
    ids=["GCN", "GraphSAGE", "GraphSAGE-gcn", "GAT", "GAT-projected"],
)
def test_any_number_of_ranks_drops_the_same_entries(architecture: str, hyper: dict[str, Any], features: str, passes: Passes) -> None:
    graph = words() if features == "words" else labelled_graph(5, VERTICES, features=12, degree=6.0)
    model = {"architecture": architecture, "layers": 3, "heads": 2, "hiddenSize": 20}
    one = trained(FullTrainer, graph, 1, model, DROPPED | hyper, passes)
    assert same(trained(FullTrainer, graph, 2, model, DROPPED | hyper, passes), one)
    assert same(trained(FullTrainer, graph, 3, model, DROPPED | hyper, passes), one)
    assert not same(trained(FullTrainer, graph, 3, model, DROPPED | hyper | {"dropout": 0.4}, passes), one)


@pytest.mark.parametrize("passes", [fused_operations, csr], ids=["fused", "products"])
@pytest.mark.parametrize("architecture", ["GCN", "GraphSAGE", "GAT"])
def test_any_number_of_ranks_draws_the_same_batches_and_drops_the_same(architecture: str, passes: Passes) -> None:
    graph = labelled_graph(5, VERTICES, features=12, degree=6.0)
    model = {"architecture": architecture, "layers": 2, "heads": 2, "fanouts": [2, 3]}
    one = trained(SampledTrainer, graph, 1, model | {"batchSize": 24}, DROPPED, passes)
    assert same(trained(SampledTrainer, graph, 3, model | {"batchSize": 8}, DROPPED, passes), one)
    assert not same(
        trained(SampledTrainer, graph, 3, model | {"batchSize": 8}, DROPPED | {"attentionDropout": 0.0, "dropout": 0.0}, passes), one
    )


@pytest.mark.parametrize("compiled", [True, False])
def test_some_entries_of_a_row_are_dropped_as_they_are_in_the_row(compiled: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "COMPILED", compiled)
    row, how = np.arange(1, 101, dtype=np.float32), Drop(0.5, 7)
    at = np.array([99, 3, 4, 50], dtype=np.uint32)
    whole = kernels.drop(row[None, :], how)[0]
    assert kernels.drop_some(row[at], at, how).tolist() == whole[at].tolist()
    assert 20 < np.count_nonzero(whole) < 80


@pytest.mark.parametrize("compiled", [True, False])
def test_a_row_is_dropped_by_its_number_wherever_it_lies(compiled: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "COMPILED", compiled)
    rows, how = np.ones((40, 8), dtype=np.float32), Drop(0.5, 7)
    ids = np.array([30, 2, 7])
    assert kernels.drop(rows[ids], how, ids=ids).tolist() == kernels.drop(rows, how)[ids].tolist()


def test_numbers_that_do_not_fit_the_rows_are_refused() -> None:
    rows, how = np.ones((4, 8), dtype=np.float32), Drop(0.5, 7)
    with pytest.raises(ValueError, match=r"ids must be \(4,\) contiguous int64"):
        kernels.drop(rows, how, ids=np.arange(3))
    with pytest.raises(ValueError, match=r"at must be \(8,\) uint32"):
        kernels.drop_some(rows[0], np.arange(8), how)
