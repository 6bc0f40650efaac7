"""The token bucket against its definition: no interval grants more than the capacity and the rate allow."""

from __future__ import annotations

import math

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from hyperscale.util.token_bucket import TokenBucket

RATES = st.floats(1e-3, 1e6)
CAPACITIES = st.floats(1, 1e6)


@settings(max_examples=50, deadline=None)
@given(RATES, CAPACITIES, st.lists(st.tuples(st.floats(0, 10), st.floats(0, 1e6), st.floats(0, 1e3)), max_size=60))
def test_no_interval_grants_more_than_the_capacity_and_the_rate(
    rate: float, capacity: float, steps: list[tuple[float, float, float]]
) -> None:
    bucket, now, granted = TokenBucket(rate, capacity, 0.0), 0.0, []
    for wait, count, reserve in steps:
        now += wait
        if bucket.take(count, now, reserve):
            granted.append((now, count))
        assert 0 <= bucket.left(now) <= capacity
    for at, (begin, _) in enumerate(granted):
        for end in range(at, len(granted)):
            spent = sum(count for _, count in granted[at : end + 1])
            assert spent <= (capacity + rate * (granted[end][0] - begin)) * (1 + 1e-9) + 1e-6


@settings(max_examples=50, deadline=None)
@given(RATES, CAPACITIES, st.floats(0, 1), st.floats(0, 1), st.floats(0, 1))
@example(rate=1.0, capacity=579852.1095928642, spent=0.0, wanted=1.0, reserved=0.24174397381686547)
@example(rate=1.0, capacity=1.0, spent=0.0, wanted=1.0, reserved=0.24174397381686547)
def test_tokens_are_granted_when_the_stated_wait_is_over(
    rate: float, capacity: float, spent: float, wanted: float, reserved: float
) -> None:
    bucket = TokenBucket(rate, capacity, 0.0)
    assert bucket.take(spent * capacity, 0.0)
    count, reserve = wanted * capacity * (1 - reserved), reserved * capacity
    wait = bucket.seconds_until(count, 0.0, reserve)
    if count + reserve > capacity:  # By rounding: a little more than all is more than the bucket ever holds.
        assert wait == math.inf
        assert not bucket.take(count, 1e3 * capacity / rate, reserve)
        return
    assert 0 <= wait <= capacity / rate * (1 + 1e-9)
    assert bucket.left(wait) >= (count + reserve) * (1 - 1e-9)
    assert bucket.take(count, wait + 1e-6 * capacity / rate, reserve)


@settings(max_examples=50, deadline=None)
@given(RATES, CAPACITIES, st.lists(st.floats(-1e4, 1e4), max_size=30), st.floats(0, 1e6))
def test_a_clock_that_goes_backwards_grants_nothing_and_does_not_stop_the_filling(
    rate: float, capacity: float, jumps: list[float], returned: float
) -> None:
    bucket, now = TokenBucket(rate, capacity, 0.0), 0.0
    assert bucket.take(capacity, now)
    for jump in jumps:
        left, now = bucket.left(now), now + jump
        assert math.isclose(bucket.left(now), min(capacity, left + max(0.0, jump) * rate), rel_tol=1e-6, abs_tol=1e-6 * capacity)
    bucket.give_back(returned)
    assert bucket.left(now) <= capacity


def test_a_bucket_is_never_overdrawn_and_fills_with_time() -> None:
    bucket = TokenBucket(100.0, 300.0, now=0.0)
    assert bucket.take(300.0, 0.0)
    assert not bucket.take(1.0, 0.0)
    assert bucket.seconds_until(100.0, 0.0) == 1.0
    assert not bucket.take(60.0, 1.0, reserve=50.0)
    assert bucket.take(50.0, 1.0, reserve=50.0)
    assert bucket.seconds_until(301.0, 1.0) == float("inf")
    assert bucket.left(-5.0) == 50.0


def test_an_unused_bucket_does_not_grow_beyond_its_capacity() -> None:
    bucket = TokenBucket(1.0 / 60.0, 3, 0.0)
    assert [bucket.take(1, 1e6) for _ in range(4)] == [True, True, True, False]
    assert not bucket.take(1, 1e6 + 59)
    assert bucket.take(1, 1e6 + 61)


@pytest.mark.parametrize(("rate", "capacity"), [(0.0, 1.0), (1.0, 0.0), (-1.0, 1.0), (float("nan"), 1.0)])
def test_a_rate_or_capacity_that_is_not_above_0_is_refused(rate: float, capacity: float) -> None:
    with pytest.raises(ValueError, match="rate and capacity must be above 0"):
        TokenBucket(rate, capacity, 0.0)
