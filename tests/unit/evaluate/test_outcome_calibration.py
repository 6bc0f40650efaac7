"""Scores become probabilities of an outcome: exact posteriors, better than the base rate on held-out runs, shares of their own."""

from __future__ import annotations

import math

import numpy as np
import pytest

from hyperscale.evaluate.score import outcome_calibration as calibration
from hyperscale.evaluate.score.shapley import shapley
from hyperscale.model.graph import FloatArray

NAMES = ("proof", "forecast", "risk")
WEIGHTS = (0.2, 0.3, 0.5)
OUTCOME = "ended in time"


def runs(count: int, seed: int, intercept: float = -0.5, slope: float = 2.0) -> tuple[FloatArray, list[bool]]:
    """Scores of three stages, and outcomes that follow the model."""
    chance = np.random.default_rng(seed)
    scores = chance.beta(2.0, 2.0, (count, 3))
    odds = intercept + slope * calibration.fused_log_odds(scores, WEIGHTS)
    return scores, [bool(each) for each in chance.random(count) < 1.0 / (1.0 + np.exp(-odds))]


def test_the_posterior_mean_is_that_of_a_fine_grid() -> None:
    scores, outcomes = runs(25, 1)
    fused, happened = calibration.fused_log_odds(scores, WEIGHTS), np.array(outcomes, dtype=float)
    a, b = np.meshgrid(np.linspace(-6.0, 6.0, 241), np.linspace(-4.0, 7.0, 221), indexing="ij")
    odds = a[..., None] + b[..., None] * fused
    logarithms = (happened * odds - np.logaddexp(0.0, odds)).sum(axis=-1) - 0.5 * ((a / 1.5) ** 2 + (b - 1.0) ** 2)
    masses = np.exp(logarithms - logarithms.max())
    masses /= masses.sum()
    fitted = calibration.calibrate_outcome(OUTCOME, scores, outcomes, WEIGHTS)
    assert fitted.mean() == pytest.approx((float((masses * a).sum()), float((masses * b).sum())), abs=1e-4)
    new = np.array([[0.9, 0.8, 0.3]])
    x = calibration.fused_log_odds(new, WEIGHTS)[0]
    assert fitted.probability(new)[0] == pytest.approx(float((masses / (1.0 + np.exp(-a - b * x))).sum()), abs=1e-4)


def test_many_runs_teach_the_true_line_and_beat_the_base_rate_on_held_out_runs() -> None:
    scores, outcomes = runs(600, 2)
    fitted = calibration.calibrate_outcome(OUTCOME, scores, outcomes, WEIGHTS)
    assert fitted.mean() == pytest.approx((-0.5, 2.0), abs=0.5)
    judged = calibration.judge_held_out(OUTCOME, scores, outcomes, WEIGHTS)
    assert judged.brier < judged.score_brier < judged.base_brier
    assert judged.skill > 0.15
    assert judged == calibration.judge_held_out(OUTCOME, scores, outcomes, WEIGHTS)


def test_probabilities_are_true_on_average_for_new_runs() -> None:
    scores, outcomes = runs(400, 3)
    fitted = calibration.calibrate_outcome(OUTCOME, scores, outcomes, WEIGHTS)
    new, happened = runs(4000, 4)
    chances = fitted.probability(new)
    for low in (0.0, 0.25, 0.5, 0.75):
        inside = (chances >= low) & (chances < low + 0.25)
        assert float(chances[inside].mean()) == pytest.approx(float(np.array(happened)[inside].mean()), abs=0.07)


def test_scores_that_tell_nothing_have_no_skill() -> None:
    scores, _ = runs(300, 5)
    outcomes = [bool(each) for each in np.random.default_rng(6).random(300) < 0.7]
    judged = calibration.judge_held_out(OUTCOME, scores, outcomes, WEIGHTS)
    assert judged.skill < 0.02
    assert judged.brier < judged.score_brier


def test_without_runs_the_prior_answers_and_a_few_equal_runs_make_nothing_certain() -> None:
    none = calibration.calibrate_outcome(OUTCOME, np.zeros((0, 3)), [], WEIGHTS)
    assert none.mean() == pytest.approx((0.0, 1.0), abs=1e-9)
    assert none.probability(np.full((1, 3), 0.5))[0] == pytest.approx(0.5)
    sure = calibration.calibrate_outcome(OUTCOME, np.full((5, 3), 0.9), [True] * 5, WEIGHTS)
    assert 0.9 < sure.probability(np.full((1, 3), 0.9))[0] < 0.99


def test_a_stage_without_a_verdict_leaves_its_weight_to_the_others() -> None:
    fused = calibration.fused_log_odds(np.array([[math.nan, 0.6, 0.8], [math.nan] * 3, [0.0, 1.0, 0.5]]), WEIGHTS)
    expected = (0.3 * math.log(1.5) + 0.5 * math.log(4.0)) / 0.8
    assert fused[0] == pytest.approx(expected)
    assert fused[1] == 0.0
    assert np.isfinite(fused).all()


def test_shares_come_from_fits_on_subsets_and_not_from_the_weights() -> None:
    chance = np.random.default_rng(7)
    scores = chance.beta(2.0, 2.0, (400, 3))
    odds = 3.0 * calibration.fused_log_odds(scores[:, :1], (1.0,))  # the lightest stage alone tells the outcome
    outcomes = [bool(each) for each in chance.random(400) < 1.0 / (1.0 + np.exp(-odds))]
    weights = dict(zip(NAMES, WEIGHTS, strict=True))
    job = {"proof": 0.9, "forecast": 0.9, "risk": 0.9}
    value = calibration.subset_value(OUTCOME, NAMES, (scores, outcomes), weights, job)
    result = shapley(NAMES, value)
    assert math.fsum((result.empty, *result.shares)) == result.value
    assert result.value == pytest.approx(value(frozenset(NAMES)), abs=1e-15)
    assert result.shares[0] > 2.0 * max(result.shares[1:])
    assert result.empty == pytest.approx(np.mean(outcomes), abs=0.01)


@pytest.mark.parametrize(
    ("scores", "weights", "says"),
    [
        ([[0.5, 0.5]], (1.0,), "one column for each stage"),
        ([[0.5]], (0.0,), "give positive ones"),
        ([[1.5]], (1.0,), "outside 0..1"),
        ([0.5], (1.0,), "one column for each stage"),
    ],
)
def test_scores_and_weights_that_do_not_fit_are_refused(scores: list[list[float]], weights: tuple[float, ...], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        calibration.fused_log_odds(np.array(scores), weights)
    with pytest.raises(ValueError, match="one for each run"):
        calibration.calibrate_outcome(OUTCOME, np.full((2, 1), 0.5), [True], (1.0,))
    with pytest.raises(ValueError, match="a run for each"):
        calibration.judge_held_out(OUTCOME, np.full((2, 1), 0.5), [True, False], (1.0,), folds=5)
