"""Mini-batches: draws without replacement, the whole graph's loss where nothing is left out, the same training on any number of ranks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from benchmarks.threads import run_threads
from hyperscale.model.adjacency import LocalPart
from hyperscale.training.engine.full import FullTrainer
from hyperscale.training.engine.trainer import EpochStats, Scores
from hyperscale.training.partition import local_part
from hyperscale.training.runtime.comm import Comm
from hyperscale.training.runtime.contract import ContractError
from hyperscale.training.sampling.sampled_trainer import SampledTrainer
from hyperscale.training.sampling.sampling_draw import draw, key_of
from tests.builders.training import a_run, assignment, labelled_graph

CPU = torch.device("cpu")
ARCHITECTURES = ("GCN", "GraphSAGE", "GAT")


def parts_of(ranks: int, seed: int = 1, degree: float = 5.0) -> list[LocalPart]:
    graph, cut = labelled_graph(seed, 60, degree=degree), assignment(seed, 60, ranks)
    cut = np.where(np.arange(60) < 30, 0, cut) if ranks > 1 else cut * 0
    cut[:ranks] = np.arange(ranks)
    return [local_part(graph, cut, rank, ranks) for rank in range(ranks)]


Outcome = tuple[list[EpochStats], Scores, dict[str, torch.Tensor], dict[str, torch.Tensor]]


def trained(kind: type[FullTrainer], ranks: int, epochs: int, model: dict[str, Any], hyper: dict[str, Any] | None = None) -> list[Outcome]:
    """Epochs, scores, weights, and the last step's gradients, by rank."""
    parts = parts_of(ranks)

    def rank(comm: Comm) -> Outcome:
        trainer = kind(a_run(model, {"learningRate": 0.005} | (hyper or {}), rank=comm.rank, size=comm.size), comm, parts[comm.rank], CPU)
        stats = [trainer.epoch(number) for number in range(1, epochs + 1)]
        gradients = {name: tensor.grad.clone() for name, tensor in trainer.model.named_parameters() if tensor.grad is not None}
        weights = {name: tensor.detach().clone() for name, tensor in trainer.model.named_parameters()}
        return stats, trainer.evaluate(), weights, gradients

    results: list[Outcome] = run_threads(ranks, rank)
    return results


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("ranks", [1, 3])
def test_all_neighbours_in_one_batch_are_the_whole_graph(architecture: str, ranks: int) -> None:
    model = {"architecture": architecture, "layers": 3, "heads": 2}
    (full, _, _, wanted), *_ = trained(FullTrainer, 1, 1, model)
    for stats, _, _, gradients in trained(SampledTrainer, ranks, 1, model | {"batchSize": 1000}):
        assert stats[0].loss == pytest.approx(full[0].loss, rel=1e-5)
        for name, gradient in wanted.items():
            torch.testing.assert_close(gradients[name], gradient, atol=1e-6, rtol=1e-4)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_any_number_of_ranks_draws_and_trains_alike(architecture: str) -> None:
    model = {"architecture": architecture, "layers": 2, "fanouts": [2, 3], "heads": 2}
    (alone, scores, weights, _), *_ = trained(SampledTrainer, 1, 3, model | {"batchSize": 6})
    for stats, other_scores, other_weights, _ in trained(SampledTrainer, 3, 3, model | {"batchSize": 2}):
        assert [stat.loss for stat in stats] == pytest.approx([stat.loss for stat in alone], rel=1e-3)
        assert other_scores.validation_loss == pytest.approx(scores.validation_loss, rel=1e-2)
        for name, tensor in weights.items():
            torch.testing.assert_close(other_weights[name], tensor, atol=2e-3, rtol=1e-2)


