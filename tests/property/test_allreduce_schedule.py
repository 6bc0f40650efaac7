"""The schedule is the optimum: of neighbours by trying all 2^(L−1), of all groupings in all orders for few gradients; none beats it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import pairwise, permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from hyperscale.training.allreduce import simulate
from hyperscale.training.allreduce.schedule import Groups, Schedule, finish, lower_bounds, schedule

Instance = tuple[list[float], list[float], float, float]
CLOSE = 1e-12


@st.composite
def instances(draw: st.DrawFn, most: int) -> Instance:
    count = draw(st.integers(1, most))
    generator = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    ready = np.cumsum(generator.exponential(10.0 ** generator.uniform(-5, -2), count))
    if draw(st.booleans()):
        ready = np.round(ready, 3)  # many gradients are ready at once
    sizes = 10.0 ** generator.uniform(1, 7.5, count)
    mixed = generator.permutation(count) if draw(st.booleans()) else np.arange(count)
    alpha = draw(st.sampled_from([0.0, 2.6e-6, 9.8e-5, 9e-4, 5e-2]))
    beta = draw(st.sampled_from([0.0, 9.8e-11, 8.6e-10, 1e-8]))
    return ready[mixed].tolist(), sizes[mixed].tolist(), alpha, beta


def exhaustive(ready: list[float], sizes: list[float], alpha: float, beta: float, most_bytes: float = math.inf) -> float:
    """The earliest end of all 2^(L−1) groupings of neighbours; one bit says whether a message ends after a gradient."""
    order = sorted(range(len(ready)), key=lambda at: ready[at])
    count = len(order)
    cuts = np.arange(1 << (count - 1))
    end: NDArray[np.float64] = np.full(len(cuts), -np.inf)
    held: NDArray[np.float64] = np.zeros(len(cuts))
    alone: NDArray[np.bool_] = np.ones(len(cuts), dtype=bool)
    for place, at in enumerate(order):
        held = held + sizes[at]
        closes = ((cuts >> place) & 1).astype(bool) if place < count - 1 else np.ones(len(cuts), dtype=bool)
        allowed = alone | (held <= most_bytes)
        sent = np.where(allowed, np.maximum(end, ready[at]) + alpha + beta * held, np.inf)
        end, held, alone = np.where(closes, sent, end), np.where(closes, 0.0, held), closes
    return float(end.min())


def set_partitions(items: list[int]) -> Iterator[list[list[int]]]:
    if not items:
        yield []
        return
    first, *others = items
    for parts in set_partitions(others):
        yield [[first], *parts]
        for at in range(len(parts)):
            yield [*parts[:at], [first, *parts[at]], *parts[at + 1 :]]


def close(one: float, other: float) -> bool:
    return abs(one - other) <= 1e-9 * max(abs(one), abs(other))


@settings(max_examples=50, deadline=None)
@given(instances(14))
def test_the_schedule_ends_as_early_as_the_best_of_all_groupings_of_neighbours(instance: Instance) -> None:
    assert close(schedule(*instance).finish_seconds, exhaustive(*instance))


@settings(max_examples=40, deadline=None)
@given(instances(5))
def test_no_other_grouping_in_any_order_ends_earlier(instance: Instance) -> None:
    found = schedule(*instance).finish_seconds
    for parts in set_partitions(list(range(len(instance[0])))):
        for order in permutations(parts):
            assert finish(tuple(tuple(part) for part in order), *instance) >= found * (1 - CLOSE)


@settings(max_examples=40, deadline=None)
@given(instances(12), st.floats(0.0, 1.0))
def test_a_bound_on_messages_is_kept_and_costs_no_more_than_it_must(instance: Instance, part: float) -> None:
    sizes = instance[1]
    most = min(sizes) + part * (sum(sizes) - min(sizes))
    found = schedule(*instance, most_bytes=most)
    assert all(len(group) == 1 or sum(sizes[at] for at in group) <= most * (1 + CLOSE) for group in found.groups)
    assert close(found.finish_seconds, exhaustive(*instance, most_bytes=most))


@settings(max_examples=50, deadline=None)
@given(instances(120))
def test_every_gradient_is_sent_once_in_the_order_of_readiness_and_no_bound_is_beaten(instance: Instance) -> None:
    ready = instance[0]
    found = schedule(*instance)
    sent = [at for group in found.groups for at in group]
    assert sorted(sent) == list(range(len(ready)))
    assert [ready[at] for at in sent] == sorted(ready)
    bounds = lower_bounds(*instance)
    assert bounds.best_seconds >= max(bounds.last_seconds, bounds.whole_seconds)
    assert found.lower_bound_seconds == bounds.best_seconds <= found.finish_seconds * (1 + CLOSE)
    assert schedule(*instance) == found


@settings(max_examples=50, deadline=None)
@given(instances(120), st.floats(0, 1))
def test_nobody_else_ends_earlier(instance: Instance, phase: float) -> None:
    ready, sizes, _, _ = instance
    found = schedule(*instance).finish_seconds * (1 - CLOSE)
    others: list[Groups] = [
        simulate.buckets(ready, sizes),
        simulate.greedy(*instance),
        simulate.each_alone(ready, sizes),
        simulate.all_in_one(ready, sizes),
    ]
    assert all(finish(groups, *instance) >= found for groups in others)
    engine = simulate.Engine(phase_seconds=phase * 1e-3)
    assert simulate.horovod(*instance, engine)[-1].end_seconds >= found


@settings(max_examples=40, deadline=None)
@given(instances(9), st.sampled_from([0.0, 0.01, 0.2]))
def test_of_the_schedules_that_are_fast_enough_it_has_the_fewest_messages(instance: Instance, within: float) -> None:
    best = schedule(*instance).finish_seconds
    found = schedule(*instance, within=within)
    limit = best + within * (best - min(instance[0]))
    assert found.finish_seconds <= limit * (1 + 1e-9)
    order = sorted(range(len(instance[0])), key=lambda at: instance[0][at])
    count = len(order)
    for cuts in range(1 << (count - 1)):
        edges = [0, *(place + 1 for place in range(count - 1) if cuts >> place & 1), count]
        groups = tuple(tuple(order[first:last]) for first, last in pairwise(edges))
        if len(groups) < len(found.groups):
            assert finish(groups, *instance) > limit * (1 - CLOSE)


def by_the_recurrence(ready: list[float], sizes: list[float], alpha: float, beta: float) -> float:
    """The recurrence as it is written, over all i < j."""
    order = sorted(range(len(ready)), key=lambda at: ready[at])
    ends = [-math.inf]
    for j in range(1, len(order) + 1):
        ends.append(min(max(ends[i], ready[order[j - 1]]) + alpha + beta * sum(sizes[at] for at in order[i:j]) for i in range(j)))
    return ends[-1]


@settings(max_examples=40, deadline=None)
@given(instances(40))
def test_the_linear_pass_finds_what_the_recurrence_over_all_pairs_finds(instance: Instance) -> None:
    found: Schedule = schedule(*instance)
    assert found.finish_seconds == pytest.approx(by_the_recurrence(*instance), rel=1e-9)
