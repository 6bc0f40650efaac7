"""Quadratic assignment: the compiled search equals its twin, keeps kinds apart and is never worse than what it starts from."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hyperscale.model.adjacency import Array
from hyperscale.training.rankmap import quadratic_numpy
from hyperscale.training.rankmap.quadratic import assign_places, assignment_cost

Problem = tuple[Array, Array, Array]


def problem_of(seed: int, count: int, kinds: int) -> Problem:
    """Flows, costs with ties, and kinds."""
    rng = np.random.default_rng(seed)
    flow = np.round(rng.lognormal(2.0, 1.0, (count, count)) * (rng.random((count, count)) < 0.6), 2)
    cost = rng.integers(0, 4, (count, count)).astype(np.float64)
    return flow, cost, rng.integers(0, kinds, count).astype(np.int64)


problems = st.builds(problem_of, st.integers(0, 10**6), st.integers(1, 9), st.integers(1, 3))


@settings(max_examples=30, deadline=None)
@given(problems, st.integers(0, 99))
def test_the_compiled_search_has_the_bits_of_its_twin(problem: Problem, seed: int) -> None:
    compiled = pytest.importorskip("hyperscale.training.rankmap._quadratic")
    flow, cost, kind = problem
    start = np.arange(len(flow), dtype=np.int64)
    twin = quadratic_numpy.tabu_search(flow, cost, kind, start, 40, seed)
    assert (compiled.tabu_search(flow, cost, kind, start, 40, seed) == twin).all()


@settings(max_examples=30, deadline=None)
@given(problems, st.integers(0, 99))
def test_places_are_a_permutation_within_kinds_that_costs_no_more_than_none(problem: Problem, seed: int) -> None:
    flow, cost, kind = problem
    place = assign_places(flow, cost, kind, seed=seed, operations=20_000)
    assert sorted(place.tolist()) == list(range(len(flow)))
    assert (kind[place] == kind).all()
    assert assignment_cost(flow, cost, place) <= assignment_cost(flow, cost, np.arange(len(flow)))


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10**6), st.integers(2, 6))
def test_small_problems_are_solved_as_by_trying_all(seed: int, count: int) -> None:
    flow, cost, _ = problem_of(seed, count, 1)
    best = min(assignment_cost(flow, cost, np.array(order)) for order in itertools.permutations(range(count)))
    assert assignment_cost(flow, cost, assign_places(flow, cost, operations=200_000)) == pytest.approx(best)


def test_the_same_seed_gives_the_same_places_and_bad_figures_are_refused() -> None:
    flow, cost, _ = problem_of(3, 9, 1)
    assert (assign_places(flow, cost, seed=5, operations=50_000) == assign_places(flow, cost, seed=5, operations=50_000)).all()
    with pytest.raises(ValueError, match="finite"):
        assign_places(np.full_like(flow, np.inf), cost)
    with pytest.raises(ValueError, match="as many rows"):
        assign_places(flow, cost[:3])
