"""Decisions on top of futures: exact bounds, closed forms where they hold, the interval, the spare, the lemon."""

from __future__ import annotations

import math

import msgspec
import numpy as np
import pytest
from msgspec.structs import replace

from benchmarks import twin_cases
from benchmarks.twin_cases import DAY, HOUR
from hyperscale.evaluate.twin.checkpoint_interval import best_interval, daly_seconds, expected_end_seconds, young_seconds
from hyperscale.evaluate.twin.outlook import outlook
from hyperscale.evaluate.twin.play_futures import play
from hyperscale.evaluate.twin.risk_figures import binomial_bounds, closed_form_ettr, end_quantile, mean_ettr, mean_seconds_between_stops
from hyperscale.evaluate.twin.twin_types import JobRisk, LawFamily, LifeLaw, NodeRisk, Slowdown, exponential, fixed

RSC_1_128 = twin_cases.public_job(twin_cases.RSC_1, 1024, HOUR, 300.0, 10.0)


def risky(law: LifeLaw, nodes: int = 8) -> JobRisk:
    return replace(twin_cases.job({"gpu": law}, nodes, spares=1), work_seconds=3.0 * DAY)


@pytest.mark.parametrize(
    ("successes", "trials", "bounds"),
    [
        (0, 10, (0.0, 0.30850)),
        (5, 10, (0.18709, 0.81291)),
        (10, 10, (0.69150, 1.0)),
        (8, 20, (0.19119, 0.63946)),
    ],
)
def test_binomial_bounds_are_the_published_ones(successes: int, trials: int, bounds: tuple[float, float]) -> None:
    assert binomial_bounds(successes, trials) == pytest.approx(bounds, abs=2e-5)


@pytest.mark.parametrize(("successes", "trials"), [(-1, 10), (11, 10), (0, 0)])
def test_bounds_of_an_impossible_count_are_refused(successes: int, trials: int) -> None:
    with pytest.raises(ValueError, match="write a number within"):
        binomial_bounds(successes, trials)


def test_the_time_between_failures_and_the_ettr_are_the_published_models() -> None:
    """Independent exponential nodes: 1 / (N r) = 28.8 h, and the closed form of arXiv 2410.21680."""
    futures = play(RSC_1_128, 2000, 1)
    between = mean_seconds_between_stops(futures)
    assert between == pytest.approx(DAY / (128 * twin_cases.RSC_1), rel=0.02)
    closed = closed_form_ettr(128, twin_cases.RSC_1 / DAY, 300.0, HOUR, 10.0)
    assert mean_ettr(futures) == pytest.approx(closed, abs=0.002)


def test_the_end_is_the_renewal_formula_where_restarts_take_no_time() -> None:
    """Daly 2006: each of k segments takes M (exp((D + w) / M) - 1) with exponential failures and free restarts."""
    node = NodeRisk("a", {"any": exponential(2.0 * HOUR)}, fixed(0.0))
    job = JobRisk((node,), 10.0 * HOUR, HOUR, 360.0, 0.0, horizon_seconds=1000.0 * HOUR)
    segments = 10 * 2.0 * math.expm1((1.0 + 0.1) / 2.0)
    ends = play(job, 20_000, 2).end_seconds / HOUR
    assert ends.mean() == pytest.approx(segments, abs=4.0 * ends.std() / math.sqrt(len(ends)))


@pytest.mark.parametrize(
    "law", [exponential(10.0 * DAY), LifeLaw(LawFamily.WEIBULL, 10.0 * DAY, 0.7), LifeLaw(LawFamily.WEIBULL, 10.0 * DAY, 2.6)]
)
def test_the_best_interval_costs_within_one_percent_of_the_best_of_a_sweep(law: LifeLaw) -> None:
    job = risky(law)
    choice = best_interval(job, 800, 1)
    sweep = [expected_end_seconds(job, 0.1 * HOUR * 1.25**step, 1500, 99) for step in range(20)]
    assert expected_end_seconds(job, choice.seconds, 1500, 99) <= 1.01 * min(sweep)
    assert choice.expected_end_seconds <= min(choice.current_end_seconds, choice.young_end_seconds or math.inf)


