"""Which jobs hold which kind of GPU: order, advantage, moves, room."""

from __future__ import annotations

import math
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.peers.assignment import Contender, assign

HOUR = 3600.0


def chosen(jobs: list[Contender], free: tuple[int, ...]) -> dict[str, int]:
    return assign(jobs, free, round_seconds=360.0, restart_seconds=30.0)


def test_the_job_with_the_least_left_runs_first() -> None:
    jobs = [Contender("long", 4, (9 * HOUR,)), Contender("short", 4, (1 * HOUR,))]
    assert chosen(jobs, (4,)) == {"short": 0}


def test_weight_outranks_length() -> None:
    jobs = [Contender("long", 4, (9 * HOUR,), weight=10.0), Contender("short", 4, (1 * HOUR,))]
    assert chosen(jobs, (4,)) == {"long": 0}


def test_small_jobs_together_outrank_a_wide_one_of_the_same_length() -> None:
    jobs = [Contender("wide", 4, (1 * HOUR,)), *(Contender(f"small-{index}", 1, (1 * HOUR,)) for index in range(4))]
    assert "wide" not in chosen(jobs, (4,))


def test_a_job_that_gains_little_leaves_the_fast_gpus_to_one_that_gains_much() -> None:
    jobs = [Contender("even", 1, (1.1 * HOUR, 1.0 * HOUR)), Contender("steep", 1, (8.0 * HOUR, 1.0 * HOUR))]
    assert chosen(jobs, (1, 1)) == {"even": 0, "steep": 1}


def test_a_running_job_stays_where_a_move_costs_more_than_the_round_brings() -> None:
    jobs = [Contender("job", 1, (1.00 * HOUR, 0.99 * HOUR), kind=0)]
    assert chosen(jobs, (1, 1)) == {"job": 0}


def test_a_running_job_moves_to_much_faster_gpus() -> None:
    jobs = [Contender("job", 1, (4 * HOUR, 1 * HOUR), kind=0)]
    assert chosen(jobs, (1, 1)) == {"job": 1}


def test_a_job_is_not_put_where_it_cannot_run() -> None:
    assert chosen([Contender("job", 1, (math.inf, HOUR))], (4, 0)) == {}


def test_nobody_waiting_means_nothing_chosen() -> None:
    assert chosen([], (4,)) == {}


def test_a_missing_figure_and_an_endless_restart_are_refused() -> None:
    with pytest.raises(ValueError, match="every kind"):
        chosen([Contender("job", 1, (HOUR,))], (4, 4))
    with pytest.raises(ValueError, match="restart"):
        assign([], (4,), round_seconds=30.0, restart_seconds=30.0)


SECONDS = st.one_of(st.just(math.inf), st.floats(1.0, 1e5))
JOBS = st.lists(
    st.tuples(st.sampled_from([1, 2, 4]), SECONDS, SECONDS, st.sampled_from([1.0, 3.0]), st.sampled_from([None, 0, 1])),
    max_size=6,
).map(lambda rows: [Contender(f"job-{index}", row[0], (row[1], row[2]), row[3], row[4]) for index, row in enumerate(rows)])


@given(JOBS, st.tuples(st.integers(0, 8), st.integers(0, 8)))
@settings(max_examples=50, deadline=None)
def test_room_is_kept_nobody_waits_beside_room_and_order_does_not_matter(jobs: list[Contender], free: tuple[int, int]) -> None:
    found = chosen(jobs, free)
    by_key = {job.key: job for job in jobs}
    left = [room - sum(by_key[key].gpus for key, kind in found.items() if kind == index) for index, room in enumerate(free)]
    assert min(left) >= 0
    assert all(math.isfinite(by_key[key].seconds[kind]) for key, kind in found.items())
    for job in jobs:
        if job.key not in found:
            assert not any(left[kind] >= job.gpus and math.isfinite(job.seconds[kind]) for kind in range(2))
    assert chosen(jobs[::-1], free) == found


@given(JOBS, st.tuples(st.integers(1, 6), st.integers(1, 6)))
@settings(max_examples=30, deadline=None)
def test_single_gpu_jobs_get_the_best_assignment_there_is(jobs: list[Contender], free: tuple[int, int]) -> None:
    singles = [Contender(job.key, 1, job.seconds, job.weight, job.kind) for job in jobs]
    found = chosen(singles, free)
    values = [[_value(job, kind) for kind in range(2)] for job in singles]
    best = 0.0
    for kinds in product((0, 1, None), repeat=len(singles)):
        if kinds.count(0) <= free[0] and kinds.count(1) <= free[1]:
            best = max(best, sum(row[kind] for row, kind in zip(values, kinds, strict=True) if kind is not None))
    got = sum(values[index][found[job.key]] for index, job in enumerate(singles) if job.key in found)
    assert got == pytest.approx(best, rel=1e-6, abs=1e-9)


def _value(job: Contender, kind: int) -> float:
    if not math.isfinite(job.seconds[kind]):
        return 0.0
    return job.weight * (1.0 if job.kind == kind else 330.0 / 360.0) * 360.0 / max(job.seconds[kind], 360.0)
