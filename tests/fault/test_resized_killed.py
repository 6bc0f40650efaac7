"""The operator is killed while a job changes its number of workers: its successor carries it through with the one MPIJob."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Final

import pytest

from e2e.cluster.api import Api, Object
from e2e.cluster.control_plane import wait_until
from e2e.jobs import PATIENCE_SECONDS, Job, claim_unbound
from tests.fault.companions import posts, written
from tests.fault.conftest import Stage
from tests.fault.players import bind, create_workers, delete_workers, gates, is_suspended
from tests.fault.process import OperatorProcess
from tests.fault.proxy import FaultProxy

SPARE: Final = "eu-a100-1"
"""One of four nodes with as many GPUs as a worker has."""
SLOW_GPUS: Final[list[Object]] = [{"product": product, "gigaflops": 10} for product in ("NVIDIA-H100-80GB-HBM3", "NVIDIA-A100-SXM4-80GB")]
"""So slow that every further worker pays."""
SPEC: Final[Object] = {
    "model": {"architecture": "GraphSAGE", "layers": 3, "hiddenSize": 256},
    "dataset": {"source": {"s3": {"bucket": "graphs"}}, "vertices": 2_449_029, "edges": 123_718_280, "featureSize": 100, "classes": 47},
    "workers": {"minReplicas": 2, "maxReplicas": 4, "resources": {"limits": {"nvidia.com/gpu": 8}}},
    "checkpoint": {"claimName": "state"},
    "recovery": {"shrinkAfterSeconds": 1},
}


@pytest.fixture(autouse=True)
def claim(job: Job) -> None:
    """The job's volume is there."""
    claim_unbound(job.api, job.namespace, "state")


@pytest.fixture(autouse=True)
def slow_gpus(policy: Callable[..., None]) -> None:
    """Every further worker pays."""
    policy(gpus=SLOW_GPUS)


@contextlib.contextmanager
def cordoned(api: Api, *nodes: str) -> Iterator[None]:
    """No new pod gets to these nodes."""
    for node in nodes:
        api.patch(f"/api/v1/nodes/{node}", {"spec": {"unschedulable": True}})
    try:
        yield
    finally:
        for node in nodes:
            api.patch(f"/api/v1/nodes/{node}", {"spec": {"unschedulable": None}})


def replicas(job: Job) -> int:
    """Workers of its MPIJob."""
    found = job.mpijob() or {}
    return int(found["spec"]["mpiReplicaSpecs"]["Worker"]["replicas"])


def goes_on(job: Job, workers: int) -> None:
    """Its MPIJob is resumed with `workers` workers, on the plan that its status and its file tell."""
    job.wait(lambda: not is_suspended(job) and replicas(job) == workers, f"it does not go on with {workers} workers")
    assert len(job.nodes()) == workers
    labels = (job.mpijob() or {})["metadata"]["labels"]
    assert written(job)["planId"] == labels["hyperscale.dev/plan-id"] == job.plan()["id"]
    assert job.condition("Migrating")["status"] == "True", "no pod is there yet"


@pytest.mark.parametrize("point", ["planned", "after-status", "before-resume"])
def test_killed_between_the_plan_for_another_number_and_the_resume_it_resumes_with_that_number(
    stage: Stage, proxy: FaultProxy, job: Job, operate: Callable[..., OperatorProcess], point: str
) -> None:
    since = len(proxy.asked)
    with cordoned(stage.api, SPARE):
        operate()
        job.create(**SPEC)
        job.wait_reason("Starting")
        assert replicas(job) == 3
        job.patch(spec={"runPolicy": {"suspend": True}})
        job.wait_reason("Suspended")
    before = job.plan()["id"]
    dying = operate(kill_at=point)
    job.patch(spec={"runPolicy": {"suspend": False}})
    dying.wait_killed()
    assert (is_suspended(job), replicas(job)) == (True, 3)
    recorded, is_written = job.plan()["id"], point != "planned"
    assert (recorded != before, len(job.nodes()) == 4, bool(job.condition("Migrating"))) == (is_written, is_written, is_written)
    operate()
    goes_on(job, 4)
    assert not is_written or job.plan()["id"] == recorded
    assert posts(proxy, job, "mpijobs", since) == 1


def test_killed_with_the_plan_for_fewer_workers_in_its_file_alone_it_makes_one_again_and_goes_on(
    stage: Stage, proxy: FaultProxy, job: Job, operate: Callable[..., OperatorProcess]
) -> None:
    since = len(proxy.asked)
    with contextlib.ExitStack() as cordons:
        cordons.enter_context(cordoned(stage.api, SPARE))
        operate()
        job.create(**SPEC)
        job.wait_reason("Starting")
        create_workers(job)
        wait_until(lambda: not any(gates(pod) for pod in job.pods()), PATIENCE_SECONDS, "its workers stay gated")
        for pod, node in zip(job.pods(), job.nodes(), strict=True):
            bind(job, pod, node)
        job.wait(lambda: job.condition("Placed")["status"] == "True", "its workers are not placed")
        first, before = job.nodes(), job.plan()["id"]
        dying = operate(kill_at="planned")
        cordons.enter_context(cordoned(stage.api, first[1]))
        delete_workers(job, 1)
        create_workers(job, 1)
        dying.wait_killed()
        assert (job.plan()["id"], job.condition("Migrating"), is_suspended(job)) == (before, {}, False)
        assert len(written(job)["workers"]) == 2, "the file is ahead of the status"
        operate()
        job.wait(lambda: is_suspended(job), "it does not stop")
        delete_workers(job)
        goes_on(job, 2)
        assert (job.nodes(), job.status()["planChanges"]) == ([first[0], first[2]], 1)
    assert posts(proxy, job, "mpijobs", since) == 1
