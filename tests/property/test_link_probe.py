"""Invariants of the link probe: its schedule, its budget, its smoothing."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from itertools import combinations

from hypothesis import given, settings
from hypothesis import strategies as st

from hyperscale.agent.probe.probe_schedule import MAX_DESTINATIONS, ProbeSchedule, natural
from hyperscale.agent.probe.probe_smooth import Smoother


def schedules(groups: dict[str, str], number: int) -> dict[str, tuple[str, ...]]:
    schedule = ProbeSchedule(groups)
    return {name: (*found.near, *found.far) for name in groups for found in (schedule.targets(name, number),)}


def measured_pairs(chosen: dict[str, tuple[str, ...]]) -> set[frozenset[str]]:
    """Pairs of nodes of which at least one measures the other."""
    return {frozenset((name, other)) for name, found in chosen.items() for other in found}


@settings(max_examples=40, deadline=None)
@given(st.integers(2, 160), st.integers(1, 200), st.integers(0, 10**9))
def test_every_node_measures_few_others_and_is_measured_by_few(count: int, size: int, number: int) -> None:
    chosen = schedules({f"node-{at}": f"rack-{at // size}" for at in range(count)}, number)
    measured_by: Counter[str] = Counter()
    for name, found in chosen.items():
        assert name not in found
        assert len(set(found)) == len(found) == min(count - 1, MAX_DESTINATIONS)
        measured_by.update(found)
    assert max(measured_by.values()) <= 3 * MAX_DESTINATIONS


@settings(max_examples=40, deadline=None)
@given(st.integers(2, 2 * MAX_DESTINATIONS + 1), st.integers(1, 200), st.integers(0, 10**9))
def test_a_small_cluster_is_measured_whole_and_every_node_as_often(count: int, size: int, number: int) -> None:
    chosen = schedules({f"node-{at}": f"rack-{at // size}" for at in range(count)}, number)
    assert len(measured_pairs(chosen)) == count * (count - 1) // 2
    measured_by = Counter(other for found in chosen.values() for other in found)
    assert set(measured_by.values()) == {min(count - 1, MAX_DESTINATIONS)}


@settings(max_examples=40, deadline=None)
@given(st.integers(2, 160), st.integers(1, 200), st.integers(0, 10**9))
def test_all_links_within_a_rack_of_up_to_13_nodes_are_measured(count: int, size: int, number: int) -> None:
    racks = {f"node-{at}": f"rack-{at // size}" for at in range(count)}
    pairs = measured_pairs(schedules(racks, number))
    nodes_of = Counter(racks.values())
    small = [name for name, rack in racks.items() if nodes_of[rack] <= 13]
    assert {frozenset((one, other)) for one, other in combinations(small, 2) if racks[one] == racks[other]} <= pairs


@settings(max_examples=25, deadline=None)
@given(st.integers(50, 300), st.integers(1, 60), st.integers(0, 299), st.integers(0, 1000))
def test_a_node_that_leaves_changes_the_destinations_of_few_others(count: int, size: int, gone: int, number: int) -> None:
    groups = {f"node-{at}": f"rack-{at // size}" for at in range(count)}
    left = {name: group for name, group in groups.items() if name != f"node-{gone % count}"}
    before, after = schedules(groups, number), schedules(left, number)
    new = sum(len(set(after[name]) - set(before[name])) for name in left)
    assert new <= 8 * MAX_DESTINATIONS


@settings(max_examples=10, deadline=None)
@given(st.integers(50, 200), st.integers(1, 60), st.integers(0, 10**6))
def test_a_round_later_one_destination_is_another_at_most(count: int, size: int, number: int) -> None:
    groups = {f"node-{at}": f"rack-{at // size}" for at in range(count)}
    before, after = schedules(groups, number), schedules(groups, number + 1)
    assert max(len(set(after[name]) - set(before[name])) for name in groups) <= 1


@settings(max_examples=40, deadline=None)
@given(st.lists(st.text(max_size=6), unique=True, min_size=2, max_size=60), st.integers(0, 1000), st.randoms(use_true_random=False))
def test_everyone_who_knows_the_same_names_has_the_same_schedule(names: list[str], number: int, shuffler: object) -> None:
    groups = dict.fromkeys(names, "")
    shuffled = list(groups)
    shuffler.shuffle(shuffled)  # type: ignore[attr-defined]
    assert ProbeSchedule(groups).targets(names[0], number) == ProbeSchedule(dict.fromkeys(shuffled, "")).targets(names[0], number)
    assert len({natural(name) for name in names}) == len(names)


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
