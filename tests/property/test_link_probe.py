"""Invariants of the link probe: its schedule, its budget, its smoothing."""

from __future__ import annotations

import math
import statistics
from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from hyperscale.agent.budget import Budget
from hyperscale.agent.probe_schedule import BLOCK, SMALL, natural, offsets, targets
from hyperscale.agent.probe_smooth import Smoother


@settings(max_examples=40, deadline=None)
@given(st.integers(2, 160), st.integers(1, 40), st.integers(0, 10**9))
def test_a_schedule_is_small_complete_inside_a_group_and_fair(count: int, size: int, number: int) -> None:
    groups = {f"node-{at}": f"rack-{at // size}" for at in range(count)}
    chosen = {name: targets(name, groups, number) for name in groups}
    measured_by: Counter[str] = Counter()
    for name, found in chosen.items():
        assert name not in {*found.near, *found.far}
        assert len(set(found.near) | set(found.far)) == len(found.near) + len(found.far)
        assert len(found.near) <= max(SMALL, BLOCK) - 1
        assert len(found.far) <= math.ceil(math.log2(count))
        for other in found.near:
            assert name in chosen[other].near
        measured_by.update((*found.near, *found.far))
    if count <= SMALL or size <= BLOCK:
        for name, found in chosen.items():
            mates = {other for other in groups if groups[other] == groups[name]} - {name}
            assert mates <= set(found.near)
    assert max(measured_by.values()) <= max(SMALL, BLOCK) - 1 + math.ceil(math.log2(count))


@settings(max_examples=40, deadline=None)
@given(st.lists(st.text(max_size=6), unique=True, min_size=2, max_size=60), st.integers(0, 1000), st.randoms(use_true_random=False))
def test_everyone_who_knows_the_same_names_has_the_same_schedule(names: list[str], number: int, shuffler: object) -> None:
    groups = dict.fromkeys(names, "")
    shuffled = list(groups)
    shuffler.shuffle(shuffled)  # type: ignore[attr-defined]
    assert targets(names[0], groups, number) == targets(names[0], dict.fromkeys(shuffled, ""), number)
    assert len({natural(name) for name in names}) == len(names)


@settings(max_examples=30, deadline=None)
@given(st.integers(2, 6000), st.integers(0, 10**9))
def test_a_round_has_as_many_different_steps_as_the_logarithm_says(count: int, number: int) -> None:
    found = offsets(count, number)
    assert len(set(found)) == len(found) == min(count - 1, math.ceil(math.log2(count)))
    assert all(0 < offset < count for offset in found)


@settings(max_examples=50, deadline=None)
@given(
    st.floats(1, 1e6),
    st.floats(1, 1e6),
    st.lists(st.tuples(st.floats(0, 10), st.floats(0, 1e6), st.floats(0, 1e3)), max_size=60),
)
def test_no_interval_costs_more_than_the_capacity_and_the_rate(
    rate: float, capacity: float, steps: list[tuple[float, float, float]]
) -> None:
    budget, now, granted = Budget(rate, capacity, 0.0), 0.0, []
    for wait, count, reserve in steps:
        now += wait
        if budget.take(count, now, reserve):
            granted.append((now, count))
        assert 0 <= budget.left(now) <= capacity
    for at, (begin, _) in enumerate(granted):
        for end in range(at, len(granted)):
            spent = sum(count for _, count in granted[at : end + 1])
            assert spent <= (capacity + rate * (granted[end][0] - begin)) * (1 + 1e-9) + 1e-6


@settings(max_examples=50, deadline=None)
@given(st.lists(st.floats(1e-6, 1e6), min_size=1, max_size=60))
def test_a_smoothed_figure_lies_within_its_last_readings_and_a_new_level_is_taken_at_once(readings: list[float]) -> None:
    smoother = Smoother(window=5, agreeing=2, change_ratio=0.12)
    for reading in readings:
        smoother.add(reading)
    value = smoother.value
    assert value is not None
    assert min(readings[-5:]) <= value <= max(readings[-5:])
    level = value * 10
    smoother.add(level)
    smoother.add(level)
    assert smoother.value is not None
    assert math.isclose(smoother.value, statistics.median([level]), rel_tol=0.13)
