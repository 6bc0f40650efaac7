"""SplitMix64 against its published numbers, and one word at a time against many at once."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from hyperscale.training.modelgraph.kernels_numpy import keys
from hyperscale.training.sampling.sampling_draw import key_of
from hyperscale.util.splitmix import GOLDEN, WORD, SplitMix64, mixed, mixed_words

STATES = st.integers(0, WORD)


def test_the_numbers_are_the_published_ones() -> None:
    draws = SplitMix64(1234567)
    assert [draws.next() for _ in range(5)] == [
        6457827717110365317,
        3203168211198807973,
        9817491932198370423,
        4593380528125082431,
        16408922859458223821,
    ]


@given(st.lists(STATES, max_size=20))
def test_many_words_are_mixed_as_each_alone(states: list[int]) -> None:
    assert mixed_words(np.array(states, dtype=np.uint64)).tolist() == [mixed(state) for state in states]


@given(STATES, st.integers(1, 2**31 - 1))
def test_draws_stay_within_their_bounds(seed: int, limit: int) -> None:
    draws = SplitMix64(seed)
    assert 0 <= draws.below(limit) < limit
    assert 0 < draws.unit() <= 1


@given(st.integers(-(2**70), 2**70))
def test_a_seed_counts_by_its_lowest_64_bits(seed: int) -> None:
    assert SplitMix64(seed).next() == SplitMix64(seed & WORD).next()


@settings(max_examples=50)
@given(STATES, st.integers(0, 2**40))
def test_a_rows_key_is_the_number_drawn_at_its_place(seed: int, row: int) -> None:
    """Row 0 has the generator's first number, row 1 its second, and so on, without those between."""
    drawn = SplitMix64(seed + row * GOLDEN).next()
    assert keys(seed, np.array([row], dtype=np.int64)).tolist() == [drawn >> 32]


@given(st.lists(st.integers(0, 2**63), min_size=1, max_size=5))
def test_a_key_of_several_numbers_is_chained_draws(numbers: list[int]) -> None:
    state = 0
    for number in numbers:
        state = SplitMix64(state ^ number).next()
    assert key_of(*numbers) == state
