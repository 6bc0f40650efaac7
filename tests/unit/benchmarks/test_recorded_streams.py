"""Streams with recorded arrivals: sealed, and what they take from a trace."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks import recordedstreams
from hyperscale.learn.streams.scenario import Conditions, RecordedJobs, draw

needs_traces = pytest.mark.skipif(not recordedstreams.there(), reason="the traces are not beside the repository (../shared/data)")


@needs_traces
@pytest.mark.parametrize("trace", recordedstreams.TRACES)
def test_the_judged_streams_are_those_that_were_sealed(trace: str) -> None:
    assert recordedstreams.seal(trace) == recordedstreams.SEALS[trace]


@needs_traces
def test_every_trace_has_thirty_replicates_with_its_arrivals_in_order() -> None:
    for trace in recordedstreams.TRACES:
        streams = list(recordedstreams.replicates(trace))
        assert len(streams) == 30
        assert all(np.array_equal(one.jobs.gaps, streams[0].jobs.gaps) for one in streams)
        assert all((one.jobs.low <= one.jobs.high).all() and (one.jobs.gaps >= 0.0).all() for one in streams)


@needs_traces
def test_every_further_replicate_has_a_cluster_and_a_draw_of_work_of_its_own() -> None:
    sealed, further = (list(streams("Pollux, workload 1")) for streams in (recordedstreams.replicates, recordedstreams.further))
    assert len({one.jobs.work_seconds.tobytes() for one in sealed}) == 2
    assert len({one.jobs.work_seconds.tobytes() for one in further}) == len({one.seed for one in further}) == len(further) == 105
    assert all(np.array_equal(one.jobs.gaps, sealed[0].jobs.gaps) and np.array_equal(one.jobs.high, sealed[0].jobs.high) for one in further)
    assert not {one.seed for one in further} & {one.seed for one in sealed}


def recorded(jobs: int) -> RecordedJobs:
    count = np.full(jobs, 4)
    return RecordedJobs(np.arange(1.0, jobs + 1.0), np.full(jobs, 60.0), count // 4, count, np.ones(jobs))


def test_a_recorded_stream_keeps_the_ratios_of_its_gaps_and_its_counts() -> None:
    drawn = draw(Conditions("geo", 0.9, jobs=8), 3, recorded(8))
    assert np.allclose(drawn.gaps / drawn.gaps[0], np.arange(1.0, 9.0))
    assert drawn.workers.max() == 4
    assert (drawn.weights == 1.0).all()


def test_the_same_cluster_is_drawn_with_and_without_recorded_jobs() -> None:
    conditions = Conditions("zones", 0.9, jobs=8)
    assert np.array_equal(draw(conditions, 3).speed, draw(conditions, 3, recorded(8)).speed)


def test_a_trace_of_another_length_is_refused() -> None:
    with pytest.raises(ValueError, match="8 jobs, 7 are recorded"):
        draw(Conditions("geo", 0.9, jobs=8), 3, recorded(7))
