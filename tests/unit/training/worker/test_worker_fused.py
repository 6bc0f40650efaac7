"""Layers in one pass over the edges, layers of sparse products and layers of DGL's operations are the same: loss, scores, gradients."""

from __future__ import annotations

from typing import Any, cast

import dgl
import dgl.nn as dglnn
import numpy as np
import pytest
import torch

from benchmarks.peers import dglpasses
from benchmarks.threads import run_threads, solo
from hyperscale.model.adjacency import LocalPart
from hyperscale.training.engine import neighbourhood
from hyperscale.training.engine.full import FullTrainer
from hyperscale.training.engine.models import Dropout, DropoutRng
from hyperscale.training.engine.ops import Passes
from hyperscale.training.engine.sparse_features import SparseRows, rows_of
from hyperscale.training.modelgraph import csr, fused_operations, tails
from hyperscale.training.modelgraph.kernels import Drop
from hyperscale.training.partition import local_part
from hyperscale.training.runtime.comm import Comm
from hyperscale.training.sampling.sampled_trainer import SampledTrainer
from tests.builders.training import a_run, labelled_graph

CPU = torch.device("cpu")
ARCHITECTURES = ("GCN", "GraphSAGE", "GAT")
VERTICES, SHARES = 60, (0.6, 0.3, 0.1)
DROPPED = {"dropout": 0.4, "attentionDropout": 0.3}
OTHERS = pytest.mark.parametrize("other", [csr, dglpasses], ids=["products", "DGL"])


def parts_of(ranks: int) -> list[LocalPart]:
    graph = labelled_graph(5, VERTICES, features=12, degree=6.0)
    rng = np.random.default_rng(2)
    cut = rng.choice(ranks, VERTICES, p=np.array(SHARES[:ranks]) / sum(SHARES[:ranks])).astype(np.int32)
    return [local_part(graph, cut, rank, ranks) for rank in range(ranks)]


def trained(
    kind: type[FullTrainer], ranks: int, model: dict[str, Any], hyper: dict[str, Any], passes: Passes = fused_operations
) -> list[list[torch.Tensor]]:
    """The loss and the gradients of one epoch, by rank."""
    parts = parts_of(ranks)

    def rank(comm: Comm) -> list[torch.Tensor]:
        trainer = kind(a_run(model, hyper, rank=comm.rank, size=comm.size), comm, parts[comm.rank], CPU, passes)
        loss = trainer.epoch(1).loss
        scores = trainer.evaluate()
        gradients = [parameter.grad.clone() for parameter in trainer.model.parameters() if parameter.grad is not None]
        return [torch.tensor([loss, scores.validation_loss]), *gradients]

    made: list[list[torch.Tensor]] = run_threads(ranks, rank)
    return made


