"""Annealing keeps to the slots and never loses; the same seed walks the same way, however often it looks at the clock."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from benchmarks.peers.placement import anneal
from hyperscale.planner.cost.objective import predict
from tests.property.test_kernel_agreement import CASES, case, drawn_orders


@settings(max_examples=30, deadline=None)
@given(CASES, st.booleans())
@example((2131, 6, "Equal", 0.0), True)  # limited uplinks
def test_a_walk_is_never_worse_than_its_start_and_counts_right(drawn: tuple[int, int, str, float], compiled: bool) -> None:
    costs, slots, workers, rng = case(drawn)
    order = drawn_orders(slots, workers, rng, 1)[0]
    fixed = rng.random(workers) < 0.2
    spare = slots + np.bincount(order[fixed], minlength=len(slots))
    before = predict(costs, order).objective
    if compiled:
        found, seconds = anneal.anneal(costs, spare, order, fixed, seed=drawn[0], iterations=3_000)
    else:
        found, seconds = (
            anneal._anneal_numpy(costs, spare, order, fixed, drawn[0], 30, lambda: False) if not fixed.all() else (order, before)
        )
    assert seconds <= before * (1 + 1e-12)
    assert seconds == pytest.approx(predict(costs, found).objective, rel=1e-9)
    assert (found[fixed] == order[fixed]).all()
    assert (np.bincount(found[~fixed], minlength=len(slots)) <= spare).all()


def test_the_seed_decides_and_the_clock_only_cuts_off() -> None:
    costs, slots, _, rng = case((7, 16, "Capacity", 0.0))
    order = drawn_orders(slots + 1, 6, rng, 1)[0]
    first, second = (anneal.anneal(costs, slots + 1, order, seed=5, iterations=50_000) for _ in range(2))
    assert (first[0] == second[0]).all()
    looks: list[int] = []

    def twice() -> bool:
        looks.append(1)
        return len(looks) > 2

    cut, seconds = anneal.anneal(costs, slots + 1, order, seed=5, iterations=50_000_000, expired=twice)
    assert len(looks) == 3
    assert seconds == pytest.approx(predict(costs, cut).objective, rel=1e-9)
