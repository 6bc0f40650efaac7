"""A job's author writes its queue weight; the administrator says how much it counts."""

from __future__ import annotations

import pytest

from hyperscale.control.cache.records import Key, job_record
from hyperscale.control.scheduler.queue_entry import read_entry
from hyperscale.model.api.policy import PolicySpec, QueuePolicy
from hyperscale.model.status import JobStatus
from tests.builders.wire import spec_of
from tests.corpus.jobs import job as job_resource


@pytest.mark.parametrize(("written", "counts"), [(1, 1.0), (5, 5.0), (1000, 5.0)])
def test_a_priority_counts_no_more_than_the_policy_allows(written: int, counts: float) -> None:
    resource = job_resource({"metadata.uid": "1", "spec.queueWeight": written})
    job = spec_of(resource["spec"])
    entry = read_entry(Key("default", "job"), job_record(resource, JobStatus()), job, PolicySpec(queue=QueuePolicy(max_queue_weight=5)))
    assert entry is not None
    assert entry.weight == counts
