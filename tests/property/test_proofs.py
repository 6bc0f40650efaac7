"""Branch and bound against listing everything, and its bound against the truth."""

from __future__ import annotations

from itertools import combinations_with_replacement

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hyperscale.model.graph import IntArray
from hyperscale.planner.cost.objective import Costs, objectives
from hyperscale.planner.search import exact
from hyperscale.planner.search.kernels import kernel
from hyperscale.planner.search.ring import all_rings
from tests.property.test_kernel_agreement import case

pytestmark = pytest.mark.skipif(not kernel.COMPILED, reason="the compiled kernel is not built here")

CASES = st.tuples(st.integers(0, 10_000), st.integers(2, 8), st.sampled_from(["Capacity", "Equal"]), st.sampled_from([0.0, 0.1, 0.5]))


def best_of_all(costs: Costs, slots: IntArray, workers: int) -> float:
    """Least objective of every set of slots in every ring."""
    sets = [
        chosen
        for chosen in combinations_with_replacement(np.flatnonzero(slots > 0).tolist(), workers)
        if (np.bincount(chosen, minlength=len(slots)) <= slots).all()
    ]
    orders = np.array(sets, dtype=np.int64)[:, all_rings(workers)].reshape(-1, workers)
    return float(objectives(costs, orders).min())


@settings(max_examples=50, deadline=None)
@given(CASES)
def test_branch_and_bound_finds_the_best_of_all_and_proves_it(drawn: tuple[int, int, str, float]) -> None:
    costs, slots, workers, _ = case(drawn)
    workers = min(workers, 5)
    found = exact.branch_and_bound(costs, slots, workers)
    best = best_of_all(costs, slots, workers)
    assert found.proven
    assert found.objective == pytest.approx(best, rel=1e-9)
    assert found.lower_bound == found.objective
    assert (found.order is None) == (not np.isfinite(best))
    if found.order is not None:
        assert objectives(costs, found.order[None, :])[0] == pytest.approx(best, rel=1e-9)
        assert (np.bincount(found.order, minlength=len(slots)) <= slots).all()


@settings(max_examples=30, deadline=None)
@given(CASES, st.integers(1, 3_000))
def test_a_search_that_stops_early_still_knows_a_bound(drawn: tuple[int, int, str, float], work: int) -> None:
    costs, slots, workers, _ = case(drawn)
    workers = min(workers, 5)
    grown = kernel.greedy_all(costs, slots, workers)
    start = grown[0] if len(grown) else None
    found = exact.branch_and_bound(costs, slots, workers, start, work=work)
    best = best_of_all(costs, slots, workers)
    assert found.lower_bound <= best * (1 + 1e-9)
    assert found.objective >= best * (1 - 1e-9)
    assert not found.proven or found.objective == pytest.approx(best, rel=1e-9)


@settings(max_examples=25, deadline=None)
@given(CASES)
def test_the_bound_with_pinned_ranks_holds_for_every_placement_that_keeps_them(drawn: tuple[int, int, str, float]) -> None:
    costs, slots, workers, rng = case(drawn)
    workers = max(2, min(workers, 5))
    pinned = rng.integers(0, len(slots), int(rng.integers(1, workers)))
    spare = np.repeat(np.arange(len(slots)), slots)
    if len(spare) < workers - len(pinned):
        return
    orders = np.array([rng.permutation(np.concatenate((pinned, rng.permutation(spare)[: workers - len(pinned)]))) for _ in range(30)])
    seconds = objectives(costs, orders)
    found = exact.branch_and_bound(costs, slots, workers, orders[int(np.argmin(seconds))], pinned=pinned)
    assert found.lower_bound <= seconds.min() * (1 + 1e-9)


def test_time_that_is_up_ends_the_search() -> None:
    costs, slots, _, _ = case((3, 16, "Equal", 0.0))
    asked: list[int] = []

    def expired() -> bool:
        asked.append(1)
        return True

    found = exact.branch_and_bound(costs, np.ones_like(slots), 8, expired=expired)
    assert found.lower_bound <= found.objective
    assert not asked or found.order is None or not found.proven or found.objective > 0
