"""Jobs less alike, and more alike, than the usual ones: what training draws beside those."""

from __future__ import annotations

import numpy as np

from hyperscale.learn.streams.job_mix import mixed_jobs
from hyperscale.learn.streams.scenario import Conditions, RecordedJobs
from hyperscale.learn.streams.simulator import OPERATORS_RULE, Simulator, index

JOBS = 120
DRAWN = [mixed_jobs(np.random.default_rng(seed), JOBS) for seed in range(60)]
OTHERS = [jobs for jobs in DRAWN if jobs is not None]


def spread(jobs: RecordedJobs) -> float:
    return float(np.log(jobs.work_seconds).std())


def test_a_part_of_the_streams_is_as_usual_and_the_others_are_less_or_more_alike() -> None:
    assert 10 < len(DRAWN) - len(OTHERS) < 40
    assert min(spread(jobs) for jobs in OTHERS) < 0.6
    assert max(spread(jobs) for jobs in OTHERS) > 1.8


def test_alike_jobs_have_few_workers_and_some_come_at_once() -> None:
    alike = [jobs for jobs in OTHERS if jobs.high.max() <= 4]
    assert alike
    assert all(spread(jobs) < 1.2 for jobs in alike)
    assert max(float((jobs.gaps == 0.0).mean()) for jobs in alike) > 0.2


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
