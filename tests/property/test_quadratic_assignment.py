"""Quadratic assignment: the compiled search equals its twin, keeps kinds apart and is never worse than what it starts from."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hyperscale.model.adjacency import Array
from hyperscale.model.api.node_links import NodeLinks
from hyperscale.training.rankmap import quadratic_numpy
from hyperscale.training.rankmap.exchange_cost import exchange_cost
from hyperscale.training.rankmap.part_ranks import place_parts
from hyperscale.training.rankmap.quadratic import assign_places, assignment_cost
from hyperscale.training.rankmap.rank_links import RankLinks, rank_links

Problem = tuple[Array, Array, Array]


def problem_of(seed: int, count: int, kinds: int) -> Problem:
    """Flows, costs with ties or of links, and kinds."""
    rng = np.random.default_rng(seed)
    flow = np.round(rng.lognormal(2.0, 1.0, (count, count)) * (rng.random((count, count)) < 0.6), 2)
    cost = rng.integers(0, 4, (count, count)).astype(np.float64)
    if seed % 2:  # seconds per byte of links
        cost = rng.lognormal(-20.0, 2.0, (count, count))
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


def linked(seed: int, sizes: list[int], even: bool) -> RankLinks:
    """Nodes of these ranks with links that differ, or are all of two kinds."""
    rng = np.random.default_rng(seed)
    nodes = len(sizes)
    figures = [
        (1e-8, 1e-4) if even else tuple((rng.lognormal(0.0, 2.0, 2) * (1e-9, 1e-5)).tolist()) for _ in range(nodes * (nodes + 1) // 2)
    ]
    names = [str(node) for node, size in enumerate(sizes) for _ in range(size)]
    return rank_links(names, NodeLinks(*zip(*figures, strict=True)))


clusters_of_ranks = st.builds(linked, st.integers(0, 10**6), st.lists(st.integers(1, 3), min_size=2, max_size=4), st.booleans())


@settings(max_examples=8, deadline=None)
@given(clusters_of_ranks, st.integers(0, 10**6))
def test_placed_parts_lower_the_sum_and_never_raise_the_bottleneck(links: RankLinks, seed: int) -> None:
    count = len(links.node)
    table = np.random.default_rng(seed).integers(0, 30, (count, count))
    np.fill_diagonal(table, 0)
    placed = place_parts(table, links, [1.0 / count] * count, row_bytes=64.0)
    if placed is None:
        return
    assert sorted(placed.rank.tolist()) == list(range(count))
    assert placed.after.seconds <= placed.before.seconds * (1.0 + 1e-6)
    assert placed.after.bottleneck_seconds <= placed.before.bottleneck_seconds
    assert placed.after[1:] < placed.before[1:] or placed.after.bottleneck_seconds < placed.before.bottleneck_seconds
    assert placed.before == exchange_cost(table.astype(np.float64), links, np.arange(count), 64.0)


@settings(max_examples=25, deadline=None)
@given(clusters_of_ranks, st.integers(0, 10**6))
def test_the_cost_of_an_exchange_is_that_of_adding_up_every_message(links: RankLinks, seed: int) -> None:
    rng = np.random.default_rng(seed)
    count = len(links.node)
    table = rng.integers(0, 5, (count, count)).astype(np.float64)
    np.fill_diagonal(table, 0.0)
    rank = rng.permutation(count)
    total, rows = 0.0, 0
    busy: dict[tuple[str, str, int], float] = {}
    waits: dict[tuple[str, str, int], float] = {}
    for one, other in itertools.permutations(range(count), 2):
        a, b = (int(links.node[rank[part]]) for part in (one, other))
        seconds = 8.0 * table[one, other] * links.seconds_per_byte[a, b]
        total += seconds
        rows += int(table[one, other]) if a != b else 0
        ends = (("sends", "card", a), ("gets", "card", b)) if a != b else (("sends", "rank", one), ("gets", "rank", other))
        for end in ends:
            busy[end] = busy.get(end, 0.0) + seconds
            waits[end] = max(waits.get(end, 0.0), float(links.latency_seconds[a, b]) if table[one, other] else 0.0)
    cost = exchange_cost(table, links, rank, 8.0)
    assert cost.rows == rows
    assert cost.seconds == pytest.approx(total)
    assert cost.bottleneck_seconds == pytest.approx(max(busy[end] + waits[end] for end in busy))


def test_of_equal_sums_the_one_with_the_lower_second_figure_is_taken_unless_it_is_above_the_first() -> None:
    flow, cost = np.zeros((4, 4)), np.ones((4, 4)) - np.eye(4)

    def worst(place: Array) -> float:
        return float(place[0])

    assert assign_places(flow, cost, operations=20_000, worst=worst).tolist() == [0, 1, 2, 3]
    assert assign_places(flow, cost, operations=20_000, worst=lambda place: -worst(place))[0] == 3
    flow[0, 1] = flow[1, 0] = 1.0
    near = cost.copy()
    near[0, 3] = near[3, 0] = 0.1
    assert assign_places(flow, near, operations=20_000)[:2].tolist() in ([0, 3], [3, 0])
    assert assign_places(flow, near, operations=20_000, worst=worst)[:2].tolist() == [0, 3]


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
