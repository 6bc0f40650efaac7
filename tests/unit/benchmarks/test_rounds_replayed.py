"""Elastic rounds as a policy of the trace replay."""

from __future__ import annotations

from benchmarks.replay import Cluster, Job, replay
from benchmarks.suites.gavel_rounds import ROUNDS, ElasticRounds, rounds_goals
from hyperscale.planner.rounds.round_types import RoundSettings

CLUSTER = Cluster((4, 0, 4))


def _job(number: int, arrival: float, gpus: int, seconds: float, speeds: tuple[float, ...]) -> Job:
    return Job(number, arrival, gpus, seconds, 1.0, speeds, speeds)


def test_a_short_job_takes_the_gpus_of_a_long_one_that_goes_on_after_it() -> None:
    long, short = _job(0, 0.0, 4, 36_000.0, (0.0, 0.0, 1.0)), _job(1, 400.0, 4, 600.0, (0.0, 0.0, 1.0))
    outcome = replay([long, short], CLUSTER, ElasticRounds(ROUNDS))
    assert outcome.finished[1] < 1500.0
    assert outcome.finished[0] < 38_000.0


def test_the_fast_type_goes_to_the_job_that_gains_more_there() -> None:
    modest, picky = _job(0, 0.0, 4, 7200.0, (1.0, 0.0, 1.2)), _job(1, 0.0, 4, 7200.0, (1.0, 0.0, 8.0))
    outcome = replay([modest, picky], CLUSTER, ElasticRounds(ROUNDS))
    assert outcome.finished[1] < 1000.0


def test_rounds_end_all_jobs_where_the_work_left_is_not_told() -> None:
    jobs = [_job(number, 100.0 * number, 1 + number % 4, 3000.0, (1.0, 0.0, 2.0)) for number in range(8)]
    outcome = replay(jobs, CLUSTER, ElasticRounds("unknown", RoundSettings(), remaining=False))
    assert set(outcome.finished) == set(range(8))


def test_the_goals_compare_with_the_better_reading_of_max_min() -> None:
    means = {
        ROUNDS: [2.0],
        "assignment at every round": [2.0],
        "least attained service": [1.0],
        "Gavel max-min": [4.0],
        "Gavel max-min, inside": [2.5],
    }
    rows = {row.case: (row.value, row.holds) for row in rounds_goals("case", means)}
    assert rows == {
        "case: mean completion / assignment at every round": (1.0, True),
        "case: mean completion / least attained service": (2.0, False),
        "case: mean completion / Gavel max-min": (0.8, True),
    }
