"""Verdicts on stages hold for whatever errors history has."""

from __future__ import annotations

import math

from hypothesis import given, settings
from hypothesis import strategies as st

from hyperscale.evaluate.calibration.calibration_report import combined
from hyperscale.evaluate.calibration.stage_verdict import CoverageVerdict, judge
from hyperscale.evaluate.calibration.stated_figure import MAX_ERROR, StatedFigure, as_before, error_of, recalibrated
from hyperscale.evaluate.calibration.widening import covering, recalibration
from hyperscale.model.evaluation import Interval, Recalibration

ERRORS = st.lists(st.floats(-MAX_ERROR, MAX_ERROR), max_size=120)
SECONDS = st.floats(1e-3, 1e6)
BY = st.builds(Recalibration, st.just("twin"), st.just(50), st.floats(-3.0, 3.0), st.floats(1.0, 20.0))


@settings(deadline=None)  # the first example imports scipy
@given(ERRORS)
def test_false_only_where_bounds_exclude_the_stated_coverage_or_errors_changed(errors: list[float]) -> None:
    stage = judge("twin", errors)
    coverages = [each for each in (stage.one_sigma, stage.two_sigma) if each is not None]
    for each in coverages:
        assert 0.0 <= each.low <= each.covered / each.runs <= each.high <= 1.0
    excluded = any(each.excluded for each in coverages)
    assert (stage.verdict is CoverageVerdict.FALSE) == (excluded or stage.drift is not None)
    if stage.verdict is CoverageVerdict.TRUE:
        assert all(each.confirmed for each in coverages)


@settings(deadline=None)  # the first example imports scipy
@given(ERRORS, st.integers(0, 50))
def test_the_report_is_one_bounded_line_that_names_the_runs(errors: list[float], planned: int) -> None:
    report = combined({name: each for name, each in {"plan": [0.0] * planned, "twin": errors}.items() if each})
    assert "\n" not in report.message
    assert 0 < len(report.message) <= 1024
    assert report.runs == max(len(errors), planned)


@given(st.lists(st.floats(-MAX_ERROR, MAX_ERROR), min_size=1, max_size=60), st.floats(0.05, 0.95), st.floats(0.05, 0.95))
def test_more_coverage_needs_no_less_widening(errors: list[float], one: float, other: float) -> None:
    assert covering(errors, min(one, other)) <= covering(errors, max(one, other))


@given(ERRORS)
def test_a_recalibration_is_finite_and_never_narrows(errors: list[float]) -> None:
    by = recalibration("twin", errors)
    assert (by is None) == (len(errors) < 20)
    if by is not None:
        assert math.isfinite(by.shift)
        assert by.widening >= 1.0


@given(SECONDS, st.floats(1.0, 50.0), st.floats(1.0, 50.0), SECONDS, BY)
def test_a_recalibrated_interval_gives_the_error_less_the_shift_and_back(
    middle: float, below: float, above: float, outcome: float, by: Recalibration
) -> None:
    before = Interval(middle, middle / below, middle * above)
    after = recalibrated(before, by)
    assert after.low <= after.middle <= after.high
    back = as_before(StatedFigure(after.middle, after.low, after.high, outcome), by)
    assert math.isclose(back.middle, middle, rel_tol=1e-6)
    plain, error = error_of(StatedFigure(middle, before.low, before.high, outcome)), error_of(back)
    assert plain is not None
    assert error is not None
    assert math.isclose(plain, error, rel_tol=1e-3, abs_tol=1e-2) or min(below, above) < 1.01