def close(given: list[list[torch.Tensor]], wanted: list[list[torch.Tensor]]) -> None:
    for mine, theirs in zip(given, wanted, strict=True):
        assert len(mine) == len(theirs) > 2
        for one, other in zip(mine, theirs, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


@OTHERS
@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("ranks", [1, 3])
@pytest.mark.parametrize("hidden", [4, 20])
@pytest.mark.parametrize("hyper", [{}, DROPPED], ids=["whole", "dropped"])
def test_a_part_trains_alike_by_any_passes(architecture: str, ranks: int, hidden: int, hyper: dict[str, Any], other: Passes) -> None:
    model = {"architecture": architecture, "hiddenSize": hidden, "layers": 3, "heads": 2}
    fused = trained(FullTrainer, ranks, model, hyper)
    close(fused, trained(FullTrainer, ranks, model, hyper, other))


@OTHERS
@pytest.mark.parametrize("ranks", [1, 3])
@pytest.mark.parametrize("batch", [{}, {"fanouts": [2, 3], "batchSize": 8}], ids=["graph", "batch"])
def test_the_mean_over_own_and_neighbours_trains_alike(ranks: int, batch: dict[str, Any], other: Passes) -> None:
    model = {"architecture": "GraphSAGE", "layers": 2} | batch
    kind = SampledTrainer if batch else FullTrainer
    fused = trained(kind, ranks, model, DROPPED | {"aggregator": "GCN"})
    close(fused, trained(kind, ranks, model, DROPPED | {"aggregator": "GCN"}, other))


def test_the_gcn_aggregator_is_dgls() -> None:
    graph = labelled_graph(5, VERTICES, features=12, degree=6.0)
    part = local_part(graph, np.zeros(VERTICES, np.int32), 0, 1)
    run = a_run({"architecture": "GraphSAGE", "layers": 1}, {"aggregator": "GCN", "normalizeFeatures": False})
    trainer = FullTrainer(run, solo(), part, CPU)
    layer = cast(Any, trainer.model).layers[0]
    theirs = dglnn.SAGEConv(12, 3, "gcn")
    with torch.no_grad():
        theirs.fc_neigh.weight.copy_(layer.weight.t())
    whole = dgl.graph(("csc", (torch.from_numpy(graph.indptr), torch.from_numpy(graph.indices.astype(np.int64)), torch.tensor([]))))
    expected = theirs(whole, torch.from_numpy(graph.features))
    given = trainer.model(trainer._graphs, torch.from_numpy(graph.features))
    torch.testing.assert_close(given, expected, rtol=1e-5, atol=1e-6)


@OTHERS
@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("ranks", [1, 2])
@pytest.mark.parametrize("hyper", [{}, DROPPED], ids=["whole", "dropped"])
def test_a_batch_trains_alike_by_any_passes(architecture: str, ranks: int, hyper: dict[str, Any], other: Passes) -> None:
    model = {"architecture": architecture, "layers": 2, "heads": 2, "fanouts": [2, 3], "batchSize": 8}
    fused = trained(SampledTrainer, ranks, model, hyper)
    close(fused, trained(SampledTrainer, ranks, model, hyper, other))


@pytest.mark.parametrize("ranks", [1, 2])
def test_what_attention_weighs_is_dropped_apart_from_what_it_scores(ranks: int, monkeypatch: pytest.MonkeyPatch) -> None:
    model, hyper = {"architecture": "GAT", "layers": 2, "heads": 2}, DROPPED | {"projectedDropout": 0.5}
    both = trained(FullTrainer, ranks, model, hyper)
    monkeypatch.setattr(neighbourhood, "csr", dglpasses)
    close(both, trained(FullTrainer, ranks, model, hyper, dglpasses))


def test_a_part_with_nobody_elses_neighbours_and_one_without_edges_train() -> None:
    graph = labelled_graph(1, 12, degree=4.0)
    lonely = int(np.flatnonzero(np.diff(graph.indptr) == 0)[0])
    cut = np.zeros(12, np.int32)
    cut[lonely] = 1
    for architecture in ARCHITECTURES:

        def rank(comm: Comm, architecture: str = architecture) -> float:
            run = a_run({"architecture": architecture}, rank=comm.rank, size=2)
            return FullTrainer(run, comm, local_part(graph, cut, comm.rank, 2), CPU).epoch(1).loss

        first, second = run_threads(2, rank)
        assert first == second > 0.0


def test_dropout_draws_anew_within_an_epoch_and_the_same_when_the_epoch_is_run_again() -> None:
    rng = DropoutRng(3, 1)
    layer, x = Dropout(0.5, rng), torch.ones(50, 8)
    drawn = []
    for epoch in (7, 8, 7):
        rng.begin(epoch)
        drawn.append([layer(x), layer(x)])
    first, other, again = drawn
    assert not torch.equal(first[0], first[1])
    assert not torch.equal(first[0], other[0])
    assert all(torch.equal(one, two) for one, two in zip(first, again, strict=True))
    assert set(cast(torch.Tensor, first[0]).flatten().tolist()) == {0.0, 2.0}
    other_rank = DropoutRng(3, 2)
    other_rank.begin(7)
    assert not torch.equal(Dropout(0.5, other_rank)(x), first[0])


def test_dropout_of_sparse_rows_keeps_their_places() -> None:
    rows = rows_of(np.eye(40, 60, dtype=np.float32), CPU, sparse=True)
    assert isinstance(rows, SparseRows)
    rng = DropoutRng(0, 0)
    rng.begin(1)
    thinned = Dropout(0.5, rng)(rows)
    assert isinstance(thinned, SparseRows)
    dense = thinned.dense()
    assert 0 < int((dense == 2.0).sum()) < 40
    assert int(((dense != 0.0) & (dense != 2.0)).sum()) == 0


def test_dropout_on_other_devices_depends_on_the_seed_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.ones(30, 4)
    monkeypatch.setattr(tails, "fits", lambda *_: False)
    monkeypatch.setattr(tails, "BLOCK_FLOATS", 16)
    first, again, other = (tails.dropout(x, Drop(0.5, seed)) for seed in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert set(first.flatten().tolist()) == {0.0, 2.0}
    assert len({tuple(row.tolist()) for row in first}) > 4, "blocks draw apart"
