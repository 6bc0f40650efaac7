"""Jobs less alike, and more alike, than the usual ones: what training draws beside those."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from hyperscale.learn.streams.job_mix import KINDS, bursts, classes, mixed_jobs, narrow, sweeps
from hyperscale.learn.streams.scenario import Conditions, RecordedJobs
from hyperscale.learn.streams.simulator import OPERATORS_RULE, Simulator, index

JOBS = 120
DRAWN = [mixed_jobs(np.random.default_rng(seed), JOBS) for seed in range(60)]
OTHERS = [jobs for jobs in DRAWN if jobs is not None]


def spread(jobs: RecordedJobs) -> float:
    return float(np.log(jobs.work_seconds).std())


def at_once(jobs: RecordedJobs) -> float:
    return float((jobs.gaps == 0.0).mean())


def of_kind(kind: Callable[[np.random.Generator, int], RecordedJobs]) -> list[RecordedJobs]:
    return [kind(np.random.default_rng(seed), JOBS) for seed in range(40)]


def test_a_part_of_the_streams_is_as_usual_and_the_others_are_less_or_more_alike() -> None:
    assert 12 < len(DRAWN) - len(OTHERS) < 36
    assert min(spread(jobs) for jobs in OTHERS) < 1.0
    assert max(spread(jobs) for jobs in OTHERS) > 1.8


def test_jobs_of_a_sweep_come_at_once_and_are_more_alike_than_those_of_different_ones() -> None:
    drawn = of_kind(sweeps)
    assert max(at_once(jobs) for jobs in drawn) > 0.8
    large = max(drawn, key=at_once)
    within = np.abs(np.diff(np.log(large.work_seconds)))[large.gaps[1:] == 0.0]
    assert within.mean() < spread(large)


def test_work_in_classes_spans_decades_and_the_largest_class_holds_few_jobs() -> None:
    for jobs in of_kind(classes):
        assert np.ptp(np.log10(jobs.work_seconds)) > 2.0
        assert (jobs.work_seconds > 100 * np.median(jobs.work_seconds)).mean() < 0.3


def test_most_narrow_jobs_have_one_worker_and_some_streams_have_bursts() -> None:
    drawn = of_kind(narrow)
    assert all(0.3 < (jobs.high == 1).mean() < 0.95 for jobs in drawn)
    assert max(at_once(jobs) for jobs in drawn) > 0.4
    assert min(at_once(jobs) for jobs in drawn) == 0.0


def test_usual_jobs_in_bursts_come_at_once_in_most_streams_and_never_all() -> None:
    parts = [at_once(jobs) for jobs in of_kind(bursts)]
    assert np.median(parts) > 0.2
    assert max(parts) < 1.0


@pytest.mark.parametrize("kind", KINDS)
def test_every_job_has_a_worker_count_to_run_with(kind: Callable[[np.random.Generator, int], RecordedJobs]) -> None:
    for jobs in of_kind(kind):
        assert np.all((jobs.low >= 1) & (jobs.low <= jobs.high))
        assert np.all(np.isfinite(jobs.work_seconds) & (jobs.work_seconds > 0.0))


def test_the_same_chance_gives_the_same_jobs_and_every_stream_runs_to_its_end() -> None:
    for seed, jobs in enumerate(DRAWN[:8]):
        again = mixed_jobs(np.random.default_rng(seed), JOBS)
        if jobs is None or again is None:
            assert jobs is again
            continue
        assert all(np.array_equal(one, other) for one, other in zip(vars(jobs).values(), vars(again).values(), strict=True))
        assert np.all(jobs.low <= jobs.high)
        ended = Simulator(seed, Conditions("zones", 0.9, JOBS), recorded=jobs).run(index(OPERATORS_RULE))
        assert np.isfinite(ended.finish).all()
