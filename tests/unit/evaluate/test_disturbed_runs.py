"""Runs that something unseen slowed are told from the others, and do not blur what those teach."""

from __future__ import annotations

import math
import re
from dataclasses import replace

import numpy as np
import pytest

from hyperscale.evaluate.forecast.disturbed_runs import MIN_RUNS, find_disturbance, fold_errors, is_confirmed
from hyperscale.evaluate.forecast.epoch_forecast import learn_forecaster
from hyperscale.evaluate.forecast.forecast_types import ForecastQuestion, ForecastRun, RunFeatures
from hyperscale.model.graph import BoolArray, FloatArray

FEATURES = RunFeatures("GCN", "full", "arxiv", "A100", 1e6, 1e7, 128.0, 256.0, 3.0)


def errors(count: int, share: float = 0.25, shift: float = 0.3, seed: int = 0) -> tuple[FloatArray, BoolArray]:
    """Errors of which a share is slower, and which these are."""
    rng = np.random.default_rng(seed)
    slowed = rng.uniform(size=count) < share
    return shift * slowed + rng.normal(0.0, 0.04, count), slowed


def test_slowed_runs_are_found_one_by_one() -> None:
    values, slowed = errors(300)
    found = find_disturbance(values, np.zeros(300))
    assert found is not None
    assert found.share == pytest.approx(slowed.mean(), abs=0.02)
    assert found.shift == pytest.approx(0.3, abs=0.02)
    assert ((found.offsets > 0.15) == slowed).all()
    assert (found.doubts >= 0.0).all()


def test_a_run_between_the_two_kinds_is_doubted_most() -> None:
    values, _ = errors(300)
    values[0] = 0.15
    found = find_disturbance(values, np.zeros(300))
    assert found is not None
    assert int(found.doubts.argmax()) == 0


def confirmed(values: FloatArray) -> bool:
    process = np.full(len(values), 1e-4)
    return find_disturbance(values, process) is not None and is_confirmed(values, process)


def test_two_kinds_are_confirmed_however_wild_a_few_runs_are() -> None:
    values, _ = errors(300)
    assert confirmed(values)
    for wild in (1.0, 2.3, 4.6):
        values[100:103] += wild
        assert confirmed(values)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("drawn", ["normal", "heavy tails", "uneven", "exponential", "gamma", "lognormal", "uniform", "trend"])
def test_one_kind_of_runs_is_left_as_it_is(drawn: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    values = {
        "normal": rng.normal(0.0, 0.1, 400),
        "heavy tails": 0.1 * rng.standard_t(3.0, 400),
        "uneven": rng.normal(0.0, 0.05, 400) * np.exp(0.6 * rng.normal(size=400)),
        "exponential": rng.exponential(0.06, 400),
        "gamma": rng.gamma(2.0, 0.04, 400),
        "lognormal": rng.lognormal(-3.0, 0.6, 400),
        "uniform": rng.uniform(0.0, 0.3, 400),
        "trend": np.linspace(0.0, 0.4, 400) + rng.normal(0.0, 0.02, 400),
    }[drawn]
    assert not confirmed(values)


@pytest.mark.parametrize("first", [0, 100, 300])
def test_slow_runs_that_follow_each_other_are_no_disturbance(first: int) -> None:
    values, slowed = errors(400)
    values -= 0.3 * slowed
    values[first : first + 100] += 0.3
    assert find_disturbance(values, np.zeros(400)) is not None
    assert not confirmed(values)


@pytest.mark.parametrize("values", [[0.0] * 100, [0.1, -0.1] * 50, [0.0] * 99 + [5.0], [1e3, -1e3] * 40])
def test_equal_and_lonely_errors_are_no_disturbance(values: list[float]) -> None:
    found = find_disturbance(np.array(values), np.zeros(len(values)))
    assert found is None or 0.05 <= found.share <= 0.5


def test_faster_runs_are_no_disturbance() -> None:
    assert find_disturbance(errors(300, shift=-0.3)[0], np.zeros(300)) is None


def history(count: int, seed: int, shift: float = 0.3) -> list[ForecastRun]:
    values, _ = errors(count, shift=shift, seed=seed)
    ranks = np.random.default_rng([seed, 1]).choice([1, 2, 4, 8], count).tolist()
    return [
        ForecastRun(f"run-{number}", FEATURES, rank, 1, 24.0 / rank * math.exp(value), 16.0 / rank)
        for number, (rank, value) in enumerate(zip(ranks, values.tolist(), strict=True))
    ]


def test_the_forecast_says_what_slowed_runs_cost_and_covers_them() -> None:
    forecaster = learn_forecaster(history(MIN_RUNS, 0))
    answer = forecaster.ask(ForecastQuestion(FEATURES, 4, 1, 4.0))
    told = re.search(r"Of the finished runs, (\d+)% took (\d+)% longer than their like; no figure says why\.", " ".join(answer.sources))
    assert told
    assert int(told[1]) == pytest.approx(25, abs=4)
    assert int(told[2]) == pytest.approx(35, abs=3)
    assert answer.seconds == pytest.approx(6.0, rel=0.05)  # as most runs
    asked = [run.measured_seconds * run.ranks / 4 for run in history(400, 7)]
    held = np.mean([answer.low_95 <= seconds <= answer.high_95 for seconds in asked])
    assert 0.92 <= held <= 0.98


@pytest.mark.parametrize(("count", "shift"), [(MIN_RUNS, 0.0), (MIN_RUNS - 1, 0.3)])
def test_few_runs_and_runs_of_one_kind_say_nothing_of_slowed_ones(count: int, shift: float) -> None:
    answer = learn_forecaster(history(count, 0, shift)).ask(ForecastQuestion(FEATURES, 4, 1, 4.0))
    assert not any("longer than their like" in sentence for sentence in answer.sources)


def test_a_change_that_stays_leaves_the_forecast_as_it_was_without_kinds() -> None:
    runs = history(MIN_RUNS, 0, shift=0.0)
    later = [replace(run, measured_seconds=1.35 * run.measured_seconds) for run in runs[180:]]
    learned = learn_forecaster([*runs[:180], *later]).learned
    assert learned.disturbance.share == 0.0


def test_errors_of_folds_are_the_same_for_the_same_seed() -> None:
    values, _ = errors(120)
    prior, noise = 0.5 * np.ones((120, 120)), np.full(120, 0.002)
    (first, variances), (again, _), (other, _) = (fold_errors(values, prior, noise, seed) for seed in (3, 3, 4))
    assert (first == again).all()
    assert (variances > 0.0).all()
    assert np.allclose(first, other, rtol=0.2, atol=0.02)
