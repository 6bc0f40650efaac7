"""What partitioners refuse, what they do at the edges, and what Auto takes."""

from __future__ import annotations

import numpy as np
import pytest

from hyperscale.model.adjacency import Adjacency, TrainingGraph
from hyperscale.model.api.job import PartitioningMethod
from hyperscale.training.data.edges_to_csr import in_neighbours
from hyperscale.training.data.generate import rmat_edges
from hyperscale.training.partition import (
    CANDIDATES,
    EpochCost,
    PartitionError,
    choose,
    epoch_seconds,
    local_part,
    measure,
    memory_bytes,
    precomputed,
    split,
)
from hyperscale.training.partition.hubs import by_degree, skewed
from hyperscale.training.partition.levels import boundary, finest
from hyperscale.training.partition.metis import metis
from hyperscale.training.partition.refine import limits_of
from hyperscale.training.partition.split import with_edges
from tests.builders.meshes import grid

METHODS = (PartitioningMethod.METIS, PartitioningMethod.INDEPENDENT_SET_SPECTRAL, PartitioningMethod.RANDOM, PartitioningMethod.DEGREE)


def ring(vertices: int) -> Adjacency:
    """A cycle."""
    ids = np.arange(vertices)
    indices = np.sort(np.stack([(ids - 1) % vertices, (ids + 1) % vertices], axis=1), axis=1)
    return Adjacency(np.arange(0, 2 * vertices + 1, 2, dtype=np.int64), indices.ravel().astype(np.int32))


@pytest.mark.parametrize(
    ("shares", "message"),
    [
        ((1.0, 0.0), r"^shares\[1\]: 0.0 is no capacity; every part needs a finite share above 0$"),
        ((float("nan"), 1.0), r"^shares\[0\]: nan is no capacity"),
        ((), r"^spec.partitioning.count: no parts; ask for at least 1$"),
        ((1.0,) * 7, r"^spec.partitioning.count: 7 parts for 6 vertices; ask for at most 6$"),
    ],
)
def test_shares_that_cannot_be_met_are_refused_by_field(shares: tuple[float, ...], message: str) -> None:
    with pytest.raises(PartitionError, match=message):
        split(ring(6), shares, PartitioningMethod.METIS)


def test_methods_without_a_partitioner_say_what_to_write() -> None:
    with pytest.raises(PartitionError, match=r"^spec.partitioning.method: Precomputed takes the parts of the data set"):
        split(ring(6), (1, 1), PartitioningMethod.PRECOMPUTED)
    with pytest.raises(PartitionError, match=r"write one of Auto, Degree, IndependentSetSpectral, METIS, MtKaHyPar, None, Random$"):
        split(ring(6), (1, 1), "Kernighan")


@pytest.mark.parametrize(
    ("adjacency", "message"),
    [
        (Adjacency(np.array([0, 1]), np.array([4])), "adjacency.indices: names a vertex outside 0..0"),
        (Adjacency(np.array([0, 3]), np.array([0])), "adjacency.indptr: not the row pointers"),
        (Adjacency(np.array([0, 0]), np.array([], dtype=np.int32), np.array([-1])), "adjacency.vertex_weights: need 1 rows"),
    ],
)
def test_arrays_that_do_not_fit_together_are_refused(adjacency: Adjacency, message: str) -> None:
    with pytest.raises(PartitionError, match=message):
        split(adjacency, (1,), PartitioningMethod.METIS)


def test_a_training_mask_of_another_length_is_refused() -> None:
    with pytest.raises(PartitionError, match="train: need 6 values"):
        split(ring(6), (1, 1), PartitioningMethod.METIS, train=np.ones(5, dtype=bool))


@pytest.mark.parametrize("method", METHODS)
def test_one_part_holds_everything(method: PartitioningMethod | str) -> None:
    parts = split(grid(5), (3.0,), method)
    assert not parts.assignment.any()
    assert parts.measures.cut == parts.measures.largest_halo == 0
    assert parts.measures.replication == parts.measures.imbalance == 1.0


