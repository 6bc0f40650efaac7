"""The search by pairs keeps to the slots and never loses; with two free ranks it is exact; the same seed walks the same way."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hyperscale.plan.exchange import exchange, tournament
from hyperscale.plan.kernel import kernel_for, objectives
from hyperscale.plan.objective import predict
from tests.property.test_kernel_agreement import CASES, case, drawn_orders


@settings(max_examples=40, deadline=None)
@given(CASES, st.booleans())
def test_pairs_are_never_worse_than_their_start_and_count_right(drawn: tuple[int, int, str, float], pinned: bool) -> None:
    costs, slots, workers, rng = case(drawn)
    order = drawn_orders(slots, workers, rng, 1)[0]
    fixed = (rng.random(workers) < 0.3) & pinned
    spare = slots + np.bincount(order[fixed], minlength=len(slots))
    before = predict(costs, order).objective
    found, seconds = exchange(costs, spare, order, fixed, seed=drawn[0], work=20_000)
    assert seconds <= before * (1 + 1e-12)
    assert seconds == pytest.approx(predict(costs, found).objective, rel=1e-9)
    assert (found[fixed] == order[fixed]).all()
    assert (np.bincount(found[~fixed], minlength=len(slots)) <= spare).all()


@settings(max_examples=40, deadline=None)
@given(CASES)
def test_the_last_two_free_ranks_are_placed_exactly(drawn: tuple[int, int, str, float]) -> None:
    costs, slots, workers, rng = case(drawn)
    order = drawn_orders(slots, workers, rng, 1)[0]
    if workers < 3 or not np.isfinite(predict(costs, order).objective) or kernel_for(costs, slots, workers) is None:
        return
    free = np.sort(rng.choice(workers, size=2, replace=False))
    fixed = ~np.isin(np.arange(workers), free)
    pairs = [(a, b) for a, b in product(np.flatnonzero(slots > 0), repeat=2) if a != b or slots[a] > 1]
    tried = np.repeat(order[None, :], len(pairs), axis=0)
    tried[:, free] = pairs
    _, seconds = exchange(costs, slots, order, fixed, seed=drawn[0], work=8_000)
    assert seconds == pytest.approx(float(objectives(costs, tried).min()), rel=1e-6)


def test_the_seed_decides_where_pairs_lead_and_the_clock_only_cuts_off() -> None:
    costs, slots, _, rng = case((7, 16, "Capacity", 0.0))
    order = drawn_orders(slots + 1, 6, rng, 1)[0]
    first, second = (exchange(costs, slots + 1, order, seed=5, work=60_000) for _ in range(2))
    assert (first[0] == second[0]).all()
    looks: list[int] = []

    def twice() -> bool:
        looks.append(1)
        return len(looks) > 2

    cut, seconds = exchange(costs, slots + 1, order, seed=5, work=50_000_000, expired=twice)
    assert len(looks) == 3
    assert seconds == pytest.approx(predict(costs, cut).objective, rel=1e-9)


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