def test_without_failures_one_checkpoint_at_the_end_is_best() -> None:
    choice = best_interval(JobRisk((NodeRisk("a"),), 100.0, 10.0, 2.0, 5.0), 50, 0)
    assert choice.seconds == 100.0
    assert choice.young_seconds is None
    assert choice.expected_end_seconds == 102.0


def test_intervals_are_whole_epochs_where_the_job_has_epochs() -> None:
    choice = best_interval(replace(risky(exponential(10.0 * DAY)), epoch_seconds=1700.0), 400, 1)
    assert choice.epochs is not None
    assert choice.seconds == choice.epochs * 1700.0
    long = best_interval(replace(risky(exponential(10.0 * DAY)), epoch_seconds=2.0 * DAY), 100, 1)
    assert long.epochs == 1


def test_youngs_and_dalys_intervals_are_the_published_formulas() -> None:
    assert young_seconds(5.0, 1000.0) == 100.0
    ratio = 5.0 / 2000.0
    assert daly_seconds(5.0, 1000.0) == pytest.approx(100.0 * (1.0 + math.sqrt(ratio) / 3.0 + ratio / 9.0) - 5.0)
    assert daly_seconds(2000.0, 1000.0) == 1000.0


LEMON_JOB = twin_cases.with_lemon(risky(exponential(10.0 * DAY)), 6.0)


def test_the_outlook_has_a_chance_within_its_bounds() -> None:
    answer = outlook(LEMON_JOB, 2000, 4, 4.0 * DAY)
    assert 0.0 < (answer.low or 0.0) < (answer.p_by_deadline or 0.0) < (answer.high or 0.0) < 1.0
    assert 0.0 < (answer.median_end_seconds or 0.0) < (answer.late_end_seconds or 0.0)
    assert msgspec.json.encode(answer) == msgspec.json.encode(outlook(LEMON_JOB, 2000, 4, 4.0 * DAY))


def test_a_lemon_is_the_costliest_node_and_a_spare_is_worth_something() -> None:
    answer = outlook(LEMON_JOB, 2000, 4, 4.0 * DAY)
    assert answer.costly_nodes[0].name == "node-3"
    assert answer.costly_nodes[0].delay_seconds > 2.0 * answer.costly_nodes[1].delay_seconds
    assert answer.spare_worth.saved_seconds > 0.0
    assert (answer.spare_worth.p_gain or 0.0) > 0.0


@pytest.mark.parametrize("case", sorted(twin_cases.oracle_cases()))
def test_a_job_at_risk_survives_json(case: str) -> None:
    """The twin may run in a process of its own."""
    job = twin_cases.with_slow_node(twin_cases.oracle_cases()[case])
    job = replace(job, nodes=(*job.nodes, NodeRisk("slow", slowdowns=(Slowdown(2.0),))))
    again = msgspec.json.decode(msgspec.json.encode(job), type=JobRisk)
    assert again == job
    assert play(again, 3, 1).end_seconds.tobytes() == play(job, 3, 1).end_seconds.tobytes()


def test_what_is_unknown_stays_unknown() -> None:
    job = JobRisk((NodeRisk("a", {"gpu": fixed(8.0)}),), 100.0, 10.0, 2.0, 5.0, horizon_seconds=500.0)
    answer = outlook(job, 10, 0, 1000.0)
    assert answer.past_horizon == 10
    assert answer.expected_end_seconds is None
    assert answer.median_end_seconds is None
    assert answer.high == 1.0  # followed for 500 s: they may end before 1,000 s
    assert answer.low == 0.0
    assert outlook(job, 10, 0, None).p_by_deadline is None


@pytest.mark.parametrize("deadline", [0.0, -1.0, math.nan, math.inf])
def test_a_senseless_deadline_is_refused(deadline: float) -> None:
    with pytest.raises(ValueError, match=r"deadline_seconds: .* is no time above 0"):
        outlook(RSC_1_128, 10, 0, deadline)


def test_quantiles_are_ends_of_futures() -> None:
    futures = play(risky(exponential(10.0 * DAY)), 100, 0)
    ordered = np.sort(futures.end_seconds)
    assert end_quantile(futures, 0.5) == ordered[49]
    assert end_quantile(futures, 0.95) == ordered[94]
    assert end_quantile(futures, 1.0) == ordered[99]
