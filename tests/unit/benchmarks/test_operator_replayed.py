"""The operator in the replay: it stops whom the planner would stop, pays for it, and believes the time left that is reported to it."""

from __future__ import annotations

import pytest

from benchmarks.replay import Cluster, Job, replay
from benchmarks.suites import gavel

ONE = Cluster((4,))
HOUR = 3600.0


def job(number: int, hours: float, *, arrival: float = 0.0, gpus: int = 4) -> Job:
    return Job(number, arrival, gpus, hours * HOUR, 1.0, (1.0,), (1.0,))


def test_a_long_job_is_stopped_for_a_short_one_and_pays_two_starts() -> None:
    jobs = [job(0, 10.0), job(1, 1.0, arrival=1000.0)]
    outcome = replay(jobs, ONE, gavel.Operator("with stops"))
    assert outcome.finished[1] == pytest.approx(1080.0 + 30.0 + HOUR)
    assert outcome.restarts == 3
    assert outcome.finished[0] > 11 * HOUR + 90.0
    alone = replay(jobs, ONE, gavel.Operator("without", stops=False))
    assert alone.finished[0] == pytest.approx(10 * HOUR + 30.0)
    assert sum(outcome.finished.values()) < sum(alone.finished.values())


def test_a_job_is_not_stopped_within_the_hold_down_of_the_policy() -> None:
    jobs = [job(0, 10.0), job(1, 1.0, arrival=100.0)]
    outcome = replay(jobs, ONE, gavel.Operator("with stops"))
    assert outcome.finished[1] == pytest.approx(720.0 + 30.0 + HOUR)


def test_nobody_is_stopped_while_nobody_waits() -> None:
    jobs = [Job(0, 0.0, 1, 10 * HOUR, 1.0, (0.2, 1.0), (0.2, 1.0))]
    assert replay(jobs, Cluster((4, 4)), gavel.Operator("with stops")).restarts == 1


def test_what_is_believed_of_a_job_is_within_thirty_percent_and_always_the_same() -> None:
    jobs = [job(number, 1.0) for number in range(50)]
    left = dict.fromkeys(range(50), 1000.0)
    told = gavel.wrong(jobs, left)
    assert told == gavel.wrong(jobs[::-1], left)
    assert all(700.0 <= steps <= 1300.0 for steps in told.values())
    assert max(told.values()) - min(told.values()) > 300.0


def test_an_unknown_time_is_guessed_from_the_work_done_and_the_jobs_that_ended() -> None:
    guess, jobs = gavel.Guess(), [job(0, 1.0), job(1, 3.0)]
    assert guess(jobs, {0: 3600.0, 1: 10_800.0}) == {0: 360.0, 1: 360.0}
    assert guess(jobs, {0: 600.0, 1: 7800.0}) == {0: 6000.0, 1: 6000.0}
    assert guess(jobs[1:], {1: 4200.0}) == {1: pytest.approx(3000.0 + 6600.0)}