@pytest.mark.parametrize("method", METHODS)
def test_as_many_parts_as_vertices_and_no_edges_at_all_both_work(method: PartitioningMethod | str) -> None:
    assert split(ring(5), (1.0,) * 5, method).measures.imbalance <= 5
    empty = Adjacency(np.zeros(21, dtype=np.int64), np.zeros(0, dtype=np.int32))
    parts = split(empty, (2.0, 1.0, 1.0), method)
    assert np.bincount(parts.assignment, minlength=3).max() <= 11
    assert parts.measures.cut_fraction == 0.0


def test_parts_follow_capacity_on_a_mesh() -> None:
    parts = split(grid(24), (2.0, 1.0), PartitioningMethod.METIS, seed=1)
    assert np.bincount(parts.assignment)[0] / 576 == pytest.approx(2 / 3, rel=0.03)
    assert parts.measures.cut <= 30
    assert parts.measures.largest_halo <= 26


def test_two_cliques_of_unequal_size_are_kept_whole() -> None:
    edges = [(i, j) for block in (range(20), range(20, 30)) for i in block for j in block if i != j] + [(0, 25), (25, 0)]
    rows = np.array(sorted(edges))
    adjacency = Adjacency(np.concatenate([[0], np.cumsum(np.bincount(rows[:, 0]))]).astype(np.int64), rows[:, 1].astype(np.int32))
    for method in (PartitioningMethod.METIS, PartitioningMethod.INDEPENDENT_SET_SPECTRAL):
        assert split(adjacency, (2.0, 1.0), method).measures.cut == 1


def test_training_vertices_are_shared_out_where_a_mask_is_given() -> None:
    mesh = grid(30)
    train = np.zeros(900, dtype=bool)
    train[:100] = True
    plain = split(mesh, (1, 1, 1, 1), PartitioningMethod.METIS, seed=1)
    assert measure(mesh, plain.assignment, (1, 1, 1, 1), train).train_imbalance > 1.5  # type: ignore[operator]
    shared = split(mesh, (1, 1, 1, 1), PartitioningMethod.METIS, seed=1, train=train)
    assert shared.measures.train_imbalance is not None
    assert shared.measures.train_imbalance <= 1.12
    assert shared.measures.imbalance <= 1.03


def test_parts_of_the_data_set_are_checked_and_measured() -> None:
    parts = precomputed(ring(6), np.array([0, 0, 0, 1, 1, 1]), (1, 1))
    assert (parts.measures.cut, parts.measures.largest_halo, parts.method) == (2, 2, PartitioningMethod.PRECOMPUTED)
    with pytest.raises(PartitionError, match=r"assignment: need 6 parts of 0..1, one for each vertex"):
        precomputed(ring(6), np.array([0, 0, 0, 1, 1, 2]), (1, 1))


def test_auto_takes_the_candidate_with_the_shortest_epoch() -> None:
    mesh, cost = grid(12), EpochCost((1e-6, 2e-6), (1e-6, 1e-6), 1e3)
    taken = choose(mesh, (2, 1), (PartitioningMethod.RANDOM, PartitioningMethod.METIS), cost)
    assert taken.method is PartitioningMethod.METIS
    tried = [split(mesh, (2, 1), method) for method in CANDIDATES]
    best = choose(mesh, (2, 1), CANDIDATES, cost)
    assert epoch_seconds(mesh, best, cost) == min(epoch_seconds(mesh, each, cost) for each in tried)
    with pytest.raises(PartitionError, match="cost: 2 speeds and 2 links for 3 parts"):
        epoch_seconds(mesh, split(mesh, (1, 1, 1), PartitioningMethod.RANDOM), cost)
    with pytest.raises(PartitionError, match="candidates: none"):
        choose(mesh, (2, 1), (), cost)


def edge_share(graph: Adjacency, assignment: np.ndarray[tuple[int], np.dtype[np.int32]]) -> float:
    """Edges of the part that has most, over the mean."""
    load = np.bincount(assignment, weights=np.diff(graph.indptr))
    return float(load.max() / load.mean())


