"""Graphs made to measure: their size, their seed, and what partitioning makes of them."""

from __future__ import annotations

import numpy as np
import pytest

from hyperscale.model.adjacency import TrainingGraph
from hyperscale.training import partition
from hyperscale.training.data import Stated, generate, graph_digest, symmetric
from hyperscale.training.data.edges_to_csr import in_neighbours
from hyperscale.training.partition import streaming


@pytest.fixture(scope="module")
def graph() -> TrainingGraph:
    return generate.generate(generate.Recipe(generate.Kind.SBM, 300, 2400, 16, 4), 1)


def test_generated_graphs_follow_from_their_seed() -> None:
    wanted = generate.Recipe(generate.Kind.RMAT, 1000, 10000, 8, 4)
    first, again, other = (graph_digest(generate.generate(wanted, seed)) for seed in (1, 1, 2))
    assert first == again != other


def test_the_block_model_has_exactly_the_size_asked_for(graph: TrainingGraph) -> None:
    assert len(graph.indices) == 2400
    assert len(graph.indptr) == 301
    rows = np.repeat(np.arange(300), np.diff(graph.indptr))
    assert (graph.labels[rows] == graph.labels[graph.indices]).mean() > 0.7
    assert np.allclose(graph.features.sum(axis=1), 1)
    assert not (graph.train & graph.test).any()


def test_a_recipe_takes_from_the_job_what_its_path_leaves_out() -> None:
    made = generate.recipe("RMAT?vertices=50&featureSize=3", Stated(vertices=9, edges=100))
    assert made == generate.Recipe(generate.Kind.RMAT, 50, 100, 3, 8)


def test_streamed_parts_keep_their_shares_and_beat_chance() -> None:
    graph = generate.generate(generate.Recipe(generate.Kind.SBM, 4000, 40000, 2, 4), 3)
    made = partition.split(symmetric(graph), (0.4, 0.2, 0.2, 0.2), partition.FENNEL)
    assert made.measures.imbalance <= streaming.SLACK + 0.01
    chance = partition.split(symmetric(graph), (0.4, 0.2, 0.2, 0.2), "Random", seed=0)
    assert made.measures.cut < 0.8 * chance.measures.cut


def test_a_directed_graph_becomes_symmetric_and_a_symmetric_one_shares_its_arrays(graph: TrainingGraph) -> None:
    assert symmetric(graph).indices is graph.indices
    indptr, indices = in_neighbours(3, np.array([0, 0]), np.array([1, 2]), both_directions=False)
    none = np.zeros(3, bool)
    half = TrainingGraph(indptr, indices, np.zeros((3, 1)), np.zeros(3, np.int64), none, none, none, 1)
    made = symmetric(half)
    assert made.indptr.tolist() == [0, 2, 3, 4]
    assert made.indices.tolist() == [1, 2, 0, 0]
