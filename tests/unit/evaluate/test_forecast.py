"""The forecast of an epoch from finished runs."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from hyperscale.evaluate.forecast.conformal_interval import interval_score, learn_spread, quantile_pairs
from hyperscale.evaluate.forecast.epoch_forecast import forecast, learn_forecaster
from hyperscale.evaluate.forecast.forecast_types import ForecastQuestion, ForecastRun, RunFeatures, question_of
from hyperscale.evaluate.forecast.novelty import NoveltyIndex
from hyperscale.evaluate.forecast.physical_epoch import HostFigures, physical_epoch
from hyperscale.evaluate.forecast.residual_process import learn_residuals
from hyperscale.model.workload import WorkloadProfile

FEATURES = RunFeatures("GCN", "full", "arxiv", "A100", 1e6, 1e7, 128.0, 256.0, 3.0)


def history(count: int = 40, factor: float = 1.5, noise: float = 0.03, seed: int = 0) -> list[ForecastRun]:
    """Runs that take `factor` times their physical seconds, on 1 to 8 ranks."""
    rng = np.random.default_rng(seed)
    runs = []
    for number in range(count):
        ranks = int(rng.choice([1, 2, 4, 8]))
        physical = 16.0 / ranks
        runs.append(ForecastRun(f"run-{number}", FEATURES, ranks, 1, physical * factor * math.exp(rng.normal(0.0, noise)), physical))
    return runs


def test_a_constant_error_of_the_physical_model_is_learnt() -> None:
    answer = forecast(history(), ForecastQuestion(FEATURES, 4, 1, 4.0))
    assert answer.seconds == pytest.approx(6.0, rel=0.03)
    assert answer.low_95 < answer.low_68 < 6.0 < answer.high_68 < answer.high_95
    assert answer.like is not None
    assert answer.widening == 1.0


def test_without_runs_the_physical_model_answers_with_its_widest_range() -> None:
    answer = forecast([], ForecastQuestion(FEATURES, 4, 1, 4.0))
    assert answer.seconds == 4.0
    assert answer.like is None
    assert math.isinf(answer.distance)
    assert answer.high_95 > 2.0 * answer.seconds


def test_an_unlike_run_is_named_as_such_and_has_a_wider_interval() -> None:
    other = replace(FEATURES, architecture="RGAT", dataset="papers", vertices=1e8, edges=3e9, gpu_product="H100")
    forecaster = learn_forecaster(history())
    near, far = (forecaster.ask(ForecastQuestion(features, 4, 1, 4.0)) for features in (FEATURES, other))
    assert far.like is None
    assert any("unlike" in sentence for sentence in far.sources)
    assert far.high_95 / far.low_95 > 4.0 > near.high_95 / near.low_95
    assert far.widening > 1.0


def test_many_questions_are_answered_as_one_by_one() -> None:
    forecaster = learn_forecaster(history())
    questions = [ForecastQuestion(FEATURES, ranks, 1, 16.0 / ranks) for ranks in (1, 2, 8)]
    for one, among in zip(questions, forecaster.ask_all(questions), strict=True):
        alone = forecaster.ask(one)
        assert (alone.seconds, alone.low_95, alone.high_95) == pytest.approx((among.seconds, among.low_95, among.high_95), rel=1e-6)


def test_another_workload_teaches_how_a_new_one_scales() -> None:
    taught = [ForecastRun(f"a{ranks}", FEATURES, ranks, 1, 16.0 / ranks**0.6, 16.0 / ranks) for ranks in (1, 2, 3, 4, 6, 8)]
    taught += [
        replace(run, run=f"b{run.ranks}", features=replace(FEATURES, dataset="b"), measured_seconds=2 * run.measured_seconds)
        for run in taught
    ]
    fresh = replace(FEATURES, dataset="c")
    first = ForecastRun("c1", fresh, 1, 1, 5.0, 16.0)
    question = ForecastQuestion(fresh, 8, 1, 2.0)
    assert forecast([*taught, first], question).seconds == pytest.approx(5.0 / 8**0.6, rel=0.1)
    assert abs(forecast([first], question).seconds / (5.0 / 8**0.6) - 1.0) > 0.2


def test_a_run_left_out_in_closed_form_is_as_forecast_without_it() -> None:
    runs = history(12)
    learned = learn_residuals(runs)
    mean, variance = learned.left_out()
    again = learn_residuals(runs[1:], variances=learned.variances)
    # Standardisation sees the other runs only; features are equal here, so that nothing else differs.
    again_mean, again_variance = again.predict([question_of(runs[0])])
    assert mean[0] == pytest.approx(again_mean[0], abs=2e-3)
    assert variance[0] == pytest.approx(again_variance[0], rel=0.05)


def test_a_group_of_one_left_out_is_the_run_left_out() -> None:
    learned = learn_residuals(history(15))
    mean, variance = learned.left_out()
    group_mean, group_variance = learned.group_left_out(np.array([3]))
    assert (group_mean[0], group_variance[0]) == pytest.approx((mean[3], variance[3]))


def test_the_least_of_many_noisy_predictions_is_corrected_upwards() -> None:
    rng = np.random.default_rng(1)
    guesses = 4.0 * np.exp(rng.normal(0.0, 0.2, 120))
    truths = np.exp(rng.normal(0.0, 0.03, 120)) * 4.0
    pairs = zip(guesses.tolist(), truths.tolist(), strict=True)
    runs = [ForecastRun(f"run-{number}", FEATURES, 4, 1, truth, guess) for number, (guess, truth) in enumerate(pairs)]
    # Placements take 4 s whatever the model says: the least of 50 predictions, about 2.5 s, is an error of the model.
    answer = forecast(runs, ForecastQuestion(FEATURES, 4, 1, 2.5))
    assert answer.seconds == pytest.approx(4.0, rel=0.12)
    assert answer.low_95 < 4.0 < answer.high_95


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"measured_seconds": math.nan}, r"run run-0: measured_seconds: nan is no time"),
        ({"physical_seconds": 0.0}, r"run run-0: physical_seconds: 0\.0 is no time"),
        ({"hosts": 9}, r"run run-0: 9 hosts for"),
        ({"communication_seconds": 1e9}, r"run run-0: communication_seconds: "),
    ],
)
def test_a_figure_that_cannot_be_is_refused_with_its_run(change: dict[str, object], message: str) -> None:
    runs = history(3)
    bad = replace(runs[0], **change)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=message):
        learn_forecaster([bad, *runs[1:]])


def test_the_same_runs_give_the_same_forecast() -> None:
    question = ForecastQuestion(FEATURES, 2, 1, 8.0)
    assert forecast(history(), question) == forecast(history(), question)


def test_an_unknown_figure_is_nearer_than_a_far_one_and_farther_than_an_equal_one() -> None:
    sizes = [1e5, 1e6, 1e7, 1e8, 1e9, 1e4]
    runs = [ForecastRun(f"r{size}", replace(FEATURES, vertices=size), 1, 1, 1.0, 1.0) for size in sizes]
    index = NoveltyIndex(runs)
    unknown = ForecastRun("u", replace(FEATURES, vertices=math.nan), 1, 1, 1.0, 1.0)
    equal, far = index.nearest(runs[0])[0].distance, index.nearest(runs[0], count=6)[-1].distance
    assert equal == 0.0
    assert 0.0 < index.nearest(unknown)[0].distance < far


def test_the_name_of_a_dataset_is_no_distance() -> None:
    index = NoveltyIndex(history(10))
    assert index.nearest(ForecastQuestion(replace(FEATURES, dataset="other"), 4, 1, 4.0))[0].distance == 0.0


def test_an_index_without_runs_says_so() -> None:
    nearest = NoveltyIndex([]).nearest(ForecastQuestion(FEATURES, 1, 1, 1.0))[0]
    assert nearest.index is None
    assert math.isinf(nearest.distance)
    assert nearest.unlike


def test_a_missed_interval_costs_its_width_and_the_miss() -> None:
    score = interval_score(np.array([1.0, 1.0]), np.array([2.0, 2.0]), np.array([1.5, 2.5]), 0.95)
    assert score.tolist() == pytest.approx([1.0, 1.0 + 40.0 * 0.5])


def test_few_errors_never_give_less_than_a_normal_interval() -> None:
    pairs = quantile_pairs(np.array([0.1, -0.1, 0.05]))
    assert pairs[1][1] >= 1.95


def test_a_spread_that_grows_with_a_figure_is_learnt_and_one_that_does_not_is_flat() -> None:
    rng = np.random.default_rng(0)
    figures = rng.normal(size=(400, 3))
    grown = rng.normal(size=400) * np.exp(0.8 * figures[:, 0])
    assert learn_spread(figures, grown).slopes[0] == pytest.approx(0.8, abs=0.2)
    assert np.abs(learn_spread(figures, rng.normal(size=400)).slopes).max() < 0.2


def work(**changes: float) -> WorkloadProfile:
    figures = {"vertices": 1_000_000, "edges": 20_000_000, "epoch_flops": 1e13, "step_overhead_seconds": 1e-3, "gradient_bytes": 1e6}
    rest = {"parameter_bytes": 1e6, "batch_size": None, "exchanges_per_step": 4, "halo_bytes_per_copy": 1024.0, "fetch_bytes_per_step": 0.0}
    memory = {"full_graph_bytes": 1e9, "copy_bytes": 1e3, "step_bytes": 1e6, "train_vertices": None, "random_partition": False}
    return WorkloadProfile(**(figures | rest | memory | changes))  # type: ignore[arg-type]


HOST = HostFigures(1e13, 1e11, 1e9, math.inf)


def test_one_rank_only_computes() -> None:
    parts = physical_epoch(work(), HOST, 1, 1)
    assert parts.communication == 0.0
    assert parts.seconds == pytest.approx(1.0 + 1e-3)


def test_ranks_on_two_hosts_exchange_longer_than_on_one() -> None:
    one, two = (physical_epoch(work(), HOST, 8, hosts) for hosts in (1, 2))
    assert two.communication > 10.0 * one.communication
    assert two.compute == one.compute


def test_more_hosts_than_ranks_are_refused() -> None:
    with pytest.raises(ValueError, match="3 hosts for 2 ranks"):
        physical_epoch(work(), HOST, 2, 3)


@pytest.mark.parametrize("count", [1, 4, 5, 12, 100])
@pytest.mark.parametrize("spread", [0.0, 0.001, 0.05])
def test_a_repeat_of_nearly_equal_runs_is_like_them(count: int, spread: float) -> None:
    chance = np.random.default_rng(count)
    runs = [ForecastRun(f"run-{at}", FEATURES, 2, 1, 1.5, math.exp(chance.normal(0.0, spread))) for at in range(count)]
    index = NoveltyIndex(runs)
    for factor in (0.75, 0.9, 1.0, 1.1, 1.35):
        assert not index.nearest(ForecastQuestion(FEATURES, 2, 1, factor))[0].unlike
    others = [
        ForecastQuestion(replace(FEATURES, gpu_product="H100"), 2, 1, 1.0),
        ForecastQuestion(replace(FEATURES, architecture="GAT"), 2, 1, 1.0),
        ForecastQuestion(FEATURES, 8, 1, 1.0),
        ForecastQuestion(replace(FEATURES, edges=1e8), 2, 1, 1.0),
    ]
    assert all(index.nearest(other)[0].unlike for other in others)


def test_a_repeat_keeps_the_interval_of_its_like() -> None:
    forecaster = learn_forecaster([ForecastRun(f"run-{at}", FEATURES, 2, 1, 1.5 + 0.01 * (at % 3), 1.0 + 1e-4 * at) for at in range(15)])
    answer = forecaster.ask(ForecastQuestion(FEATURES, 2, 1, 1.2))
    assert answer.like is not None
    assert answer.widening == 1.0
    assert answer.high_95 / answer.low_95 < 2.0


@pytest.mark.parametrize("count", [6, 12, 25])
def test_few_runs_make_an_unlike_one_less_sure_and_not_absurd(count: int) -> None:
    runs = [replace(run, ranks=2, hosts=1) for run in history(count)]
    answer = learn_forecaster(runs).ask(ForecastQuestion(replace(FEATURES, architecture="RGAT", edges=1e9), 16, 2, 4.0))
    assert answer.like is None
    assert 2.0 < answer.high_95 / answer.seconds < 7.2
    assert 2.0 < answer.seconds / answer.low_95 < 7.2
    assert answer.low_95 < answer.low_68 < answer.seconds < answer.high_68 < answer.high_95


def test_the_figures_by_which_a_run_differs_are_named_farthest_first() -> None:
    index = NoveltyIndex([replace(run, ranks=2, hosts=1, physical_seconds=4.0) for run in history(12)])
    other = ForecastQuestion(replace(FEATURES, architecture="GAT", vertices=1.5e6), 4, 1, 4.1)
    assert index.differing(other, 0) == ("architecture", "ranks", "vertices")
    assert index.differing(ForecastQuestion(replace(FEATURES, edges=math.nan), 2, 1, 4.0), 0) == ("edges",)
    assert index.differing(ForecastQuestion(FEATURES, 2, 1, 4.0), 0) == ()
