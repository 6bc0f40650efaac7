"""Graph-level training: any number of ranks trains what one process trains, to the bit; every graph once an epoch; ROC-AUC by ranks."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
import pytest
import torch

from benchmarks.threads import run_threads
from hyperscale.model.adjacency import LocalPart, TrainingGraph
from hyperscale.model.api.hyperparameters import Aggregator
from hyperscale.model.api.job import Architecture
from hyperscale.training.data.graphs import deal
from hyperscale.training.engine.loop import Loop
from hyperscale.training.engine.report import Reporter
from hyperscale.training.engine.sampling_batches import Shuffle
from hyperscale.training.molecules import molecules_ops
from hyperscale.training.molecules.molecules import GraphTrainer
from hyperscale.training.molecules.molecules_batch import assemble, prepared
from hyperscale.training.molecules.molecules_score import mean_roc_auc, roc_auc
from hyperscale.training.partition import local_part
from hyperscale.training.runtime.comm import Comm
from hyperscale.training.runtime.contract import ContractError
from hyperscale.training.runtime.published_settings import PUBLISHED_FOR_GRAPHS
from tests.builders.training import a_run

CPU = torch.device("cpu")
ARCHITECTURES = ("GCN", "GraphSAGE", "GAT")


def many_graphs(seed: int, count: int = 24, tasks: int = 2) -> TrainingGraph:
    """Rings with a tail, categories on vertices and edges; the label is whether a certain vertex occurs. Some labels are unknown."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 7, count)
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    rows: list[tuple[int, int]] = []
    for start, size in zip(offsets[:-1], sizes, strict=True):
        rows += [(start + at, start + at - 1) for at in range(1, size)] + [(start + at - 1, start + at) for at in range(1, size)]
    pairs = np.asarray(sorted(rows), np.int64).reshape(-1, 2)
    features = np.stack([rng.integers(0, 5, offsets[-1]), rng.integers(0, 2, offsets[-1])], axis=1)
    ranges = list(itertools.pairwise(offsets))
    labels = np.asarray([[float((features[low:high, 0] == task).any()) for task in range(tasks)] for low, high in ranges])
    labels[2, 0] = np.nan
    kind = np.arange(count) % 4
    return TrainingGraph(
        indptr=np.concatenate([[0], np.cumsum(np.bincount(pairs[:, 0], minlength=offsets[-1]))]).astype(np.int64),
        indices=pairs[:, 1].astype(np.int32),
        features=features,
        labels=labels.astype(np.float32),
        train=kind < 2,
        validation=kind == 2,
        test=kind == 3,
        classes=tasks,
        graph_offsets=offsets,
        edge_features=rng.integers(0, 3, (len(pairs), 2)),
        name="rings",
    )


def parts_of(graph: TrainingGraph, ranks: int) -> list[LocalPart]:
    shares = tuple(np.arange(ranks, 0, -1) / np.arange(1, ranks + 1).sum())
    assignment = deal(graph, shares, 0)
    return [local_part(graph, assignment, rank, ranks) for rank in range(ranks)]


def trained(graph: TrainingGraph, ranks: int, epochs: int, model: dict[str, Any], hyper: dict[str, Any]) -> list[Any]:
    parts = parts_of(graph, ranks)

    def rank(comm: Comm) -> Any:
        run = a_run({"layers": 2, "hiddenSize": 8} | model, hyper, rank=comm.rank, size=comm.size)
        trainer = GraphTrainer(run, comm, parts[comm.rank], CPU)
        stats = [trainer.epoch(number) for number in range(1, epochs + 1)]
        return [stat.loss for stat in stats], trainer.evaluate(), {n: t.clone() for n, t in trainer.model.state_dict().items()}

    return run_threads(ranks, rank)


