"""The job after another gets its GPUs although their exporter still shows the ended pods' load; the load of others keeps it away."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from e2e.cluster.control_plane import wait_until
from e2e.jobs import PATIENCE_SECONDS, Job
from hyperscale.model.constants import GPU_RESOURCE
from tests.fault.conftest import Stage
from tests.fault.process import OperatorProcess, running
from tests.fault.prometheus_stub import PrometheusStub
from tests.fault.test_exporters_that_lie import GPUS, NODES, ONE_READING, Vector, export, gpus
from tests.fault.watching import wait_created

FASTEST = ("eu-h100-0", "eu-h100-1")
OTHERS = tuple(name for name in NODES if name not in FASTEST)
WITNESS = "ap-v100-0"
"""A job waits for this node. The pod on it ends last, and the operator reads pods in order: once the job starts, all ends are known."""


def busy(figure: str, _now: float) -> Vector:
    """All GPUs of the fastest nodes work."""
    if figure != "gpu_utilization":
        return []
    loaded = [({"Hostname": node, "UUID": f"GPU-{node}-{index}"}, "97") for node in FASTEST for index in range(GPUS[node])]
    return [*loaded, *gpus("1", OTHERS)]


@pytest.fixture
def operator(stage: Stage, prometheus: PrometheusStub, policy: Callable[..., None]) -> Iterator[OperatorProcess]:
    stage.proxy.reset()
    policy(metricsTimeoutSeconds=60)
    export(prometheus, busy)
    with running(stage.operator(prometheus_url=prometheus.url, metrics_poll_seconds=0.5), stage.api) as process:
        process.wait_ready()
        yield process


def holder(node: str) -> dict[str, Any]:
    """A pod that has all GPUs of a node."""
    container = {"name": "main", "image": "example.com/any:1", "resources": {"limits": {GPU_RESOURCE: str(GPUS[node])}}}
    spec = {"nodeName": node, "containers": [container], "terminationGracePeriodSeconds": 0}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"held-{node}"}, "spec": spec}


def planned(job: Job) -> set[str]:
    job.create()
    wait_created(job)
    return set(job.nodes())


def test_gpus_of_ended_pods_are_idle_at_once(stage: Stage, operator: OperatorProcess, prometheus: PrometheusStub, space: str) -> None:
    def read(readings: int) -> None:
        asked = prometheus.asked
        wait_until(lambda: prometheus.asked > asked + readings * ONE_READING, PATIENCE_SECONDS, "Prometheus is not asked")

    read(2)
    assert not planned(Job(stage.api, space, "beside")) & set(FASTEST), "this load is nobody's whose end was seen"
    pods = f"/api/v1/namespaces/{space}/pods"
    for node in (*FASTEST, WITNESS):
        stage.api.create(pods, holder(node))
    told = {("ADDED", "Pod", f"held-{node}") for node in (*FASTEST, WITNESS)}
    wait_until(lambda: told <= set(stage.proxy.events), PATIENCE_SECONDS, "the pods were not passed on")
    read(2)
    witness = Job(stage.api, space, "witness")
    witness.create(placement={"nodeSelector": {"kubernetes.io/hostname": WITNESS}})
    witness.wait(lambda: witness.condition("Planned").get("status") == "False", "it does not wait")
    for node in (*FASTEST, WITNESS):
        stage.api.delete(f"{pods}/held-{node}")
    wait_created(witness)
    assert planned(Job(stage.api, space, "after")) <= set(FASTEST)
