"""What refinement promises beside METIS, on graphs large enough for every kind of search it has."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from hyperscale.model.adjacency import Adjacency
from hyperscale.model.api.job import PartitioningMethod
from hyperscale.training import data
from hyperscale.training.partition import measure, split
from hyperscale.training.partition.levels import coarsen, finest
from hyperscale.training.partition.metis import metis
from hyperscale.training.partition.refine import PRICE, Reference, RefineEffort, VisitedParts, balanced, climb, limits_of, refine


def symmetric(vertices: int, first: np.ndarray, second: np.ndarray) -> Adjacency:
    """Both directions of pairs that are named once or more."""
    pairs = np.unique(np.concatenate([first * vertices + second, second * vertices + first]))
    pairs = pairs[pairs // vertices != pairs % vertices]
    indptr = np.concatenate([[0], np.cumsum(np.bincount(pairs // vertices, minlength=vertices))])
    return Adjacency(indptr, (pairs % vertices).astype(np.int32))


def mesh(side: int) -> Adjacency:
    """A square mesh with one diagonal in each cell."""
    ids = np.arange(side * side).reshape(side, side)
    first = np.concatenate([ids[:, :-1].ravel(), ids[:-1].ravel(), ids[:-1, :-1].ravel()])
    second = np.concatenate([ids[:, 1:].ravel(), ids[1:].ravel(), ids[1:, 1:].ravel()])
    return symmetric(side * side, first, second)


def citeseer() -> Adjacency:
    """As published."""
    return data.symmetric(data.read("builtin", "CiteSeer", "NPZ", cache=None))


@pytest.mark.parametrize(("make", "parts"), [(lambda: mesh(40), 3), (lambda: mesh(75), 2), (lambda: mesh(75), 6), (lambda: mesh(75), 12)])
@pytest.mark.parametrize("even", [True, False])
def test_a_mesh_is_cut_no_more_than_by_metis_within_the_limits_and_the_same_each_time(
    make: Callable[[], Adjacency], parts: int, even: bool
) -> None:
    graph = make()
    shares = (1.0,) * parts if even else (2.0,) * (parts // 2) + (1.0,) * (parts - parts // 2)
    plain = measure(graph, metis(graph, np.array(shares) / sum(shares), seed=3), shares)
    found = split(graph, shares, PartitioningMethod.METIS, seed=3)
    assert found.measures.cut <= plain.cut
    assert found.measures.imbalance <= 1.03
    assert found.measures.largest_halo <= plain.largest_halo
    assert (split(graph, shares, PartitioningMethod.METIS, seed=3).assignment == found.assignment).all()


def test_where_metis_leaves_a_part_above_its_limit_the_repair_does_not_cut_more_than_metis() -> None:
    graph, shares = citeseer(), (1.0,) * 8
    plain = measure(graph, metis(graph, np.full(8, 1 / 8), seed=0), shares)
    found = split(graph, shares, PartitioningMethod.METIS, seed=0).measures
    level = finest(graph)
    start = VisitedParts.of(level, metis(graph, np.full(8, 1 / 8), seed=0), 8)
    if balanced(level, start, limits_of(level.weights, np.full(8, 1 / 8), False), 0) is start:
        pytest.skip("this METIS keeps the limits")
    assert found.cut <= plain.cut
    assert found.imbalance <= 1.03


def test_annealing_on_coarse_levels_keeps_the_limits_and_counts_what_it_leaves() -> None:
    graph = mesh(75)
    level = finest(graph)
    target = np.full(12, 1 / 12)
    limits = limits_of(level.weights, target, False)
    start = VisitedParts.of(level, metis(graph, target, seed=1), 12)
    hierarchy, coarse = coarsen(level, start.part.copy(), stop=240, most=np.maximum(limits.min(axis=0) // 10, 1), seed=1)
    effort = RefineEffort(work=300_000, coarse_heats=(0.0, 3.0, 6.0))
    part = climb(hierarchy, coarse, limits, np.full(12, PRICE), seed=1, effort=effort, budget=start.cut)
    assert (np.bincount(part, minlength=12) <= limits[:, 0]).all()
    found = refine(level, start, limits, Reference.of(start), seed=1, effort=effort)
    again = VisitedParts.of(level, found.part, 12)
    assert (found.cut, found.copies.tolist()) == (again.cut, again.copies.tolist())
    assert found.cut <= start.cut
