"""The search by segments never loses; with three free neighbours it is exact; the same seed walks the same way."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from itertools import product
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from hyperscale.model.graph import BoolArray, IntArray
from hyperscale.planner.cost.objective import Costs, predict
from hyperscale.planner.search.kernels import _segment
from hyperscale.planner.search.kernels.kernel import kernel_for, objectives
from hyperscale.planner.search.lns_segments import tournament
from tests.property.test_kernel_agreement import CASES, case, drawn_orders


@settings(max_examples=40, deadline=None)
@given(CASES, st.booleans())
def test_a_tournament_is_never_worse_than_its_start_and_counts_right(drawn: tuple[int, int, str, float], pinned: bool) -> None:
    costs, slots, workers, rng = case(drawn)
    order = drawn_orders(slots, workers, rng, 1)[0]
    fixed = (rng.random(workers) < 0.3) & pinned
    spare = slots + np.bincount(order[fixed], minlength=len(slots))
    before = predict(costs, order).objective
    found, seconds = tournament(costs, spare, order[None, :], fixed, seed=drawn[0], work=20_000)
    assert seconds <= before * (1 + 1e-12)
    assert seconds == pytest.approx(predict(costs, found).objective, rel=1e-9)
    assert (found[fixed] == order[fixed]).all()
    assert (np.bincount(found[~fixed], minlength=len(slots)) <= spare).all()


LONG_WORK = 20_000
UPLINKS = (11, 13, "Equal", 0.0)
"""Shared uplinks, which bounds leave out: hardly one of 884 paths is ruled out before its end."""
ORDER_OF_NODES = ((114, 8, "Equal", 0.0), (195, 8, "Capacity", 0.0))
"""The second-best path has the nodes of the best in another order."""


class Neighbours(NamedTuple):
    """Three free ranks beside each other, and the least objective of all their paths."""

    costs: Costs
    slots: IntArray
    order: IntArray
    fixed: BoolArray
    least: float


def three_free(drawn: tuple[int, int, str, float]) -> Neighbours | None:
    """Three ranks of a drawn case are free; None where it is too small, or its order cannot work."""
    costs, slots, workers, rng = case(drawn)
    order = drawn_orders(slots, workers, rng, 1)[0]
    if workers < 5 or not np.isfinite(predict(costs, order).objective) or kernel_for(costs, slots, workers) is None:
        return None
    free = (int(rng.integers(workers)) + np.arange(3)) % workers
    usable = np.flatnonzero(slots > 0)
    paths = np.array(list(product(usable, repeat=3)))
    paths = paths[(np.stack([(paths == node).sum(axis=1) for node in usable], axis=1) <= slots[usable]).all(axis=1)]
    tried = np.repeat(order[None, :], len(paths), axis=0)
    tried[:, free] = paths
    return Neighbours(costs, slots, order, ~np.isin(np.arange(workers), free), float(objectives(costs, tried).min()))


@settings(max_examples=30, deadline=None)
@given(CASES)
@example(UPLINKS)
@example(ORDER_OF_NODES[0])
@example(ORDER_OF_NODES[1])
def test_three_free_neighbours_in_the_ring_are_placed_exactly(drawn: tuple[int, int, str, float]) -> None:
    posed = three_free(drawn)
    if posed is not None:
        _, seconds = tournament(posed.costs, posed.slots, posed.order[None, :], posed.fixed, seed=drawn[0], work=200_000)
        assert seconds == pytest.approx(posed.least, rel=1e-6)


@pytest.mark.parametrize("drawn", [UPLINKS, *ORDER_OF_NODES])
def test_segments_find_the_best_path_from_every_seed(drawn: tuple[int, int, str, float]) -> None:
    posed = three_free(drawn)
    assert posed is not None
    kernel = kernel_for(posed.costs, posed.slots, len(posed.order))
    assert kernel is not None
    before, rows = predict(posed.costs, posed.order).objective, posed.fixed.astype(np.uint8)
    for seed in range(12):
        at, best = posed.order.astype(np.int32), posed.order.astype(np.int32)
        seconds, _, _ = _segment.segments(kernel, at, rows, seed, 60_000, 0.005, before, best)
        assert seconds == pytest.approx(posed.least, rel=1e-9)


@settings(max_examples=40, deadline=None)
@given(CASES, st.booleans())
def test_segments_are_never_worse_than_their_start_and_leave_pinned_ranks(drawn: tuple[int, int, str, float], pinned: bool) -> None:
    costs, slots, workers, rng = case(drawn)
    order = drawn_orders(slots, workers, rng, 1)[0]
    fixed = (rng.random(workers) < 0.3) & pinned
    spare = slots + np.bincount(order[fixed], minlength=len(slots))
    kernel, before = kernel_for(costs, spare, workers), predict(costs, order).objective
    if kernel is None or not np.isfinite(before):
        return
    at, best = order.astype(np.int32), order.astype(np.int32)
    seconds, _, spent = _segment.segments(kernel, at, fixed.astype(np.uint8), drawn[0], 20_000, 0.02, before, best)
    for walked in (at, best):
        assert (walked[fixed] == order[fixed]).all()
        assert (np.bincount(walked[~fixed], minlength=len(slots)) <= spare).all()
    assert seconds <= before * (1 + 1e-12)
    assert seconds == pytest.approx(predict(costs, best.astype(np.int64)).objective, rel=1e-9)
    assert spent >= 20_000 or workers < 4 or fixed.all()


@pytest.mark.parametrize(("length", "node"), [(5, 0), (6, -1), (6, 99)])
def test_segments_refuse_an_order_of_another_length_and_unknown_candidates(length: int, node: int) -> None:
    costs, slots, _, _ = case((7, 16, "Capacity", 0.0))
    kernel = kernel_for(costs, slots + 1, 6)
    if kernel is None:
        pytest.skip("no compiled kernel")
    order = np.full(length, node, dtype=np.int32)
    with pytest.raises(ValueError, match=r"length|candidate"):
        _segment.segments(kernel, order, np.zeros(6, dtype=np.uint8), 1, 10, 0.02, 1.0, np.zeros(6, dtype=np.int32))


def test_the_seed_decides_where_segments_lead_and_the_clock_only_cuts_off() -> None:
    costs, slots, _, rng = case((7, 16, "Capacity", 0.0))
    order = drawn_orders(slots + 1, 6, rng, 1)[0]
    first, second = (tournament(costs, slots + 1, order[None, :], seed=5, work=60_000) for _ in range(2))
    assert (first[0] == second[0]).all()
    looks: list[int] = []

    def twice() -> bool:
        looks.append(1)
        return len(looks) > 2

    cut, seconds = tournament(costs, slots + 1, order[None, :], seed=5, work=50_000_000, expired=twice)
    assert len(looks) == 3
    assert seconds == pytest.approx(predict(costs, cut).objective, rel=1e-9)


def few_free_of_many() -> tuple[Costs, IntArray, IntArray, BoolArray]:
    """Costs, slots, an order of 128 ranks and which of them stay: two are free, and shared uplinks decide, which bounds leave out."""
    nodes, workers = 200, 128
    rng = np.random.default_rng(0)
    plain, domains = case((0, nodes, "Equal", 0.0))[0], np.arange(nodes)[None, :] % 4
    costs = replace(plain, uplink_domains=domains, uplink_seconds_per_byte=np.full((1, 4), 1e-6))
    slots = np.full(nodes, 4)
    order = drawn_orders(slots, workers, rng, 1)[0]
    fixed = np.arange(workers) >= 2
    return costs, slots - np.bincount(order[fixed], minlength=nodes), order, fixed


def test_a_long_search_of_paths_looks_at_the_clock_and_is_the_same_whoever_looks() -> None:
    costs, slots, order, fixed = few_free_of_many()
    kernel = kernel_for(costs, slots, len(order))
    assert kernel is not None
    before, rows = predict(costs, order).objective, fixed.astype(np.uint8)

    def searched(*expired: Callable[[], bool]) -> tuple[float, int, bytes]:
        """Objective, work and order after the first search of paths that takes long."""
        at, best, seconds, state, spent = order.astype(np.int32), order.astype(np.int32), before, 0, 0
        while spent < LONG_WORK:
            seconds, state, spent = _segment.segments(kernel, at, rows, state, 1, 0.02, seconds, best, *expired)
        return seconds, spent, best.tobytes()

    looks: list[int] = []

    def look() -> bool:
        looks.append(1)
        return False

    assert searched(look) == searched()
    assert len(looks) > 50
    found = predict(costs, np.frombuffer(searched()[2], dtype=np.int32).astype(np.int64)).objective
    assert searched()[0] == pytest.approx(found, rel=1e-9)


def test_a_long_search_of_paths_ends_soon_after_the_deadline() -> None:
    costs, slots, order, fixed = few_free_of_many()
    overruns = []
    for cut in (0.1, 0.15, 0.2, 0.25, 0.3):
        end = time.perf_counter() + cut

        def expired(end: float = end) -> bool:
            return time.perf_counter() > end

        tournament(costs, slots, order[None, :], fixed, seed=1, work=10**12, expired=expired)
        overruns.append(time.perf_counter() - end)
    assert np.median(overruns) < 0.02


def test_a_tournament_loses_to_none_of_its_starts_and_needs_only_one_that_works() -> None:
    costs, slots, _, rng = case((11, 20, "Capacity", 0.0))
    orders = drawn_orders(slots + 1, 6, rng, 9)
    starts = objectives(costs, orders)
    first, second = (tournament(costs, slots + 1, orders, seed=3, work=90_000) for _ in range(2))
    assert (first[0] == second[0]).all()
    assert first[1] <= starts.min() * (1 + 1e-12)
    assert first[1] == pytest.approx(predict(costs, first[0]).objective, rel=1e-9)
    at_once = tournament(costs, slots + 1, orders, seed=3, work=90_000, expired=lambda: True)
    assert at_once[1] == pytest.approx(float(starts.min()), rel=1e-9)
