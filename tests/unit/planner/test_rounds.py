"""Rounds: who is given which GPUs."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from hyperscale.planner.rounds.round_check import unsound_round
from hyperscale.planner.rounds.round_policy import next_round
from hyperscale.planner.rounds.round_types import KNOWN_WORK, GpuOption, GpuPool, RoundGrant, RoundJob, RoundSettings
from hyperscale.planner.rounds.round_values import option_values, single_rate, work_seconds

POOLS = (GpuPool("v100", 8),)
EVEN = tuple(GpuOption(0, gpus, float(gpus) ** 0.8) for gpus in (1, 2, 4, 8))
LONG = 10_000.0
"""Seconds since the last change: no hold-down."""


def _gpus(grants: tuple[RoundGrant, ...], jobs: tuple[RoundJob, ...]) -> dict[str, int]:
    by_key = {job.key: job for job in jobs}
    return {grant.key: 0 if grant.option is None else by_key[grant.key].options[grant.option].gpus for grant in grants}


def test_a_job_alone_is_given_what_it_runs_fastest_on() -> None:
    jobs = (RoundJob("a/a", EVEN),)
    assert _gpus(next_round(jobs, POOLS), jobs) == {"a/a": 8}


def test_a_job_that_runs_best_on_fewer_gpus_is_given_fewer() -> None:
    jobs = (RoundJob("a/a", (GpuOption(0, 1, 1.0), GpuOption(0, 2, 1.8), GpuOption(0, 4, 0.9))),)
    assert _gpus(next_round(jobs, POOLS), jobs) == {"a/a": 2}


def test_two_equal_jobs_share_the_gpus() -> None:
    jobs = (RoundJob("a/a", EVEN), RoundJob("a/b", EVEN))
    assert _gpus(next_round(jobs, POOLS), jobs) == {"a/a": 4, "a/b": 4}


def test_a_running_job_gives_gpus_to_one_that_arrives() -> None:
    jobs = (RoundJob("a/a", EVEN, current=3, attained=800.0, unchanged_seconds=LONG), RoundJob("a/b", EVEN))
    assert _gpus(next_round(jobs, POOLS), jobs) == {"a/a": 4, "a/b": 4}


def test_a_job_that_has_just_changed_keeps_its_gpus() -> None:
    jobs = (RoundJob("a/a", EVEN, current=3, unchanged_seconds=30.0), RoundJob("a/b", EVEN))
    assert _gpus(next_round(jobs, POOLS), jobs) == {"a/a": 8, "a/b": 0}


def test_a_job_that_may_not_move_keeps_its_gpus() -> None:
    jobs = (RoundJob("a/a", EVEN, current=3, unchanged_seconds=LONG, movable=False), RoundJob("a/b", EVEN))
    assert _gpus(next_round(jobs, POOLS), jobs) == {"a/a": 8, "a/b": 0}


def test_of_two_types_each_job_is_given_the_one_that_it_gains_more_on() -> None:
    pools = (GpuPool("slow", 1), GpuPool("fast", 1))
    picky = RoundJob("a/picky", (GpuOption(0, 1, 1.0), GpuOption(1, 1, 10.0)))
    modest = RoundJob("a/modest", (GpuOption(0, 1, 1.0), GpuOption(1, 1, 1.5)))
    grants = {grant.key: grant.option for grant in next_round((picky, modest), pools)}
    assert grants == {"a/picky": 1, "a/modest": 0}


def test_a_stop_is_the_option_of_no_gpus() -> None:
    rigid = (GpuOption(0, 8, 8.0),)
    jobs = (
        RoundJob("a/long", rigid, current=0, remaining=8e6, unchanged_seconds=LONG),
        RoundJob("a/short", rigid, remaining=8e2),
    )
    assert next_round(jobs, POOLS, KNOWN_WORK) == (RoundGrant("a/long", None, True), RoundGrant("a/short", 0, True))


def test_a_job_that_is_nearly_done_is_not_stopped_for_its_restart() -> None:
    rigid = (GpuOption(0, 8, 8.0),)
    jobs = (
        RoundJob("a/ending", rigid, current=0, remaining=8 * 300.0, restart_seconds=120.0, unchanged_seconds=LONG),
        RoundJob("a/other", rigid, remaining=8 * 290.0, restart_seconds=120.0),
    )
    assert _gpus(next_round(jobs, POOLS, KNOWN_WORK), jobs) == {"a/ending": 8, "a/other": 0}


def test_a_small_gain_changes_nothing() -> None:
    near = (GpuOption(0, 4, 4.0), GpuOption(0, 8, 4.3))
    job = RoundJob("a/a", near, current=0, attained=1e6, restart_seconds=1.0, unchanged_seconds=600.0)
    assert not next_round((job,), POOLS)[0].changes
    assert next_round((job,), POOLS, RoundSettings(min_gain_ratio=0.0))[0].changes


def test_a_job_long_without_a_change_takes_a_small_gain() -> None:
    near = (GpuOption(0, 4, 4.0), GpuOption(0, 8, 4.3))
    job = RoundJob("a/a", near, current=0, attained=1e7, restart_seconds=1.0, unchanged_seconds=600.0)
    assert not next_round((job,), POOLS)[0].changes
    assert next_round((msgspec.structs.replace(job, unchanged_seconds=36_000.0),), POOLS)[0].changes


def test_a_restart_that_costs_more_than_it_gains_is_not_made() -> None:
    options = (GpuOption(0, 4, 4.0), GpuOption(0, 8, 8.0))
    dear = RoundJob("a/a", options, current=0, remaining=400.0, restart_seconds=600.0, unchanged_seconds=LONG)
    assert not next_round((dear,), POOLS)[0].changes


def test_no_more_jobs_change_than_the_bound() -> None:
    pools = (GpuPool("v100", 32),)
    running = tuple(RoundJob(f"a/{name}", EVEN, current=3, attained=1e4, unchanged_seconds=LONG) for name in "abcd")
    waiting = tuple(RoundJob(f"b/{name}", EVEN) for name in "abcd")
    free = next_round((*running, *waiting), pools)
    assert sum(grant.changes for grant in free if grant.key.startswith("a/")) > 1
    settings = RoundSettings(max_changes=1)
    bounded = next_round((*running, *waiting), pools, settings)
    assert sum(grant.changes for grant in bounded if grant.key.startswith("a/")) == 1
    assert unsound_round(bounded, (*running, *waiting), pools, settings) == ()


def test_work_that_is_left_grows_with_work_done_where_it_is_not_known() -> None:
    settings = RoundSettings(prior_seconds=100.0, growth=0.5)
    assert work_seconds(RoundJob("a/a", EVEN), settings) == 100.0
    assert work_seconds(RoundJob("a/a", EVEN, attained=1000.0), settings) == 600.0
    assert work_seconds(RoundJob("a/a", EVEN, attained=1000.0, remaining=50.0), settings) == 50.0


def test_the_unit_of_a_rigid_job_is_its_best_rate_a_gpu() -> None:
    assert single_rate((GpuOption(0, 4, 2.0), GpuOption(1, 4, 8.0))) == 2.0
    assert single_rate((GpuOption(0, 1, 2.0), GpuOption(1, 4, 16.0))) == 2.0


def test_a_job_that_runs_nowhere_waits() -> None:
    assert next_round((RoundJob("a/a", (GpuOption(0, 1, 0.0),)),), POOLS) == (RoundGrant("a/a", None, False),)


def test_a_job_without_options_waits() -> None:
    assert next_round((RoundJob("a/a", ()),), POOLS) == (RoundGrant("a/a", None, False),)


def test_a_stop_is_worth_less_than_waiting() -> None:
    values, nothing = option_values(RoundJob("a/a", EVEN, current=0, unchanged_seconds=LONG), RoundSettings())
    assert nothing < 0.0 < values[0]
    assert np.all(np.diff(values[1:]) > 0.0)


@pytest.mark.parametrize(
    ("jobs", "part"),
    [
        ((RoundJob("a/a", EVEN), RoundJob("a/a", EVEN)), "twice"),
        ((RoundJob("a/a", (GpuOption(3, 1, 1.0),)),), "a/a: an option needs a pool"),
        ((RoundJob("a/a", (GpuOption(0, 0, 1.0),)),), "at least 1 GPU"),
        ((RoundJob("a/a", (GpuOption(0, 1, float("nan")),)),), "a rate of at least 0"),
        ((RoundJob("a/a", EVEN, current=4),), "not among its options"),
        ((RoundJob("a/a", EVEN, current=3, movable=False), RoundJob("a/b", EVEN, current=0, movable=False)), "more GPUs than pool v100"),
    ],
)
def test_a_bad_question_is_refused_with_its_job(jobs: tuple[RoundJob, ...], part: str) -> None:
    with pytest.raises(ValueError, match=part):
        next_round(jobs, POOLS)


def test_the_judge_names_what_is_wrong() -> None:
    jobs = (
        RoundJob("a/a", EVEN, current=3, unchanged_seconds=LONG, movable=False),
        RoundJob("a/b", EVEN, current=0, unchanged_seconds=1.0),
        RoundJob("a/c", EVEN),
    )
    grants = (RoundGrant("a/a", 0, True), RoundGrant("a/b", 3, True), RoundGrant("a/c", 1, False))
    assert unsound_round(grants, jobs, POOLS, RoundSettings(max_changes=1)) == (
        "a/a: changes, and may not",
        "a/b: changes 1 s after its last change",
        "a/c: says changes False",
        "pool v100: 11 GPUs are given, it has 8",
        "2 running jobs change, at most 1 may",
    )
    assert unsound_round(grants[:2], jobs, POOLS, RoundSettings()) == ("a/c: asked 1 times, answered 0 times",)
