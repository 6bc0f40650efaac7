"""A plan that waits for a person holds no GPUs from the moment that its job says so, however long the Event takes."""

from __future__ import annotations

from e2e.jobs import Job
from tests.fault.conftest import Stage
from tests.fault.process import OperatorProcess
from tests.fault.proxy import FaultProxy

ALL_OF_TWO_NODES = {"minReplicas": 2, "maxReplicas": 2, "resources": {"limits": {"nvidia.com/gpu": 8}}}


def planned(stage: Stage, space: str, name: str) -> set[str]:
    job = Job(stage.api, space, name)
    job.create(startPolicy="Manual", workers=ALL_OF_TWO_NODES)
    job.wait(lambda: job.reason() == "AwaitingApproval", "it was not planned")
    return {worker["node"] for worker in job.plan()["workers"]}


def test_the_next_job_gets_the_same_nodes_while_the_event_is_still_being_written(
    stage: Stage, operator: OperatorProcess, proxy: FaultProxy, space: str
) -> None:
    with proxy.holding(lambda asked: asked.method == "POST" and asked.path.endswith("/events")) as held:
        first = planned(stage, space, "first")
        second = planned(stage, space, "second")
        assert first == second
        held.release()
