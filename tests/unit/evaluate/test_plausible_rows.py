"""Epochs that one namespace forges do not move the forecasts of the others."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hyperscale.evaluate.calibration.lessons import ForecastRow, Lessons
from hyperscale.evaluate.calibration.plausible_rows import plausible
from tests.unit.control.test_plan_evaluation import KEY, Stage


def rows(namespace: str, *measured_seconds: float) -> list[ForecastRow]:
    """Return runs of which 0.5 s was predicted."""
    return [
        ForecastRow(f"{namespace}/j{place} (u)", "GCN", "H100", 1000, 5000, 8, 16, 2, 1, 1, seconds, 0.5)
        for place, seconds in enumerate(measured_seconds)
    ]


GOOD = rows("good", *[1.0 + 0.01 * (place % 7) for place in range(60)])


@pytest.mark.parametrize("namespace", ["good", "new"])
@pytest.mark.parametrize("forged", [1e-9, 1e7])
def test_forged_epochs_teach_only_their_own_namespace(namespace: str, forged: float) -> None:
    bad = rows("bad", *[forged] * 20)
    lessons = Lessons(tuple(GOOD + bad))
    assert lessons.about({"H100"}, 1.0, namespace).runs == tuple(GOOD)
    assert set(bad) <= set(lessons.about({"H100"}, 1.0, "bad").runs)


def test_a_namespace_with_most_rows_does_not_push_out_what_others_ran() -> None:
    few, flood = rows("good", *[1.0] * 5), rows("bad", *[1e-9] * 100)
    assert plausible(few + flood, "good") == tuple(few)
    third = rows("third", *[1.2] * 5)
    assert plausible(few + third + flood, "new") == tuple(few + third)


def test_lone_runs_of_small_namespaces_do_not_push_out_one_that_ran_many() -> None:
    many = rows("prod", *[1.1] * 100)
    lone = [row for owner in "abc" for row in rows(owner, 40.0)]
    assert plausible(many + lone, "new") == tuple(many)


@pytest.mark.parametrize("own", [1, 4])
@pytest.mark.parametrize("factor", [100.0, 1e4])
def test_runs_of_one_namespace_that_contradict_each_other_do_not_teach_another(own: int, factor: float) -> None:
    few = rows("few", *[0.6] * own)
    wild = rows("bad", *[0.5 * factor ** (1.0 if place % 2 else -1.0) for place in range(100)])
    assert plausible(few + wild, "few") == tuple(few)


def test_two_namespaces_that_agree_are_believed_however_far_the_prediction_is() -> None:
    one, two = rows("one", *[30.0] * 5), rows("two", *[40.0] * 5)
    assert plausible(one + two, "new") == tuple(one + two)


def test_own_runs_all_teach_however_far_apart() -> None:
    own = rows("team", 1e-9, 1.0, 1e7)
    assert plausible(own + GOOD, "team") == tuple(own + GOOD)
    assert plausible(own, "team") == tuple(own)


def test_runs_that_are_spread_over_orders_of_magnitude_all_teach() -> None:
    wide = rows("wide", *[0.5 * 10.0 ** (place % 5 - 2) for place in range(40)])
    assert plausible(wide, "team") == tuple(wide)


@given(st.lists(st.tuples(st.sampled_from("abcd"), st.floats(1e-9, 1e8)), max_size=30), st.sampled_from("abcde"))
def test_what_is_kept_is_in_order_with_all_own_rows(given_rows: list[tuple[str, float]], namespace: str) -> None:
    all_rows = [row for owner, seconds in given_rows for row in rows(owner, seconds)]
    kept = plausible(all_rows, namespace)
    left = iter(all_rows)
    assert all(any(row is other for other in left) for row in kept)
    own = [row for row in all_rows if row.run.startswith(f"{namespace}/")]
    assert [row for row in kept if row.run.startswith(f"{namespace}/")] == own


async def test_the_operator_asks_with_what_the_namespace_of_the_job_may_learn() -> None:
    stage, bad = Stage(), rows("bad", *[1e-9] * 20)
    own = rows(KEY.namespace, *[1.0] * 5)
    stage.context.reader.lessons = Lessons(tuple(own + bad))
    await stage.consider()
    assert stage.answers.asked[0].lessons.runs == tuple(own)
