"""Training on any cut of a graph is training on the graph: loss, gradients, scores, whatever the shares."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # escape sequences in the source of DGL 1.1
    import dgl  # noqa: F401

from benchmarks.threads import run_threads
from hyperscale.model.adjacency import Array, TrainingGraph
from hyperscale.training.engine.full import FullTrainer
from hyperscale.training.engine.trainer import Scores
from hyperscale.training.partition import local_part
from hyperscale.training.runtime.comm import Comm
from hyperscale.training.worker.merge import merge
from tests.builders.training import a_run, assignment, labelled_graph

Outcome = tuple[float, dict[str, torch.Tensor], Scores, int]
CASES = st.tuples(
    st.integers(0, 10_000), st.sampled_from(["GCN", "GraphSAGE", "GAT"]), st.integers(2, 4), st.sampled_from([2, 20]), st.integers(1, 3)
)


def one_epoch(comm: Comm, graph: TrainingGraph, cut: Array, model: dict[str, object]) -> Outcome:
    part = local_part(graph, cut, comm.rank, comm.size)
    trainer = FullTrainer(a_run(model, rank=comm.rank, size=comm.size), comm, part, torch.device("cpu"))
    scores = trainer.evaluate()  # before the step: Adam makes whole steps of gradients that are rounding errors
    stats = trainer.epoch(1)
    gradients = {name: parameter.grad for name, parameter in trainer.model.named_parameters() if parameter.grad is not None}
    return stats.loss, gradients, scores, sum(stats.sent_bytes)


@settings(max_examples=30, deadline=None)
@given(CASES)
def test_the_gradients_of_any_parts_sum_to_those_of_the_whole_graph(case: tuple[int, str, int, int, int]) -> None:
    seed, architecture, parts, hidden, layers = case
    graph = labelled_graph(seed)
    model = {"architecture": architecture, "hiddenSize": hidden, "layers": layers, "heads": 2}
    cut = assignment(seed, 40, parts)

    ((loss, gradients, scores, _),) = run_threads(1, lambda comm: one_epoch(comm, graph, np.zeros(40, np.int32), model))
    ranks = run_threads(parts, lambda comm: one_epoch(comm, graph, cut, model))

    for rank_loss, rank_gradients, rank_scores, sent in ranks:
        assert rank_loss == pytest.approx(loss, rel=1e-5)
        assert (rank_scores.train, rank_scores.validation, rank_scores.test) == (scores.train, scores.validation, scores.test)
        assert rank_scores.validation_loss == pytest.approx(scores.validation_loss, rel=1e-5)
        assert sent > 0
        assert set(rank_gradients) == set(gradients)
        for name, gradient in gradients.items():
            torch.testing.assert_close(rank_gradients[name], gradient, rtol=1e-4, atol=1e-5)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 3), st.integers(1, 3))
def test_merged_parts_are_the_parts_of_the_coarser_cut(seed: int, ranks: int, each: int) -> None:
    graph = labelled_graph(seed)
    fine = assignment(seed, 40, ranks * each)
    coarse = (fine // each).astype(np.int32)
    for rank in range(ranks):
        merged = merge([local_part(graph, fine, rank * each + at, ranks * each) for at in range(each)], rank, ranks)
        wanted = local_part(graph, coarse, rank, ranks)
        for name in ("owned", "halo", "halo_owner", "indptr", "in_degree", "out_degree", "features", "labels", "train"):
            np.testing.assert_array_equal(getattr(merged, name), getattr(wanted, name), err_msg=name)
        mine, theirs = np.concatenate([merged.owned, merged.halo]), np.concatenate([wanted.owned, wanted.halo])
        np.testing.assert_array_equal(mine[merged.indices], theirs[wanted.indices])
        assert (merged.part, merged.parts, merged.train_total) == (rank, ranks, wanted.train_total)
