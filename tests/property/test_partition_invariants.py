"""Parts are whole, within their limits, measured right, and the same for the same seed; refinement never loses."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hyperscale.model.adjacency import Adjacency, Array, TrainingGraph
from hyperscale.model.api.job import PartitioningMethod
from hyperscale.training.partition import local_part, measure, split
from hyperscale.training.partition.measures import plain_boundary
from hyperscale.training.partition.metis import metis

METHODS = (
    PartitioningMethod.METIS,
    PartitioningMethod.INDEPENDENT_SET_SPECTRAL,
    PartitioningMethod.MT_KAHYPAR,
    PartitioningMethod.RANDOM,
    PartitioningMethod.NONE,
    PartitioningMethod.DEGREE,
)


def graph(seed: int, vertices: int, density: float, weighted: bool) -> Adjacency:
    """A drawn graph, often with isolated vertices and several components."""
    rng = np.random.default_rng(seed)
    upper = np.triu(rng.random((vertices, vertices)) < density, 1)
    upper[:, rng.random(vertices) < 0.1] = False
    both = upper | upper.T
    column = np.nonzero(both)[1]
    indptr = np.concatenate([[0], np.cumsum(both.sum(axis=1))]).astype(np.int64)
    vertex_weights = rng.integers(1, 5, vertices).astype(np.int64) if weighted else None
    return Adjacency(indptr, column.astype(np.int32), vertex_weights)


GRAPHS = st.builds(graph, st.integers(0, 10_000), st.integers(8, 60), st.sampled_from([0.0, 0.05, 0.15, 0.5]), st.booleans())
SHARES = st.lists(st.sampled_from([1.0, 1.5, 2.0]), min_size=1, max_size=6).map(tuple)


def naive(adjacency: Adjacency, assignment: Array, parts: int) -> tuple[int, list[int]]:
    """Cut and copies, one edge after the other."""
    cut, copied = 0, [set[int]() for _ in range(parts)]
    for vertex in range(adjacency.vertices):
        for other in adjacency.indices[adjacency.indptr[vertex] : adjacency.indptr[vertex + 1]].tolist():
            if assignment[vertex] != assignment[other]:
                cut += 1
                copied[assignment[vertex]].add(other)
    return cut // 2, [len(each) for each in copied]


@settings(max_examples=40, deadline=None)
@given(GRAPHS, SHARES, st.sampled_from(METHODS), st.integers(0, 3))
def test_every_vertex_is_in_one_part(adjacency: Adjacency, shares: tuple[float, ...], method: PartitioningMethod | str, seed: int) -> None:
    parts = split(adjacency, shares, method, seed=seed)
    assert parts.assignment.shape == (adjacency.vertices,)
    assert parts.assignment.dtype == np.int32
    assert parts.assignment.min() >= 0
    assert parts.assignment.max() < len(shares) == parts.parts


@settings(max_examples=40, deadline=None)
@given(GRAPHS, SHARES, st.sampled_from(METHODS), st.integers(0, 3))
def test_cut_and_halos_are_what_counting_gives(
    adjacency: Adjacency, shares: tuple[float, ...], method: PartitioningMethod | str, seed: int
) -> None:
    parts = split(adjacency, shares, method, seed=seed)
    cut, copied = naive(adjacency, parts.assignment, len(shares))
    assert parts.measures.cut == cut
    assert parts.measures.halo.tolist() == copied
    plain = plain_boundary(adjacency, parts.assignment, len(shares))
    assert (plain[0], plain[1].tolist()) == (cut, copied)
    assert parts.measures.largest_halo == max(copied)
    assert parts.measures.replication == pytest.approx((adjacency.vertices + sum(copied)) / adjacency.vertices)


@settings(max_examples=40, deadline=None)
@given(GRAPHS, SHARES, st.sampled_from(METHODS), st.integers(0, 3))
def test_imbalance_is_the_largest_load_for_its_share(
    adjacency: Adjacency, shares: tuple[float, ...], method: PartitioningMethod | str, seed: int
) -> None:
    parts = split(adjacency, shares, method, seed=seed)
    weights = np.ones(adjacency.vertices) if adjacency.vertex_weights is None else adjacency.vertex_weights
    load = [weights[parts.assignment == part].sum() / weights.sum() / (share / sum(shares)) for part, share in enumerate(shares)]
    assert parts.measures.imbalance == pytest.approx(max(load))


@settings(max_examples=30, deadline=None)
@given(GRAPHS, SHARES, st.sampled_from(METHODS))
def test_the_same_arguments_give_the_same_parts(adjacency: Adjacency, shares: tuple[float, ...], method: PartitioningMethod | str) -> None:
    first, second = (split(adjacency, shares, method, seed=3) for _ in range(2))
    assert (first.assignment == second.assignment).all()


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from([0.03, 0.1, 0.4]), SHARES)
def test_equal_vertices_keep_to_three_percent_or_one_vertex(seed: int, density: float, shares: tuple[float, ...]) -> None:
    adjacency = graph(seed, 90, density, weighted=False)
    parts = split(adjacency, shares, PartitioningMethod.METIS, seed=1)
    share = np.array(shares) / sum(shares) * adjacency.vertices
    load = np.bincount(parts.assignment, minlength=len(shares))
    assert (load <= np.maximum(1.03 * share, np.ceil(share - 1e-9))).all()


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000), st.booleans(), SHARES)
def test_refinement_never_cuts_more_than_metis_where_metis_keeps_the_limits(seed: int, weighted: bool, shares: tuple[float, ...]) -> None:
    adjacency = graph(seed, 80, 0.1, weighted)
    target = np.array(shares) / sum(shares)
    start = measure(adjacency, metis(adjacency, target, seed=1), shares)
    parts = split(adjacency, shares, PartitioningMethod.METIS, seed=1)
    if start.imbalance <= 1.03:
        assert parts.measures.cut <= start.cut
        if start.largest_halo <= 1.3 * start.halo.mean():
            assert parts.measures.largest_halo <= start.largest_halo


@settings(max_examples=30, deadline=None)
@given(GRAPHS, SHARES, st.integers(0, 10_000))
def test_a_local_part_is_the_rows_of_its_vertices_and_nothing_else(adjacency: Adjacency, shares: tuple[float, ...], seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = adjacency.vertices
    features = rng.random((n, 3)).astype(np.float32)
    train = rng.random(n) < 0.4
    whole = TrainingGraph(adjacency.indptr, adjacency.indices, features, rng.integers(0, 3, n), train, ~train, ~train, 3)
    assignment = split(adjacency, shares, PartitioningMethod.RANDOM, seed=seed).assignment
    degree = np.diff(adjacency.indptr)
    for part in range(len(shares)):
        local = local_part(whole, assignment, part, len(shares))
        held = np.concatenate([local.owned, local.halo])
        assert local.owned.tolist() == np.flatnonzero(assignment == part).tolist()
        assert sorted(zip(local.halo_owner.tolist(), local.halo.tolist(), strict=True)) == list(
            zip(local.halo_owner.tolist(), local.halo.tolist(), strict=True)
        )
        assert (assignment[local.halo] == local.halo_owner).all()
        assert (local.in_degree == degree[held]).all()
        assert (local.out_degree == degree[held]).all()
        assert local.train_total == train.sum()
        for row, vertex in enumerate(local.owned):
            mine = held[local.indices[local.indptr[row] : local.indptr[row + 1]]]
            assert mine.tolist() == adjacency.indices[adjacency.indptr[vertex] : adjacency.indptr[vertex + 1]].tolist()
