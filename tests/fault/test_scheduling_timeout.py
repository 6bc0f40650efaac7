"""A rank that the scheduler leaves out, on a real API server: all ranks go, and come back without the node that refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pytest

from e2e.cluster.api import Object
from e2e.jobs import Job
from tests.fault.companions import posts, written
from tests.fault.players import bind, create_workers, delete_workers, gates, is_suspended, refuse
from tests.fault.process import OperatorProcess
from tests.fault.proxy import FaultProxy

WORDS: Final = "0/12 nodes are available: 1 node(s) exceed max volume count, 11 node(s) didn't match Pod's node affinity/selector."
PATIENT: Final[Object] = {"recovery": {"schedulingTimeoutSeconds": 3600}}
IMPATIENT: Final[Object] = {"recovery": {"schedulingTimeoutSeconds": 1}}
"""Only while a rank is left out: pods that a busy machine makes late count as left out too."""
SPEC: Final[Object] = {"workers": {"minReplicas": 2, "maxReplicas": 2, "resources": {"limits": {"nvidia.com/gpu": 8}}}, **PATIENT}


def changes(proxy: FaultProxy, pod: str) -> int:
    """How many changes of a pod the operator was told of since that pod was made; pods of other tests have the same name."""
    kinds = [kind for kind, *about in tuple(proxy.events) if about == ["Pod", pod]]
    return kinds[::-1].index("ADDED") if "ADDED" in kinds else len(kinds)


def left_out(proxy: FaultProxy, job: Job) -> str:
    """Rank 0 gets its node and rank 1 does not, and the operator knows; the node that refused."""
    job.wait(lambda: len(job.pods()) == 2 and not any(gates(pod) for pod in job.pods()), "the gates stay closed")
    first, second = job.pods()
    bind(job, first, job.nodes()[0])
    refuse(job, second, WORDS)
    # Before the timeout is shortened: else the release may come before the scheduler's words.
    job.wait(lambda: changes(proxy, second["metadata"]["name"]) >= 2, "the operator is not told of the opened gate and the refusal")
    job.wait(lambda: bool(job.status().get("scheduling", {}).get("waitingStartTime")), "it is not seen")
    return job.nodes()[1]


def ends(job: Job) -> None:
    """Its MPIJob is suspended, and the MPI Operator takes its pods away."""
    job.wait(lambda: is_suspended(job), "its MPIJob is not suspended")
    job.patch(spec=PATIENT)
    delete_workers(job)


def comes_back_without(job: Job, node: str, before: str) -> None:
    """The job is planned again, resumed, and says why it does not use the node."""
    job.wait(lambda: job.plan().get("id") != before and not is_suspended(job), "it does not go on on another plan")
    assert node not in job.nodes()
    (told,) = (entry for entry in job.plan()["rejected"] if entry["node"] == node)
    assert told["reason"] == "SchedulerRefused"
    assert "exceed max volume count" in told["message"]
    assert written(job)["planId"] == job.plan()["id"]


def test_one_rank_left_out_releases_all_and_the_next_plan_does_without_the_node(
    operate: Callable[..., OperatorProcess], proxy: FaultProxy, job: Job
) -> None:
    since = len(proxy.asked)
    operate()
    job.create(**SPEC)
    job.wait_reason("Starting")
    before = job.plan()["id"]
    create_workers(job)
    node = left_out(proxy, job)
    job.patch(spec=IMPATIENT)
    job.wait(lambda: job.condition("Placed").get("reason") == "SchedulingTimeout", "nothing is said")
    assert WORDS in job.condition("Placed")["message"]
    job.wait(lambda: any(event["reason"] == "SchedulingTimeout" for event in job.events()), "no event")
    (event,) = (each for each in job.events() if each["reason"] == "SchedulingTimeout")
    assert (event["type"], WORDS in event["message"]) == ("Warning", True)
    ends(job)
    comes_back_without(job, node, before)
    create_workers(job)
    job.wait(lambda: not any(gates(pod) for pod in job.pods()), "the gates stay closed")
    for pod, planned in zip(job.pods(), job.nodes(), strict=True):
        bind(job, pod, planned)
    job.wait(lambda: job.condition("Placed")["status"] == "True", "its ranks are not placed")
    assert job.status()["planChanges"] == 0, "the job had not started"
    assert posts(proxy, job, "mpijobs", since) == 1


@pytest.mark.parametrize("point", ["gang-released", "after-status", "before-suspend", "planned", "before-resume"])
def test_killed_at_any_point_its_successor_carries_the_release_through_once(
    operate: Callable[..., OperatorProcess], proxy: FaultProxy, job: Job, point: str
) -> None:
    since = len(proxy.asked)
    operate()
    job.create(**SPEC)
    job.wait_reason("Starting")
    before = job.plan()["id"]
    create_workers(job)
    node = left_out(proxy, job)
    dying = operate(kill_at=point)
    job.patch(spec=IMPATIENT)
    late = point in ("planned", "before-resume")
    if late:
        ends(job)
    dying.wait_killed()
    operate()
    if not late:
        ends(job)
    comes_back_without(job, node, before)
    assert job.status()["scheduling"]["releases"] == 1
    assert posts(proxy, job, "mpijobs", since) == 1


def test_in_a_queue_the_pods_are_deleted_and_the_mpijob_is_not_written(
    operate: Callable[..., OperatorProcess], proxy: FaultProxy, job: Job
) -> None:
    operate()
    job.create(metadata={"labels": {"kueue.x-k8s.io/queue-name": "gold"}}, **SPEC)
    job.wait_reason("Queued")
    job.api.patch(job.mpijob_path, {"spec": {"runPolicy": {"suspend": False}}})  # Kueue admits it
    since = len(proxy.asked)
    create_workers(job)
    node = left_out(proxy, job)
    job.patch(spec=IMPATIENT)
    job.wait(lambda: all(pod["metadata"].get("deletionTimestamp") for pod in job.pods()) or not job.pods(), "its pods stay")
    job.patch(spec=PATIENT)
    delete_workers(job)
    create_workers(job)
    job.wait(lambda: node not in job.nodes() and not any(gates(pod) for pod in job.pods()), "its ranks are not placed again")
    assert not proxy.asked_since(since, lambda asked: asked.method == "PATCH" and asked.path == job.mpijob_path)
