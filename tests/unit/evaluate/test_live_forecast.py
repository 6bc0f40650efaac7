"""The benchmark of live forecasts asks before it measures, and says what it saw."""

from __future__ import annotations

import pytest

from benchmarks.live_forecast import Live, Size, cases, live, question, rows_of, simulated
from hyperscale.evaluate.forecast.epoch_forecast import forecast


def test_the_sixth_run_is_forecast_from_five_before_it_is_measured() -> None:
    trained: list[Size] = []

    def measure(size: Size) -> float:
        trained.append(size)
        return 3.0 * question(size).physical_seconds * (1.0 + 0.01 * len(trained))

    for case in cases(1000, two_ranks=True):
        trained.clear()
        one = live(case, measure, 0)
        assert sorted(trained[:5], key=lambda size: size.vertices) == sorted(case.given, key=lambda size: size.vertices)
        assert trained[5:] == [case.asked] * 3
        assert one.answer.seconds == pytest.approx(one.seconds, rel=0.15)
        assert one.answer.low_95 < one.answer.seconds < one.answer.high_95


def test_five_runs_that_repeat_within_a_few_per_cent_teach_the_sixth() -> None:
    rows = rows_of([(seed, live(case, simulated(0.03, seed), seed)) for seed in range(5) for case in cases(4000, two_ranks=True)])
    assert [row.holds for row in rows if row.metric == "goal"] == [True]


def test_a_larger_job_and_fewer_ranks_are_physically_slower() -> None:
    assert question(Size(2000)).physical_seconds > question(Size(1000)).physical_seconds
    assert question(Size(20_000)).physical_seconds > question(Size(20_000, 2)).physical_seconds


def test_the_goal_is_of_the_median_error_and_the_spread_is_printed() -> None:
    (case, *_) = cases(1000, two_ranks=False)
    answer = forecast([], question(case.asked))
    rounds = [
        (seed, Live(case.name, answer, [answer.seconds * factor] * 3, {"physical alone": 1.0})) for seed, factor in enumerate((1, 2, 1))
    ]
    rows = rows_of(rounds)
    (goal,) = [row for row in rows if row.metric == "goal"]
    assert goal.value == pytest.approx(0.0)
    assert (goal.limit, goal.holds) == (10.0, True)
    assert [row.value for row in rows if row.metric == "spread"] == [0.0, 0.0, 0.0]
