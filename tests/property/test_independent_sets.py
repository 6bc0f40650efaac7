"""Independent sets are independent and maximal, never smaller than the greedy ones, and optimal where that can be proven."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.independentsets import independent_set
from hyperscale.model.adjacency import Adjacency, Array
from hyperscale.training.partition import compiled_search
from tests.property.test_partition_invariants import graph

GRAPHS = st.builds(graph, st.integers(0, 10_000), st.integers(1, 70), st.sampled_from([0.0, 0.03, 0.1, 0.4, 1.0]), st.just(False))


def optimum(adjacency: Adjacency) -> int:
    """The size of a largest independent set, proven by CP-SAT."""
    model_of = pytest.importorskip("ortools.sat.python.cp_model")
    model = model_of.CpModel()
    taken = [model.NewBoolVar("") for _ in range(adjacency.vertices)]
    for vertex in range(adjacency.vertices):
        for other in adjacency.indices[adjacency.indptr[vertex] : adjacency.indptr[vertex + 1]]:
            if other > vertex:
                model.AddBoolOr([~taken[vertex], ~taken[other]])
    model.Maximize(sum(taken))
    solver = model_of.CpSolver()
    solver.parameters.num_workers = 1
    assert solver.Solve(model) == model_of.OPTIMAL
    return int(solver.ObjectiveValue())


def plain_greedy(indptr: Array, indices: Array) -> Array:
    """(n,) bool, the greedy set in plain Python; of equal degrees the vertex that was last to reach its own."""
    n = len(indptr) - 1
    degree = np.diff(indptr).tolist()
    buckets: list[dict[int, None]] = [{} for _ in range(max(degree, default=0) + 1)]
    for vertex in range(n - 1, -1, -1):
        buckets[degree[vertex]][vertex] = None
    chosen = np.zeros(n, dtype=bool)
    undecided = np.ones(n, dtype=bool)
    lowest = 0
    while lowest < len(buckets):
        if not buckets[lowest]:
            lowest += 1
            continue
        vertex = buckets[lowest].popitem()[0]
        chosen[vertex], undecided[vertex] = True, False
        for other in indices[indptr[vertex] : indptr[vertex + 1]].tolist():
            if not undecided[other]:
                continue
            undecided[other] = False
            del buckets[degree[other]][other]
            for third in indices[indptr[other] : indptr[other + 1]].tolist():
                if undecided[third]:
                    del buckets[degree[third]][third]
                    degree[third] -= 1
                    buckets[degree[third]][third] = None
                    lowest = min(lowest, degree[third])
    return chosen


def neighbours_in(adjacency: Adjacency, chosen: Array) -> Array:
    """How many chosen neighbours each vertex has."""
    row = np.repeat(np.arange(adjacency.vertices), np.diff(adjacency.indptr))
    return np.bincount(row, weights=chosen[adjacency.indices], minlength=adjacency.vertices)


@settings(max_examples=50, deadline=None)
@given(GRAPHS, st.integers(0, 5), st.sampled_from([0, 300]))
def test_a_set_is_independent_maximal_and_the_same_for_its_seed(adjacency: Adjacency, seed: int, kicks: int) -> None:
    chosen = independent_set(adjacency, seed=seed, kicks=kicks)
    beside = neighbours_in(adjacency, chosen)
    assert not (beside[chosen] > 0).any()
    assert (beside[~chosen] > 0).all()
    assert (chosen == independent_set(adjacency, seed=seed, kicks=kicks)).all()
    assert chosen.sum() >= plain_greedy(adjacency.indptr, adjacency.indices).sum()


@settings(max_examples=50, deadline=None)
@given(GRAPHS)
def test_both_greedy_ones_choose_the_same(adjacency: Adjacency) -> None:
    chosen = np.zeros(adjacency.vertices, dtype=np.uint8)
    size = compiled_search.seeds.greedy(adjacency.indptr, adjacency.indices, chosen)
    assert size == chosen.sum()
    assert (chosen.astype(bool) == plain_greedy(adjacency.indptr, adjacency.indices)).all()


@settings(max_examples=25, deadline=None)
@given(GRAPHS)
def test_small_graphs_are_solved(adjacency: Adjacency) -> None:
    assert independent_set(adjacency).sum() == optimum(adjacency)


def test_two_hundred_vertices_of_few_edges_are_solved() -> None:
    adjacency = graph(4, 200, 0.012, weighted=False)
    assert independent_set(adjacency).sum() == optimum(adjacency)
