"""Several tasks at once: deltas, bounds and the compiled kernel against plain recomputation."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from hyperscale.model.graph import IntArray
from hyperscale.planner.assign import assign_numpy, pipe_numpy
from hyperscale.planner.assign.assign import PipeSearch
from hyperscale.planner.assign.assign_bounds import linear_bound, row_bound, seat_bound, solve_exactly
from hyperscale.planner.assign.assign_problem import Tasks, counts, link_cost, short_of_memory, sized, sizes_for
from hyperscale.planner.assign.change import add_machine, remove_machine
from hyperscale.planner.assign.order import bottleneck, shortest_path
from hyperscale.planner.assign.pipeline import Pipeline, place
from hyperscale.planner.assign.pipeline_bound import pipe_bound
from hyperscale.planner.assign.search import assign, searcher, shuffled

compiled = pytest.importorskip("hyperscale.planner.assign._assign")


def tasks_of(seed: int, machines: int, flexible: bool) -> Tasks:
    """A small random problem with missing links, memory and needs."""
    rng = np.random.default_rng(seed)
    cost = np.round(rng.lognormal(3, 1, (machines, machines)), 1)
    cost[rng.random(cost.shape) < 0.3] = 1000.0
    cost = np.triu(cost, 1) + np.triu(cost, 1).T
    low = (machines // 3, machines // 4, 1)
    high = tuple(size + int(flexible) for size in low)
    memory = rng.integers(1, 9, machines).astype(np.float64) * 16.0
    return Tasks(cost, low, high, memory, (float(memory.mean()) * low[0], 0.0, 64.0))


def pipe_search(pipeline: Pipeline, group: IntArray) -> PipeSearch:
    values, rank = pipeline.levels()
    return PipeSearch(pipeline.gradient, rank, values, pipeline.kinds(), group, pipeline.groups)


def whole(tasks: Tasks, group: np.ndarray, penalty: float) -> float:
    return link_cost(tasks, group) + penalty * short_of_memory(tasks, group)


problems = st.builds(tasks_of, st.integers(0, 10**6), st.integers(6, 14), st.booleans())


@settings(max_examples=40, deadline=None)
@given(problems, st.integers(0, 99))
def test_every_delta_is_what_full_recomputation_gives(tasks: Tasks, seed: int) -> None:
    group = shuffled(tasks, np.random.default_rng(seed))
    before = whole(tasks, group, tasks.short_cost)
    compiled_search = searcher(tasks, group, tasks.short_cost)
    for search in (compiled_search, twin(tasks, group)):
        for i, j in itertools.permutations(range(len(group)), 2):
            if group[i] != group[j]:
                after = group.copy()
                after[[i, j]] = group[[j, i]]
                assert search.swap_delta(i, j) == pytest.approx(whole(tasks, after, tasks.short_cost) - before, abs=1e-6)
                after = group.copy()
                after[i] = group[j]
                assert search.move_delta(i, int(group[j])) == pytest.approx(whole(tasks, after, tasks.short_cost) - before, abs=1e-6)
        for i, j, k in itertools.islice(itertools.permutations(range(len(group)), 3), 0, None, 7):
            if len({int(group[x]) for x in (i, j, k)}) == 3:
                after = group.copy()
                after[[i, j, k]] = group[[j, k, i]]
                assert search.cycle_delta(i, j, k) == pytest.approx(whole(tasks, after, tasks.short_cost) - before, abs=1e-6)


def twin(tasks: Tasks, group: np.ndarray) -> assign_numpy.SumSearch:
    return assign_numpy.SumSearch(
        tasks.cost,
        tasks.memory,
        np.array([*tasks.need, 0.0]),
        tasks.short_cost,
        np.array([1.0] * tasks.idle + [0.0]),
        np.array([*tasks.low, 0]),
        np.array([*tasks.high, len(group)]),
        group,
    )


@settings(max_examples=15, deadline=None)
@given(problems, st.integers(0, 99))
def test_the_compiled_search_and_its_twin_take_the_same_steps(tasks: Tasks, seed: int) -> None:
    group = shuffled(tasks, np.random.default_rng(seed))
    ours, oracle = searcher(tasks, group, tasks.short_cost), twin(tasks, group)
    assert ours.anneal(300, 200.0, 1.0, seed) == oracle.anneal(300, 200.0, 1.0, seed)
    assert ours.group.tolist() == oracle.group.tolist()
    assert ours.descend(True) == oracle.descend(True)
    assert ours.group.tolist() == oracle.group.tolist()


@settings(max_examples=16, deadline=None)
@given(problems, st.integers(0, 99))
def test_an_answer_keeps_the_sizes_and_is_never_below_the_bounds(tasks: Tasks, seed: int) -> None:
    found = assign(tasks, seed, rounds=4)
    members = counts(tasks, found.group)
    assert all(low <= have <= high for low, have, high in zip(tasks.low, members, tasks.high, strict=True))
    assert found.cost == pytest.approx(link_cost(tasks, found.group))
    rows, seats = row_bound(tasks), seat_bound(tasks)
    assert rows <= seats + 1e-6 <= found.cost + 2e-6
    if tasks.low == tasks.high:
        free = sized(tasks.cost, tasks.low)
        linear, cut = linear_bound(free), linear_bound(free, rounds=2)
        assert seats * (1 - 1e-5) <= linear + 1e-6
        assert linear * (1 - 1e-5) <= cut + 1e-6 <= found.cost + 2e-6


@settings(max_examples=6, deadline=None)
@given(st.integers(0, 10**6))
@example(739730)
def test_search_finds_what_branch_and_cut_proves(seed: int) -> None:
    tasks = tasks_of(seed, 9, flexible=False)
    free = sized(tasks.cost, tasks.low)
    proven = solve_exactly(free, 30.0)
    assert proven.incumbent is not None
    assert proven.gap <= 1e-5
    assert assign(free, seed, rounds=8).cost == pytest.approx(proven.incumbent.cost)


@settings(max_examples=30, deadline=None)
@given(problems, st.integers(0, 99), st.data())
def test_a_machine_more_or_less_leaves_the_others_where_they_are(tasks: Tasks, seed: int, data: st.DataObject) -> None:
    group = assign(tasks, seed, rounds=1).group
    cost = data.draw(st.lists(st.floats(1, 999), min_size=len(group), max_size=len(group)))
    larger, more = add_machine(tasks, group, np.array(cost), 64.0)
    assert more.group[:-1].tolist() == group.tolist()
    assert (counts(larger, more.group) <= np.array(tasks.high)).all()
    lost = data.draw(st.integers(0, len(group) - 1))
    smaller, less = remove_machine(tasks, group, lost)
    assert len(less.group) == len(group) - 1 == len(smaller.memory)
    assert (less.group != np.delete(group, lost)).sum() <= 1


def pipeline_of(seed: int, groups: int, size: int) -> Pipeline:
    rng = np.random.default_rng(seed)
    devices = groups * size
    region = rng.integers(0, 3, devices)
    near = rng.choice([0.5, 1.0, 4.0], (3, 3))
    cost = (near + near.T)[region][:, region] * np.where(region[:, None] == region[None, :], 0.1, 1.0)
    if seed % 3 == 0:
        noise = rng.random((devices, devices))
        cost = cost * (1 + np.triu(noise, 1) + np.triu(noise, 1).T)
    np.fill_diagonal(cost, 0.0)
    return Pipeline(cost * 0.3, cost, groups)


pipelines = st.builds(pipeline_of, st.integers(0, 10**6), st.integers(2, 4), st.integers(1, 3))


@settings(max_examples=25, deadline=None)
@given(pipelines, st.integers(0, 99))
def test_a_pipeline_costs_what_every_matching_and_every_order_say(pipeline: Pipeline, seed: int) -> None:
    group = np.random.default_rng(seed).permutation(np.repeat(np.arange(pipeline.groups), pipeline.size))
    members = [np.flatnonzero(group == part) for part in range(pipeline.groups)]

    def apart(a: int, b: int) -> float:
        return min(
            max(float(pipeline.activation[i, j]) for i, j in zip(members[a], to, strict=True)) for to in itertools.permutations(members[b])
        )

    slowest = max(pipeline.gradient[i, part].sum() for part in members for i in part)
    way = min(sum(apart(a, b) for a, b in itertools.pairwise(order)) for order in itertools.permutations(range(pipeline.groups)))
    assert pipe_search(pipeline, group).score() == pytest.approx(slowest + 2 * way)
    assert pipe_bound(pipeline) <= slowest + 2 * way + 1e-9


@settings(max_examples=12, deadline=None)
@given(pipelines, st.integers(0, 99))
def test_the_compiled_pipeline_search_and_its_twin_take_the_same_steps(pipeline: Pipeline, seed: int) -> None:
    group = np.random.default_rng(seed).permutation(np.repeat(np.arange(pipeline.groups), pipeline.size))
    values, rank = pipeline.levels()
    ours, oracle = (
        search(pipeline.gradient, rank, values, pipeline.kinds(), group, pipeline.groups)
        for search in (compiled.PipeSearch, pipe_numpy.PipeSearch)
    )
    for i, j in itertools.combinations(range(len(group)), 2):
        if group[i] != group[j]:
            after = group.copy()
            after[[i, j]] = group[[j, i]]
            assert ours.swap_score(i, j) == pytest.approx(pipe_search(pipeline, after).score()) == oracle.swap_score(i, j)
    assert ours.anneal(60, 1.0, 0.01, seed) == oracle.anneal(60, 1.0, 0.01, seed)
    assert ours.group.tolist() == oracle.group.tolist()
    assert ours.descend() == oracle.descend()
    assert ours.score() == oracle.score() >= pipe_bound(pipeline) - 1e-9


@settings(max_examples=10, deadline=None)
@given(pipelines, st.integers(0, 99))
def test_the_same_seed_gives_the_same_pipeline(pipeline: Pipeline, seed: int) -> None:
    first, second = (place(pipeline, seed, rounds=2, steps=200) for _ in range(2))
    assert first.group.tolist() == second.group.tolist()
    assert first.cost == pytest.approx(pipe_search(pipeline, first.group).score())


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6), st.integers(3, 6), st.booleans())
def test_orders_are_the_best_of_all_orders(seed: int, stops: int, ring: bool) -> None:
    rng = np.random.default_rng(seed)
    cost = np.triu(rng.integers(1, 9, (stops, stops)).astype(float), 1)
    cost += cost.T
    orders = list(itertools.permutations(range(stops)))

    def hops(order: tuple[int, ...], closed: bool) -> list[float]:
        return [float(cost[a, b]) for a, b in itertools.pairwise((*order, order[0]) if closed else order)]

    found = bottleneck(cost, ring)
    assert found.worst == found.bound == min(max(hops(order, ring)) for order in orders)
    path, length = shortest_path(cost)
    assert length == pytest.approx(sum(hops(path, False))) == pytest.approx(min(sum(hops(order, False)) for order in orders))


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10**6), st.integers(17, 40))
def test_a_long_ring_is_whole_and_not_below_its_bound(seed: int, stops: int) -> None:
    rng = np.random.default_rng(seed)
    cost = np.triu(rng.random((stops, stops)), 1)
    found = bottleneck(cost + cost.T)
    assert sorted(found.stops) == list(range(stops))
    assert found.bound <= found.worst <= 1.0


@settings(max_examples=30, deadline=None)
@given(st.lists(st.floats(1, 1e4), min_size=1, max_size=6), st.integers(0, 4), st.integers(0, 9))
def test_sizes_for_memory_use_every_machine_but_the_spare(need: list[float], spare: int, more: int) -> None:
    memory = np.full(len(need) + spare + more, 16.0)
    sizes = sizes_for(need, memory, spare)
    assert sum(sizes) + spare == len(memory)
    assert min(sizes) >= 1
    assert not math.isnan(sum(sizes))
