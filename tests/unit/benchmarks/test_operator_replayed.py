"""The operator in the replay: it stops whom the planner would stop, pays for it, and believes the time left that is reported to it."""

from __future__ import annotations

import pytest

from benchmarks.replay import Cluster, Job, replay
from benchmarks.suites import gavel_queue

ONE = Cluster((4,))
HOUR = 3600.0


def job(number: int, hours: float, *, arrival: float = 0.0, gpus: int = 4) -> Job:
    return Job(number, arrival, gpus, hours * HOUR, 1.0, (1.0,), (1.0,))


def test_a_long_job_is_stopped_for_a_short_one_and_pays_two_starts() -> None:
    jobs = [job(0, 10.0), job(1, 1.0, arrival=1000.0)]
    outcome = replay(jobs, ONE, gavel_queue.Operator("with stops"))
    assert outcome.finished[1] == pytest.approx(1080.0 + 30.0 + HOUR)
    assert outcome.restarts == 3
    assert outcome.finished[0] > 11 * HOUR + 90.0
    alone = replay(jobs, ONE, gavel_queue.Operator("without", stops=False))
    assert alone.finished[0] == pytest.approx(10 * HOUR + 30.0)
    assert sum(outcome.finished.values()) < sum(alone.finished.values())


def test_a_job_is_not_stopped_within_the_hold_down_of_the_policy() -> None:
    jobs = [job(0, 10.0), job(1, 1.0, arrival=100.0)]
    outcome = replay(jobs, ONE, gavel_queue.Operator("with stops"))
    assert outcome.finished[1] == pytest.approx(720.0 + 30.0 + HOUR)


def test_nobody_is_stopped_while_nobody_waits() -> None:
    jobs = [Job(0, 0.0, 1, 10 * HOUR, 1.0, (0.2, 1.0), (0.2, 1.0))]
    assert replay(jobs, Cluster((4, 4)), gavel_queue.Operator("with stops")).restarts == 1


def test_what_is_believed_of_a_job_is_within_thirty_percent_and_always_the_same() -> None:
    jobs = [job(number, 1.0) for number in range(50)]
    left = dict.fromkeys(range(50), 1000.0)
    told = gavel_queue.wrong(jobs, left)
    assert told == gavel_queue.wrong(jobs[::-1], left)
    assert all(700.0 <= steps <= 1300.0 for steps in told.values())
    assert max(told.values()) - min(told.values()) > 300.0


def test_an_unknown_time_is_guessed_from_the_work_done_and_the_jobs_that_ended() -> None:
    guess, jobs = gavel_queue.Guess(), [job(0, 1.0), job(1, 3.0)]
    assert guess(jobs, {0: 3600.0, 1: 10_800.0}) == {0: 360.0, 1: 360.0}
    assert guess(jobs, {0: 600.0, 1: 7800.0}) == {0: 6000.0, 1: 6000.0}
    assert guess(jobs[1:], {1: 4200.0}) == {1: pytest.approx(3000.0 + 6600.0)}


def test_without_stops_a_job_waits_for_the_fast_gpus_that_come_free_in_a_moment() -> None:
    speeds = (0.4, 1.0)
    jobs = [
        Job(0, 0.0, 4, 2 * HOUR, 1.0, speeds, speeds),
        Job(1, HOUR, 4, 100 * HOUR, 1.0, speeds, speeds),
        Job(2, 2 * HOUR - 700.0, 4, 10 * HOUR, 1.0, speeds, speeds),
    ]
    assert gavel_queue.DEFAULT.max_start_slowdown > 1.0 / speeds[0], "the slow GPUs are good enough where nothing comes free"
    outcome = replay(jobs[:1] + jobs[2:], Cluster((4, 4)), gavel_queue.Operator("without", stops=False))
    assert outcome.finished[2] == pytest.approx(2 * HOUR + 360.0 + 30.0 + 10 * HOUR)


def test_a_job_that_is_short_among_those_so_far_takes_slow_gpus_and_a_long_one_does_not() -> None:
    speeds = (0.2, 1.0)
    patience = gavel_queue.DEFAULT.max_start_slowdown
    assert patience < 1.0 / speeds[0] < patience * 16.0**gavel_queue.DEFAULT.start_slowdown_size_exponent
    before = [Job(number, 0.0, 4, hours * HOUR, 1.0, (0.0, 1.0), (0.0, 1.0)) for number, hours in enumerate((100.0, 200.0))]
    short, long = (Job(2, 360.0, 4, hours * HOUR, 1.0, speeds, speeds) for hours in (1.0, 90.0))
    for last, at_once in ((short, True), (long, False)):
        outcome = replay([*before, last], Cluster((4, 4)), gavel_queue.Operator("without", stops=False))
        started = outcome.finished[2] - 30.0 - last.steps / 0.2
        assert (started == pytest.approx(360.0)) == at_once
