"""The wait of a job that was suspended begins with its release, and is the same for the next operator."""

from __future__ import annotations

import time

from e2e.jobs import Job
from tests.fault.conftest import Stage

LARGE_NODES = {"minReplicas": 4, "maxReplicas": 4, "resources": {"limits": {"nvidia.com/gpu": 8}}}
"""All nodes with 8 GPUs."""


def test_a_released_job_waits_from_its_release_for_every_operator(stage: Stage, space: str) -> None:
    running, released = Job(stage.api, space, "running"), Job(stage.api, space, "released")
    with stage.watching():
        running.create(workers=LARGE_NODES)
        running.wait(lambda: running.mpijob() is not None, "it was not started")
        released.create(workers=LARGE_NODES, runPolicy={"suspend": True})
        released.wait_reason("Suspended")
        assert released.condition("Waiting") == {}
        time.sleep(1.1)  # times have whole seconds
        released.patch(spec={"runPolicy": {"suspend": False}})
        released.wait(lambda: released.condition("Waiting") != {}, "it does not wait")
    since = released.condition("Waiting")["lastTransitionTime"]
    assert since > released.resource()["metadata"]["creationTimestamp"]
    assert running.condition("Waiting") == {}
    time.sleep(1.1)
    with stage.watching():
        released.patch(spec={"queueWeight": 2})
        released.wait(lambda: released.status()["observedGeneration"] == 3, "the change was not seen")
        assert released.condition("Waiting")["lastTransitionTime"] == since
