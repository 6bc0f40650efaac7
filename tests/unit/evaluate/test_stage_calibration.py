"""Stages are judged by exact bounds of what their intervals covered, and widened until they cover it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from hyperscale.evaluate.calibration.calibration_report import NO_RUNS, combined, report_of
from hyperscale.evaluate.calibration.past_run import FORECAST, TWIN, PastRun, errors_of, learned_recalibration
from hyperscale.evaluate.calibration.stage_verdict import LOOKS, CoverageVerdict, VerdictReason, drift_of, judge
from hyperscale.evaluate.calibration.stated_figure import MAX_ERROR, StatedFigure, as_before, error_of, recalibrated
from hyperscale.evaluate.calibration.widening import MIN_RUNS, ONE_SIGMA, covering, recalibration, two_sided
from hyperscale.evaluate.statistics.binomial import clopper_pearson
from hyperscale.model.evaluation import EvaluationStatus, Interval, Recalibration, StageState, StageSummary


def normal(count: int, seed: int = 1, scale: float = 1.0, shift: float = 0.0) -> list[float]:
    return [shift + scale * float(error) for error in np.random.default_rng(seed).normal(size=count)]


def past(outcome: float | None, *, seconds: float = 10.0, **fields: Any) -> PastRun:
    interval = Interval(seconds, seconds / 2.0, seconds * 2.0)
    predicted = EvaluationStatus("0" * 16, (StageSummary("twin", StageState.PASSED, 1.0),), epoch_seconds=interval, end_seconds=interval)
    return PastRun(predicted, **({"epoch_seconds": outcome, "run_seconds": outcome} | fields))


def test_an_error_is_in_the_deviations_of_its_own_side() -> None:
    stated = StatedFigure(10.0, 5.0, 40.0, 40.0)
    assert error_of(stated) == pytest.approx(1.959964)
    assert error_of(stated._replace(outcome=5.0)) == pytest.approx(-1.959964)
    assert error_of(stated._replace(outcome=10.0)) == 0.0


@pytest.mark.parametrize("wrong", [math.nan, math.inf, 0.0, -1.0])
@pytest.mark.parametrize("field", ["middle", "low", "high", "outcome"])
def test_a_figure_that_is_none_is_no_error_of_zero(field: str, wrong: float) -> None:
    figures = {"middle": 10.0, "low": 5.0, "high": 40.0, "outcome": 20.0} | {field: wrong}
    assert error_of(StatedFigure(figures["middle"], figures["low"], figures["high"], figures["outcome"])) is None
    assert error_of(StatedFigure(1.0, 2.0, 3.0, 2.0)) is None


def test_a_run_that_was_cut_off_counts_only_once_it_has_passed_the_bound() -> None:
    stated = StatedFigure(10.0, 5.0, 20.0, 15.0, at_least=True)
    assert error_of(stated) is None
    late = error_of(stated._replace(outcome=30.0))
    assert late is not None
    assert late > 1.96


def test_what_was_applied_to_an_interval_can_be_taken_back() -> None:
    by, before = Recalibration("twin", 40, 0.7, 2.5), Interval(10.0, 4.0, 50.0)
    after = recalibrated(before, by)
    assert after.middle > before.middle
    assert math.log(after.high / after.middle) == pytest.approx(2.5 * math.log(5.0))
    back = as_before(StatedFigure(after.middle, after.low, after.high, 1.0), by)
    assert back[:3] == pytest.approx((10.0, 4.0, 50.0))


@pytest.mark.parametrize("count", [1, 19, 20, 100, 400])
def test_the_widening_covers_as_many_runs_as_one_deviation_says(count: int) -> None:
    errors = normal(count, scale=3.0)
    factor = covering(errors)
    covered = sum(abs(error) <= factor for error in errors)
    assert covered >= min(count, math.ceil(ONE_SIGMA * (count + 1)))
    assert sum(abs(error) < factor for error in errors) < math.ceil(ONE_SIGMA * (count + 1))


def test_intervals_are_never_narrowed_by_past_runs() -> None:
    assert covering(normal(200, scale=0.1)) == 1.0
    with pytest.raises(ValueError, match="at least one"):
        covering([])


def test_few_runs_teach_no_recalibration_and_a_shift_needs_an_exact_test() -> None:
    assert recalibration("twin", normal(MIN_RUNS - 1)) is None
    true, late = recalibration("twin", normal(100)), recalibration("twin", normal(100, shift=1.5))
    assert true is not None
    assert late is not None
    assert true.shift == 0.0
    assert late.shift == pytest.approx(1.5, abs=0.4)
    assert late.widening == pytest.approx(1.0, abs=0.35)


def test_after_a_drift_only_recent_runs_count() -> None:
    errors = [*normal(100), *normal(40, shift=5.0)]
    recent = recalibration("twin", errors, drifting=True)
    assert recent is not None
    assert (recent.runs, round(recent.shift)) == (40, 5)


def test_the_sign_test_is_the_binomials() -> None:
    assert two_sided(0, 5, 0.5) == 2.0 / 32.0
    assert two_sided(3, 5, 0.5) == 1.0


def test_few_runs_leave_it_unknown_and_say_how_many() -> None:
    report = combined({"twin": normal(LOOKS[0] - 1)})
    assert (report.verdict, report.reason) == (CoverageVerdict.UNKNOWN, "TooFewRuns")
    assert report.message == "Unknown (19 runs): twin: 19 runs are too few to judge"
    assert combined({}).reason == NO_RUNS


def test_true_intervals_become_true_and_only_when_the_bounds_are_close_enough() -> None:
    verdicts = [judge("twin", normal(count, seed=3)).verdict for count in LOOKS]
    assert verdicts[0] is CoverageVerdict.UNKNOWN
    assert verdicts[-1] is CoverageVerdict.TRUE
    assert CoverageVerdict.FALSE not in verdicts


def test_false_means_that_the_bounds_exclude_the_stated_coverage() -> None:
    for seed in range(20):
        for scale in (0.4, 1.0, 2.0):
            stage = judge("twin", normal(80, seed, scale))
            one, two = stage.one_sigma, stage.two_sigma
            assert one is not None
            assert two is not None
            outside = any(not each.low <= each.stated <= each.high for each in (one, two))
            assert (stage.verdict is CoverageVerdict.FALSE) == (outside or stage.drift is not None)
            bounds = clopper_pearson(one.covered, 80)
            assert one.low <= bounds.low <= bounds.high <= one.high, "a look is stricter than a single test"


def test_intervals_that_are_too_narrow_are_not_trusted_and_too_wide_ones_are() -> None:
    narrow, wide = judge("twin", normal(113, scale=2.5)), judge("twin", normal(113, scale=0.3))
    assert (narrow.verdict, narrow.reason, narrow.trusted) == (CoverageVerdict.FALSE, VerdictReason.TOO_NARROW, False)
    assert (wide.verdict, wide.reason, wide.trusted) == (CoverageVerdict.FALSE, VerdictReason.TOO_WIDE, True)


def test_runs_between_two_looks_change_no_verdict() -> None:
    errors = normal(113, scale=2.5)
    assert judge("twin", errors[:27]).judged == 20
    assert judge("twin", errors[:27]).one_sigma == judge("twin", errors[:20]).one_sigma


def test_what_has_been_put_right_is_forgiven_after_enough_runs() -> None:
    narrow, right = normal(80, scale=3.0), normal(420, seed=3)
    assert judge("twin", narrow).reason is VerdictReason.TOO_NARROW
    assert judge("twin", [*narrow, *right]).judged == 320
    assert judge("twin", [*narrow, *right]).verdict is not CoverageVerdict.FALSE


def test_a_change_of_recent_runs_is_drift_and_its_absence_is_none() -> None:
    assert drift_of(normal(160), 0.02) is None
    moved = drift_of([*normal(107), *normal(53, seed=2, shift=2.0)], 0.001)
    assert moved == pytest.approx(2.0, abs=0.5)
    assert drift_of([*normal(107), *normal(53, seed=2, scale=8.0)], 0.001) is not None
    assert drift_of([1.0, 2.0], 0.02) is None


def test_one_stage_that_is_wrong_makes_the_whole_false() -> None:
    report = combined({"forecast": normal(400, seed=3), "twin": normal(400, scale=2.0)})
    assert (report.verdict, report.reason) == (CoverageVerdict.FALSE, "TooNarrow")
    assert report.message.startswith("twin: its intervals are too narrow, ")
    assert "true share" in report.message


def test_each_stage_is_scored_by_its_own_outcome() -> None:
    runs = [past(20.0), past(None), past(20.0, run_seconds=None), past(5.0, succeeded=False)]
    assert len(errors_of(runs, FORECAST)) == 3
    assert len(errors_of(runs, TWIN)) == 1
    assert {stage.stage for stage in report_of(runs, [0.0]).stages} == {"plan", "forecast", "twin"}


def test_what_was_applied_before_does_not_teach_twice() -> None:
    raw = Interval(10.0, 8.0, 12.5)
    by = Recalibration(FORECAST, 50, 0.0, 3.0)
    wide = recalibrated(raw, by)
    outcomes = [10.0 * math.exp(0.3 * error) for error in normal(60)]
    plain = [PastRun(EvaluationStatus("0", epoch_seconds=raw), epoch_seconds=each) for each in outcomes]
    applied = [PastRun(EvaluationStatus("0", epoch_seconds=wide, recalibrations=(by,)), epoch_seconds=each) for each in outcomes]
    first, second = (learned_recalibration(each, FORECAST, from_runs=False) for each in (plain, applied))
    assert first is not None
    assert second is not None
    assert first.widening == pytest.approx(second.widening, rel=1e-5)
    assert learned_recalibration(plain, FORECAST, from_runs=True) is None


@pytest.mark.parametrize("shift", [-1e6, 0.0, 1e6, 1e308])
def test_a_statement_that_no_stage_makes_is_judged_without_an_error(shift: float) -> None:
    """Statuses hold statements; who may write one must not end what is learned from all others."""
    absurd = StatedFigure(1e200, 1e-200, 1e201, 1e-300)
    by = Recalibration("forecast", 20, shift=shift, widening=1e6)
    for stated in (absurd, as_before(absurd, by)):
        error = error_of(stated)
        assert error is None or abs(error) <= MAX_ERROR
    moved = recalibrated(Interval(1e200, 1e-200, 1e201), by)
    assert all(math.isfinite(figure) for figure in (moved.middle, moved.low, moved.high))