def test_the_cache_changes_what_is_sent_and_nothing_else() -> None:
    model = {"architecture": "GraphSAGE", "layers": 2, "fanouts": [3, 3], "batchSize": 4}
    runs = {budget: trained(SampledTrainer, 2, 2, model, {"cacheSize": budget}) for budget in (0, 200, 1 << 20)}
    first = runs[0][0]
    for outcomes in runs.values():
        for stats, _, weights, _ in outcomes:
            assert [stat.loss for stat in stats] == [stat.loss for stat in first[0]]
            assert all(torch.equal(weights[name], first[2][name]) for name in weights)
    sent = [sum(sum(stat.sent_bytes) for outcome in runs[budget] for stat in outcome[0]) for budget in (0, 200, 1 << 20)]
    assert sent[0] > sent[1] > sent[2]


def test_hits_and_misses_are_counted_and_features_are_the_owners() -> None:
    parts = parts_of(2)

    def rank(comm: Comm) -> tuple[int, int, int, int]:
        run = a_run({"batchSize": 4, "fanouts": [3, 3]}, {"cacheSize": 3 * 4 * 7, "normalizeFeatures": False}, rank=comm.rank, size=2)
        trainer = SampledTrainer(run, comm, parts[comm.rank], CPU)
        part, other = parts[comm.rank], parts[1 - comm.rank]
        rows, degrees = trainer.features.of(part.halo, part.halo_owner.astype(np.int64))
        there = np.searchsorted(other.owned, part.halo)
        np.testing.assert_array_equal(rows.numpy(), other.features[there])
        np.testing.assert_array_equal(degrees[:, 0].numpy(), part.in_degree[len(part.owned) :])
        np.testing.assert_array_equal(degrees[:, 1].numpy(), part.out_degree[len(part.owned) :])
        return trainer.features.cached, trainer.features.counts.hits, trainer.features.counts.misses, len(part.halo)

    for cached, hits, misses, halo in run_threads(2, rank):
        assert (cached, hits, misses) == (3, 3, halo - 3)


def test_batches_with_dropout_leave_all_ranks_with_the_same_model() -> None:
    results = trained(SampledTrainer, 3, 2, {"layers": 2, "fanouts": [2, 2], "batchSize": 1}, {"dropout": 0.4})
    assert all(torch.equal(weights[name], results[0][2][name]) for _, _, weights, _ in results for name in weights)
    again = trained(SampledTrainer, 3, 2, {"layers": 2, "fanouts": [2, 2], "batchSize": 1}, {"dropout": 0.4})
    assert all(torch.equal(again[0][2][name], results[0][2][name]) for name in results[0][2])


def test_a_draw_has_different_entries_of_its_row_and_depends_on_the_vertex_alone() -> None:
    indptr = np.concatenate([[0], np.cumsum(np.arange(12))])
    rows = np.asarray([11, 3, 0, 7, 9])
    sizes, places = draw(indptr, rows, rows + 100, 4, key_of(1, 2))
    assert sizes.tolist() == [4, 3, 0, 4, 4]
    taken = np.split(places, np.cumsum(sizes)[:-1])
    for row, mine in zip(rows, taken, strict=True):
        assert len(set(mine.tolist())) == len(mine)
        assert ((mine >= indptr[row]) & (mine < indptr[row + 1])).all()
        alone = draw(indptr, np.asarray([row]), np.asarray([row + 100]), 4, key_of(1, 2))[1]
        np.testing.assert_array_equal(alone, mine)
    assert draw(indptr, rows, rows, None, 0)[0].tolist() == rows.tolist()
    assert draw(indptr, rows[:0], rows[:0], 4, 0)[1].tolist() == []


def test_every_entry_is_drawn_equally_often() -> None:
    indptr = np.asarray([0, 10])
    rows, ids = np.zeros(4000, np.int64), np.arange(4000)
    _, places = draw(indptr, rows, ids, 3, key_of(7))
    counts = np.bincount(places, minlength=10)
    assert counts.sum() == 12_000
    assert np.abs(counts - 1200).max() < 150


def test_fanouts_of_another_number_of_layers_are_one_line() -> None:
    with pytest.raises(ContractError, match="fanouts has 1 numbers for 2 layers"):
        trained(SampledTrainer, 1, 1, {"layers": 2, "fanouts": [3], "batchSize": 4})
