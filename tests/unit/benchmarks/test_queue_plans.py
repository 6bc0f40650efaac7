"""Streams of jobs with the operator's own plans: every job ends, none before it could, and the same seed gives the same times."""

from __future__ import annotations

import pytest

from benchmarks import queue_plans


@pytest.fixture(scope="module")
def stream() -> queue_plans.Stream:
    return queue_plans.drawn(1, 6)


@pytest.mark.parametrize("name", queue_plans.methods())
def test_every_job_ends_and_none_before_it_could(stream: queue_plans.Stream, name: str) -> None:
    ended = queue_plans.completion(stream, queue_plans.methods()[name])
    assert ended.keys() == {job.request.job_key for job in stream.jobs}
    assert all(ended[job.request.job_key] >= job.best_seconds * (1.0 - 1e-9) for job in stream.jobs)


def test_the_same_seed_gives_the_same_times(stream: queue_plans.Stream) -> None:
    again = queue_plans.drawn(1, 6)
    times = [queue_plans.completion(each, queue_plans.methods()[queue_plans.RULE]) for each in (stream, again)]
    assert times[0] == times[1]