def test_edges_are_shared_out_where_they_weigh() -> None:
    graph = hubs(2000, 3)
    plain = split(graph, (1, 1, 1, 1), PartitioningMethod.METIS, seed=1)
    shared = split(graph, (1, 1, 1, 1), PartitioningMethod.METIS, seed=1, edge_worth=5.0)
    assert edge_share(graph, plain.assignment) > 1.5
    assert edge_share(graph, shared.assignment) < 1.1
    assert measure(with_edges(graph, 5.0), shared.assignment, (1, 1, 1, 1)).imbalance <= 1.03, "of the work"


def test_auto_weighs_edges_where_the_predicted_epoch_is_shorter_for_it() -> None:
    graph, shares, none = hubs(2000, 3), (1.0, 1.0), (0.0, 0.0)
    heavy = EpochCost((1e-6, 1e-6), none, 0.0, edge_seconds=(5e-6, 5e-6))
    taken = choose(graph, shares, CANDIDATES, heavy)
    assert epoch_seconds(graph, taken, heavy) < 0.9 * min(epoch_seconds(graph, split(graph, shares, each), heavy) for each in CANDIDATES)
    assert taken.method is PartitioningMethod.METIS
    far = EpochCost((1e-9, 1e-9), (1e-3, 1e-3), 1e3, edge_seconds=(1e-12, 1e-12))
    kept = choose(graph, shares, (PartitioningMethod.METIS,), far)
    weighed = split(graph, shares, PartitioningMethod.METIS, edge_worth=far.edge_worth)
    assert epoch_seconds(graph, kept, far) <= epoch_seconds(graph, weighed, far)
    with pytest.raises(PartitionError, match="cost: 1 speeds for edges of 2 parts; name one for every part, or none"):
        epoch_seconds(graph, taken, EpochCost((1e-6, 1e-6), none, 0.0, edge_seconds=(1e-6,)))


def test_many_graphs_stay_whole_and_bring_their_labels() -> None:
    offsets = np.array([0, 2, 2, 5])
    indptr = np.array([0, 1, 2, 3, 5, 6])
    indices = np.array([1, 0, 3, 2, 4, 3])
    yes = np.array([True, False, True])
    graphs = TrainingGraph(
        indptr, indices, np.eye(5, dtype=np.float32), np.array([4, 5, 6]), yes, ~yes, ~yes, 1, offsets, np.arange(6).reshape(6, 1)
    )
    local = local_part(graphs, np.array([0, 0, 1, 1, 1]), 1, 2)
    assert local.labels.tolist() == [6]
    assert local.extra["graph_offsets"].tolist() == [0, 3]
    assert local.extra["edge_features"].ravel().tolist() == [2, 3, 4, 5]
    assert len(local.halo) == 0
    with pytest.raises(PartitionError, match="a graph of the data set lies in two parts"):
        local_part(graphs, np.array([0, 1, 1, 1, 1]), 1, 2)


def test_memory_grows_with_the_graph_and_shrinks_with_parts() -> None:
    assert memory_bytes(10, 10, 10, 2) < memory_bytes(10**6, 10**7, 10, 2) < memory_bytes(10**6, 10**7, 500, 2)
    assert memory_bytes(10**7, 10**8, 16, 8) < 32 << 30


