"""Single moves by the true costs where memory may limit shares, and local search that a deadline ends in the middle of a pass."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from hyperscale.model.graph import BoolArray, IntArray
from hyperscale.planner.cost.bounds import best_links, lower_bound
from hyperscale.planner.cost.objective import Costs, objectives
from hyperscale.planner.search.exact_moves import exact_moves
from hyperscale.planner.search.improve import THOROUGH, SearchBudget, improve, walked
from hyperscale.planner.search.kernels import kernel
from hyperscale.planner.search.narrow_starts import narrow_starts
from tests.property.test_kernel_agreement import case

ENOUGH = 10**9


def limited(seed: int, nodes: int, balance: str, room: float) -> tuple[Costs, IntArray, IntArray, BoolArray]:
    """A cluster whose GPUs hold 0.5 to `room` + 0.5 equal parts, a placement that works, and ranks that stay: some in every third case."""
    costs, slots, workers, rng = case((seed, nodes, balance, 0.0))
    part = costs.workload.full_graph_bytes / workers / costs.gpus_per_worker
    held = costs.workload.parameter_bytes + costs.workload.step_bytes
    costs = replace(costs, memory_bytes=held + part * rng.uniform(0.5, room + 0.5, len(slots)))
    order = rng.permutation(np.repeat(np.arange(len(slots)), slots))[:workers]
    fixed = rng.random(workers) < (0.3 if seed % 3 == 0 else 0.0)
    return costs, slots - np.bincount(order[fixed], minlength=len(slots)), order, fixed


@settings(max_examples=80, deadline=None)
@given(st.integers(0, 10_000), st.integers(3, 10), st.sampled_from(["Capacity", "Equal"]), st.floats(0.5, 2.5))
def test_no_single_move_improves_what_exact_moves_leave(seed: int, nodes: int, balance: str, room: float) -> None:
    costs, slots, order, fixed = limited(seed, nodes, balance, room)
    assume(np.isfinite(objectives(costs, order[None])[0]))
    placed, seconds = exact_moves(costs, slots, order, fixed, ENOUGH, lambda: False)
    (left,), workers = placed, len(order)
    assert seconds == pytest.approx(objectives(costs, placed))
    assert seconds[0] <= objectives(costs, order[None])[0]
    assert (left[fixed] == order[fixed]).all()
    used = np.bincount(left[~fixed], minlength=len(slots))
    assert (used <= slots).all()
    again, further = exact_moves(costs, slots, left, fixed, ENOUGH, lambda: False)
    firsts = [int(np.flatnonzero((left == node) & ~fixed)[0]) for node in np.unique(left[~fixed])]
    rows = [np.where(np.arange(workers) == rank, node, again[0]) for rank in firsts for node in np.flatnonzero(used < slots)]
    if further[0] == seconds[0] and rows:
        assert objectives(costs, np.array(rows)).min() >= seconds[0] * (1.0 - 1e-8)


@settings(max_examples=80)
@given(st.integers(0, 10_000), st.integers(3, 10), st.sampled_from(["Capacity", "Equal"]), st.floats(0.1, 1.5))
def test_no_placement_is_below_the_bound_where_memory_is_short(seed: int, nodes: int, balance: str, room: float) -> None:
    costs, slots, order, _ = limited(3 * seed + 1, nodes, balance, room)
    bound = lower_bound(costs, slots, len(order), best_links(costs, slots))
    rng = np.random.default_rng(seed)
    free = np.repeat(np.arange(len(slots)), slots)
    orders = np.array([order, *(rng.permutation(free)[: len(order)] for _ in range(20))])
    assert bound <= objectives(costs, orders).min() * (1.0 + 1e-9)


@pytest.mark.parametrize("elements", [0, ENOUGH])
def test_exact_moves_end_when_time_or_work_is_up(elements: int) -> None:
    costs, slots, order, fixed = limited(2, 8, "Capacity", 2.5)
    placed, seconds = exact_moves(costs, slots, order, fixed, elements, lambda: elements > 0)
    assert (placed[0] == order).all()
    assert seconds[0] == objectives(costs, order[None])[0]


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10_000), st.integers(3, 10), st.sampled_from(["Capacity", "Equal"]), st.integers(1, 400))
def test_local_search_in_parts_is_local_search(seed: int, nodes: int, balance: str, elements: int) -> None:
    costs, slots, workers, rng = case((seed, nodes, balance, 0.0))
    order = rng.permutation(np.repeat(np.arange(len(slots)), slots))[:workers]
    fixed = rng.random(workers) < (0.3 if seed % 3 == 0 else 0.0)
    slots = slots - np.bincount(order[fixed], minlength=len(slots))
    assume(kernel.kernel_for(costs, slots, workers) is not None)
    whole, seconds = kernel.local_search(costs, slots, order[None], fixed)
    parts, others = kernel.local_search_until(costs, slots, order, fixed, kernel.SWEEPS, elements, lambda: False)
    assert (parts == whole).all()
    assert others.tobytes() == seconds.tobytes()


def test_local_search_in_parts_keeps_what_it_has_when_time_is_up() -> None:
    """Asked three times, the clock lets three workers move."""
    costs, slots, workers, _ = case((12, 10, "Capacity", 0.0))
    order = np.repeat(np.arange(len(slots)), slots)[:workers]
    fixed = np.zeros(workers, dtype=np.bool_)
    answers = iter([False] * 3 + [True] * 100)
    placed, seconds = kernel.local_search_until(costs, slots, order, fixed, kernel.SWEEPS, 1, lambda: next(answers))
    assert len(list(answers)) >= 98, "and is hardly asked again once it has said no"
    assert seconds == pytest.approx(objectives(costs, placed))
    assert seconds[0] <= objectives(costs, order[None])[0]
    assert (np.bincount(placed[0], minlength=len(slots)) <= slots).all()


@pytest.fixture
def swept(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Numbers that every call of local search may touch."""
    touched: list[int] = []
    whole, parts = kernel.local_search, kernel.local_search_until

    def counted(costs: Costs, slots: IntArray, orders: IntArray, fixed: BoolArray | None = None, sweeps: int = kernel.SWEEPS) -> object:
        touched.append(sweeps * orders.size * orders.shape[1] * len(slots))
        return whole(costs, slots, orders, fixed, sweeps)

    def counted_parts(costs: Costs, slots: IntArray, order: IntArray, fixed: BoolArray, sweeps: int, *rest: object) -> object:
        touched.append(sweeps * len(order) ** 2 * len(slots))
        return parts(costs, slots, order, fixed, sweeps, *rest)  # type: ignore[arg-type] # passed on as they are

    monkeypatch.setattr(kernel, "local_search", counted)
    monkeypatch.setattr(kernel, "local_search_until", counted_parts)
    return touched


def test_every_local_search_keeps_to_the_effort(swept: list[int]) -> None:
    """The last one, after the search by segments, and those of the narrow starts took half a minute for a thousand workers."""
    costs, slots, workers, rng = case((3, 10, "Capacity", 0.0))
    slots = np.maximum(slots, 2)
    order = rng.permutation(np.repeat(np.arange(len(slots)), slots))[:workers]
    fixed = np.zeros(workers, dtype=np.bool_)
    little: SearchBudget = THOROUGH._replace(elements=workers * workers * len(slots) - 1)
    improve(costs, slots, order[None], fixed, little, lambda: False)
    walked(costs, slots, order[None], fixed, little, 0, lambda: False)
    narrow_starts(costs, slots, workers, little, lambda: False)
    assert swept
    assert set(swept) == {0}
