"""What holds for any history of the forecast."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from hyperscale.evaluate.forecast.conformal_interval import quantile_pairs
from hyperscale.evaluate.forecast.epoch_forecast import forecast
from hyperscale.evaluate.forecast.forecast_types import ForecastQuestion, ForecastRun, RunFeatures
from hyperscale.evaluate.forecast.novelty import NoveltyIndex

FIGURE = st.one_of(st.just(math.nan), st.floats(1.0, 1e9))
FEATURES = st.builds(
    RunFeatures,
    architecture=st.sampled_from(["GCN", "GAT"]),
    system=st.sampled_from(["", "DGL"]),
    dataset=st.sampled_from(["a", "b"]),
    vertices=FIGURE,
    edges=FIGURE,
    fanout=FIGURE,
)
SECONDS = st.floats(1e-3, 1e5)
RUNS = st.lists(st.builds(ForecastRun, st.just("r"), FEATURES, st.integers(4, 64), st.integers(1, 4), SECONDS, SECONDS), max_size=8)
QUESTIONS = st.builds(ForecastQuestion, FEATURES, st.integers(4, 64), st.integers(1, 4), SECONDS)


@settings(max_examples=25, deadline=None)
@given(RUNS, QUESTIONS)
def test_intervals_are_nested_around_the_forecast_and_finite(runs: list[ForecastRun], question: ForecastQuestion) -> None:
    one = forecast(runs, question)
    assert 0.0 < one.low_95 <= one.low_68 <= one.seconds <= one.high_68 <= one.high_95 < math.inf


@settings(max_examples=50, deadline=None)
@given(st.lists(st.floats(-10.0, 10.0), min_size=1, max_size=300))
def test_an_interval_holds_at_least_its_level_of_the_errors_behind_it(errors: list[float]) -> None:
    values = np.array(errors)
    for (low, high), level in zip(quantile_pairs(values), (0.68, 0.95), strict=True):
        assert ((low <= values) & (values <= high)).mean() >= level - 1e-9


@settings(max_examples=30, deadline=None)
@given(RUNS)
def test_distances_are_symmetric_and_zero_to_oneself(runs: list[ForecastRun]) -> None:
    between = NoveltyIndex(runs).between()
    assert np.allclose(between, between.T)
    assert (np.diag(between) == 0.0).all()