def hubs(vertices: int, seed: int) -> Adjacency:
    """A graph whose first vertices have most of the edges, and a third of whose vertices have none."""
    rng = np.random.default_rng(seed)
    pairs = (rng.random((2, 8 * vertices)) ** 4 * vertices).astype(np.int64)
    joined = np.unique(np.concatenate([pairs, pairs[::-1]], axis=1), axis=1)
    row, column = joined[:, joined[0] != joined[1]]
    degree = np.bincount(row, minlength=vertices + vertices // 2)
    return Adjacency(np.concatenate([[0], np.cumsum(degree)]).astype(np.int64), column.astype(np.int32))


@pytest.mark.parametrize("shares", [(1.0, 1.0), (2.0, 1.0, 1.0, 2.0)])
def test_hubs_stay_together_where_that_cuts_less_and_isolated_vertices_fill_the_rest(shares: tuple[float, ...]) -> None:
    adjacency = hubs(2000, 0)
    target = np.array(shares) / sum(shares)
    bisected = measure(adjacency, metis(adjacency, target, seed=0), shares)
    parts = split(adjacency, shares, PartitioningMethod.METIS, seed=0).measures
    assert skewed(finest(adjacency))
    assert not skewed(finest(grid(10)))
    assert parts.cut < 0.95 * bisected.cut
    assert parts.imbalance <= 1.03


def test_hubs_dealt_to_several_parts_leave_each_of_them_a_smaller_halo_at_a_larger_cut() -> None:
    level, target = finest(hubs(2000, 0)), np.array([2.0] * 4 + [1.0] * 4) / 12.0
    limits = limits_of(level.weights, target, False)
    together, dealt = (by_degree(level, limits, several) for several in (1, 3))
    ends = np.bincount(dealt, weights=np.diff(level.indptr), minlength=8)
    assert ends[:3].max() < 1.3 * ends[:3].min()
    assert ends[:3].min() > ends[3:].max()
    assert boundary(level, dealt, 8)[1].max() < boundary(level, together, 8)[1].max()
    assert boundary(level, dealt, 8)[0] > boundary(level, together, 8)[0]


def test_hubs_dealt_part_of_the_way_lie_between_two_whole_deals() -> None:
    level, target = finest(hubs(6000, 0)), np.array([2.0] * 8 + [1.0] * 8) / 24.0
    limits = limits_of(level.weights, target, False)
    deals = [by_degree(level, limits, 2), by_degree(level, limits, 3, 0.1), by_degree(level, limits, 3)]
    cuts, halos = zip(*((cut, copies.max()) for cut, copies in (boundary(level, part, 16) for part in deals)), strict=True)
    assert cuts[0] < cuts[1] < cuts[2]
    assert halos[0] > halos[1] > halos[2]
    for part in deals:
        weighed = np.diff(level.indptr) > 0
        assert (np.bincount(part[weighed], minlength=16) <= limits[:, 0] + 3).all()


def test_on_an_rmat_graph_dealt_hubs_lower_the_largest_halo_within_metis_cut_and_limits() -> None:
    sources, destinations = rmat_edges(1 << 13, 1 << 17, 0)
    adjacency = Adjacency(*in_neighbours(1 << 13, sources, destinations, both_directions=True))
    bisected = measure(adjacency, metis(adjacency, np.full(32, 1.0 / 32.0), seed=0), (1.0,) * 32)
    parts = split(adjacency, (1.0,) * 32, PartitioningMethod.METIS, seed=0).measures
    assert parts.cut <= bisected.cut
    assert parts.largest_halo < 0.9 * bisected.largest_halo
    assert parts.imbalance <= 1.03


def kronecker(edges: int, seed: int = 1) -> Adjacency:
    """R-MAT."""
    vertices = edges // 16
    sources, destinations = rmat_edges(vertices, edges // 2, seed)
    return Adjacency(*in_neighbours(vertices, sources, destinations, both_directions=True))


def test_auto_weighs_edges_on_a_graph_with_hubs_and_both_balances_are_told() -> None:
    graph = kronecker(400_000)
    plain = split(graph, (1.0,) * 8, PartitioningMethod.METIS)
    auto = split(graph, (1.0,) * 8, PartitioningMethod.AUTO)
    assert plain.measures.edge_imbalance > 3.0
    assert auto.measures.edge_imbalance < 1.5
    assert auto.measures.imbalance < plain.measures.edge_imbalance, "vertices take less harm than edges did"
    ends = np.bincount(auto.assignment, weights=np.diff(graph.indptr), minlength=8)
    assert auto.measures.edge_imbalance == pytest.approx(8 * ends.max() / ends.sum())
    assert auto.measures.imbalance == pytest.approx(8 * np.bincount(auto.assignment, minlength=8).max() / graph.vertices)


def test_auto_leaves_a_graph_without_hubs_as_metis_cuts_it() -> None:
    graph = grid(40)
    plain, auto = (split(graph, (2.0, 1.0, 1.0), method) for method in (PartitioningMethod.METIS, PartitioningMethod.AUTO))
    assert np.array_equal(plain.assignment, auto.assignment)
