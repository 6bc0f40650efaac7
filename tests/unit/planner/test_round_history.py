"""Work left of a job, by what ended jobs of its kind had done."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hyperscale.planner.rounds.round_history import expected_left


def test_without_history_it_grows_with_the_work_done() -> None:
    assert expected_left((), 0.0, 900.0, 0.5) == pytest.approx(900.0)
    assert expected_left((), 1000.0, 900.0, 0.5) == pytest.approx(1400.0)


def test_many_ended_jobs_say_how_long_the_next_one_takes() -> None:
    assert expected_left([10_000.0] * 50, 0.0, 900.0, 0.5) == pytest.approx(10_000.0, rel=0.05)
    assert expected_left([10_000.0] * 50, 6000.0, 900.0, 0.5) == pytest.approx(4000.0, rel=0.05)


def test_an_ended_job_that_was_shorter_counts_no_more() -> None:
    mixed = expected_left([1000.0] * 9 + [10_000.0], 5000.0, 900.0, 0.5)
    assert mixed == pytest.approx(expected_left([10_000.0], 5000.0, 900.0, 0.5))


def test_a_job_far_beyond_all_of_its_kind_is_as_if_there_were_none() -> None:
    assert expected_left([1000.0] * 9, 50_000.0, 900.0, 0.5) == pytest.approx(25_900.0)


@example([1e12], 5e-324, 1.0, 0.5)
@example([], 6091839.0, 1.0, 0.015625)
@given(
    st.lists(st.floats(1e-3, 1e12), max_size=6),
    st.floats(0.0, 1e12),
    st.floats(1e-3, 1e9),
    st.floats(0.01, 10.0),
)
def test_it_is_finite_and_never_below_zero(ended: list[float], attained: float, prior: float, growth: float) -> None:
    left = expected_left(ended, attained, prior, growth)
    assert 0.0 <= left < float("inf")
