"""Shapley shares add up exactly, are equal for equal components, and are nothing for those that add nothing."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hyperscale.evaluate.score.shapley import shapley

NAMES = "abcdefghij"


def game(seed: int, size: float = 1.0) -> dict[frozenset[str], float]:
    chance = np.random.default_rng(seed)
    subsets = [frozenset(name for at, name in enumerate(NAMES) if bits >> at & 1) for bits in range(1 << len(NAMES))]
    return {members: size * float(chance.random()) for members in subsets}


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 8), st.sampled_from([1e-300, 1e-9, 1.0, 137.2]), st.sampled_from([0.0, 0.5]))
def test_shares_sum_to_the_value_exactly(seed: int, count: int, size: float, shift: float) -> None:
    values = {members: figure - shift * size for members, figure in game(seed, size).items()}
    result = shapley(NAMES[:count], lambda members: values[members])
    assert sum(result.exact, Fraction(result.empty)) == Fraction(result.value)
    assert math.fsum((result.empty, *result.shares)) == result.value
    largest = max(abs(figure) for figure in values.values())
    assert abs(result.value - values[frozenset(NAMES[:count])]) <= 2.0**-52 * largest
    assert all(abs(near - float(far)) <= 2.0**-51 * largest for near, far in zip(result.shares, result.exact, strict=True))


@given(st.integers(0, 10**6), st.integers(1, 6))
def test_the_largest_value_is_kept_to_the_last_bit(seed: int, count: int) -> None:
    values = game(seed) | {frozenset(NAMES[:count]): 0.95}
    result = shapley(NAMES[:count], lambda members: values[members])
    assert result.value == 0.95


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10**6))
def test_shares_are_the_mean_over_all_orders(seed: int) -> None:
    values = game(seed)
    names = NAMES[:4]
    expected = dict.fromkeys(names, Fraction(0))
    for order in permutations(names):
        for at, name in enumerate(order):
            before = frozenset(order[:at])
            expected[name] += (Fraction(values[before | {name}]) - Fraction(values[before])) / 24
    assert shapley(names, lambda members: values[members]).exact == pytest.approx(tuple(expected.values()), abs=1e-15)


@given(st.integers(0, 10**6))
def test_equal_components_have_equal_shares_and_idle_ones_none(seed: int) -> None:
    values = game(seed)

    def value(members: frozenset[str]) -> float:
        return values[frozenset(NAMES[: len(members & {"a", "b", "c"})])]

    first, second, third, idle = shapley("abcd", value).exact
    assert first == second == third
    assert idle == 0