@pytest.mark.skipif(not molecules_ops.COMPILED, reason="built without a C compiler")
@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize(("dropout", "residual", "tasks"), [(0.0, False, 2), (0.4, True, 1)])
def test_uneven_ranks_train_what_one_process_trains_to_the_bit(architecture: str, dropout: float, residual: bool, tasks: int) -> None:
    graph = many_graphs(1, 60, tasks)
    model = {"architecture": architecture, "heads": 2, "hiddenSize": 20, "layers": 3}
    hyper = {"learningRate": 0.02, "dropout": dropout, "attentionDropout": dropout, "residual": residual}
    alone, *_ = trained(graph, 1, 8, model | {"batchSize": 6}, hyper)
    for ranks in (2, 3):
        for losses, scores, weights in trained(graph, ranks, 8, model | {"batchSize": 6 // ranks}, hyper):
            assert losses == alone[0]
            assert scores == alone[1]
            assert [name for name, tensor in weights.items() if not torch.equal(tensor, alone[2][name])] == []


@pytest.mark.skipif(not molecules_ops.COMPILED, reason="built without a C compiler")
def test_uneven_ranks_train_one_matrix_over_the_mean_with_the_own_row_to_the_bit() -> None:
    model, hyper = {"architecture": "GraphSAGE"}, {"aggregator": "GCN", "learningRate": 0.02, "dropout": 0.4}
    alone, *_ = trained(many_graphs(1, 60), 1, 8, model | {"batchSize": 6}, hyper)
    for losses, _, weights in trained(many_graphs(1, 60), 3, 8, model | {"batchSize": 2}, hyper):
        assert losses == alone[0]
        assert losses[-1] < losses[0]
        assert [name for name, tensor in weights.items() if not torch.equal(tensor, alone[2][name])] == []


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_without_a_compiler_uneven_ranks_train_what_one_process_trains_up_to_rounding(
    architecture: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(molecules_ops, "COMPILED", False)
    graph, model = many_graphs(1), {"architecture": architecture, "heads": 2}
    hyper = {"learningRate": 0.005, "dropout": 0.4, "attentionDropout": 0.4, "residual": True}
    (losses, scores, weights), *_ = trained(graph, 1, 3, model | {"batchSize": 6}, hyper)
    for other_losses, other_scores, other_weights in trained(graph, 3, 3, model | {"batchSize": 2}, hyper):
        assert other_losses == pytest.approx(losses, abs=1e-5)
        assert (other_scores.validation, other_scores.test) == pytest.approx((scores.validation, scores.test), abs=1e-6)
        assert other_scores.validation_loss == pytest.approx(scores.validation_loss, abs=1e-3)
        for name, tensor in weights.items():
            torch.testing.assert_close(other_weights[name], tensor, atol=2e-3, rtol=1e-2)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_all_ranks_hold_the_same_model_after_uneven_batches_with_dropout(architecture: str) -> None:
    results = trained(many_graphs(2), 3, 2, {"architecture": architecture, "batchSize": 2, "heads": 2}, {"dropout": 0.3})
    for _, scores, weights in results[1:]:
        assert scores == results[0][1]
        assert all(torch.equal(weights[name], results[0][2][name]) for name in weights)


def test_the_same_seed_gives_the_same_bits_and_training_learns() -> None:
    model = {"architecture": "GraphSAGE", "batchSize": 4}
    first, again = (trained(many_graphs(3, 60), 2, 25, model, {"learningRate": 0.02}) for _ in range(2))
    assert first[0][0] == again[0][0]
    assert all(torch.equal(first[0][2][name], again[0][2][name]) for name in first[0][2])
    assert first[0][0][-1] < 0.5 * first[0][0][0]
    assert first[0][1].train > 0.9


def test_every_graph_comes_once_an_epoch_in_the_same_batches_for_any_number_of_ranks() -> None:
    everybody = np.asarray([3, 4, 7, 8, 10, 11, 15])
    owned = [np.asarray([3, 5, 8]), np.asarray([1, 4, 7, 9, 10, 11, 15])]
    alone = Shuffle(everybody, everybody, np.arange(7))
    ranks = [Shuffle(everybody, ids, np.flatnonzero(np.isin(ids, everybody))) for ids in owned]
    for steps, epoch in ((3, 1), (3, 2), (1, 1), (9, 4)):
        whole = [set(everybody[rows]) for rows in alone.batches(steps, 5, epoch)]
        together = [
            {int(found) for ids, rows in zip(owned, batch, strict=True) for found in ids[rows]}
            for batch in zip(*(rank.batches(steps, 5, epoch) for rank in ranks), strict=True)
        ]
        assert together == whole
        assert len(whole) == steps
        assert sorted(found for batch in whole for found in batch) == everybody.tolist()
    assert [rows.tolist() for rows in alone.batches(2, 5, 1)] != [rows.tolist() for rows in alone.batches(2, 5, 2)]


@pytest.mark.parametrize(("architecture", "aggregator"), [*((each, "Mean") for each in ARCHITECTURES), ("GraphSAGE", "GCN")])
def test_a_batch_has_the_edges_and_sizes_of_its_graphs(architecture: str, aggregator: Aggregator) -> None:
    graph = many_graphs(4)
    part = parts_of(graph, 1)[0]
    merged = aggregator == "GCN"
    own = architecture != "GraphSAGE" or merged
    chosen = np.asarray([5, 0, 3])
    graphs = prepared(part, np.arange(len(part.indices)), len(part.indices), Architecture(architecture), aggregator)
    batch = assemble(graphs, chosen, CPU)
    offsets = part.extra["graph_offsets"]
    assert batch.sizes.tolist() == np.diff(offsets)[chosen].tolist()
    assert batch.ids.tolist() == [v for number in chosen for v in range(*offsets[number : number + 2])]
    degree = np.diff(part.indptr)
    found = [
        (int(batch.ids[batch.sources[e]]), int(batch.ids[batch.destinations[e]]), int(batch.kinds[e]), float(batch.weights[e, 0]))
        for e in range(len(batch.sources))
    ]
    expected = []
    for v in batch.ids.tolist():
        norm = 1.0 / np.sqrt(degree + 1.0)
        expected += [(v, v, len(part.indices), 1.0 / (degree[v] + 1.0))] * own
        for e in range(part.indptr[v], part.indptr[v + 1]):
            u = int(part.indices[e])
            expected.append((u, v, e, 1.0 / (degree[v] + own) if merged or not own else norm[u] * norm[v]))
    assert [edge[:3] for edge in found] == [edge[:3] for edge in expected]
    assert [edge[3] for edge in found] == pytest.approx([edge[3] for edge in expected])
    assert np.diff(batch.indptr.numpy()).tolist() == (degree[batch.ids.numpy()] + own).tolist()


def test_roc_auc_is_the_part_of_pairs_in_order_with_ties_counted_half() -> None:
    rng = np.random.default_rng(5)
    for _ in range(20):
        scores, labels = rng.integers(0, 6, 30).astype(float), rng.integers(0, 2, 30).astype(float)
        labels[4] = np.nan
        active, inactive = scores[labels == 1], scores[labels == 0]
        pairs = (active[:, None] > inactive).mean() + 0.5 * (active[:, None] == inactive).mean()
        assert roc_auc(scores, labels) == pytest.approx(pairs)
    assert math.isnan(roc_auc(np.arange(3.0), np.ones(3)))
    assert math.isnan(roc_auc(np.asarray([0.0, math.nan, 1.0]), np.asarray([0.0, 1.0, 1.0]))), "training that diverged ranks nothing"
    assert mean_roc_auc(np.asarray([[1.0, 2.0], [0.0, 1.0]]), np.asarray([[1.0, 1.0], [0.0, 1.0]])) == 1.0


def trainer_that_is_told(hyper: str, **model: Any) -> GraphTrainer:
    run = a_run(model, HYPERSCALE_HYPERPARAMETERS=hyper)
    made: list[GraphTrainer] = run_threads(1, lambda comm: GraphTrainer(run, comm, parts_of(many_graphs(1), 1)[0], CPU))
    return made[0]


def test_what_is_published_for_many_graphs_is_used_where_the_user_states_nothing() -> None:
    trainer = trainer_that_is_told("{}")
    assert trainer.hyper == PUBLISHED_FOR_GRAPHS
    assert trainer.optimizer.param_groups[0]["lr"] == PUBLISHED_FOR_GRAPHS.learning_rate


def test_one_stated_figure_does_not_bring_back_what_is_published_for_one_graph() -> None:
    trainer = trainer_that_is_told('{"learningRate": 0.25}', architecture="GAT", heads=2, hiddenSize=8)
    assert trainer.hyper == msgspec.structs.replace(PUBLISHED_FOR_GRAPHS, learning_rate=0.25)
    assert trainer.optimizer.param_groups[0]["lr"] == 0.25


def test_features_of_edges_are_left_out_where_the_user_wants_none() -> None:
    bare = msgspec.structs.replace(PUBLISHED_FOR_GRAPHS, edge_features=False)
    graph = many_graphs(1)
    without = replace(graph, edge_features=np.zeros((len(graph.indices), 1), np.int64))
    model = {"architecture": "GraphSAGE", "batchSize": 6}
    (losses, _, _), *_ = trained(graph, 1, 2, model, {"edgeFeatures": bare.edge_features})
    assert losses == trained(without, 1, 2, model, {})[0][0]
    assert losses != trained(graph, 1, 2, model, {})[0][0]


def test_wrong_labels_and_heads_are_one_line_on_every_rank() -> None:
    graph = many_graphs(1)
    graph.labels[0, 0] = 0.5
    with pytest.raises(ContractError, match="labels of graphs must be 0, 1 or empty"):
        trained(graph, 2, 1, {"architecture": "GCN"}, {})
    with pytest.raises(ContractError, match="hiddenSize 8 is no multiple of 3 heads"):
        trained(many_graphs(1), 1, 1, {"architecture": "GAT", "heads": 3}, {})


def test_a_data_set_of_many_graphs_is_trained_so_by_the_worker() -> None:
    part = parts_of(many_graphs(6), 1)[0]

    def rank(comm: Comm) -> Any:
        run = a_run({"epochs": 2, "hiddenSize": 8})
        return Loop(run, comm, GraphTrainer(run, comm, part, CPU), Reporter(run)).train()

    result = run_threads(1, rank)[0]
    assert result.finished
    assert result.accuracy is not None
