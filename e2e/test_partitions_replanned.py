"""A lost rank that comes back on another kind of GPU gets another share: other partitions are written, and only then it starts."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from e2e.cluster.api import Object
from e2e.cluster.cluster import Cluster
from e2e.cluster.operator import OperatorProcess
from e2e.jobs import COMPUTING, Job, namespace

PATIENCE_SECONDS = 120.0
"""Longer than elsewhere: two partition Jobs and a replacement come one after the other."""
LOST = "eu-h100-1"
KEY = "hyperscale.dev/partition-key"


@pytest.fixture
def space(calm: Cluster, operator: OperatorProcess) -> Iterator[str]:
    with namespace(calm.api(), "replanned") as name:
        yield name


@pytest.fixture
def claim(calm: Cluster, space: str) -> Iterator[str]:
    """A claim on a volume that is nowhere: the nodes are simulated."""
    api, volume = calm.api(), "/api/v1/persistentvolumes/replanned"
    resources = {"storage": "1Gi"}
    common = {"accessModes": ["ReadWriteMany"], "storageClassName": ""}
    api.apply(volume, {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "replanned"},
                       "spec": {**common, "capacity": resources, "hostPath": {"path": "/nowhere"}}})  # fmt: skip
    wanted = {**common, "volumeName": "replanned", "resources": {"requests": resources}}
    path = f"/api/v1/namespaces/{space}/persistentvolumeclaims/parts"
    api.apply(path, {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "parts"}, "spec": wanted})
    yield "parts"
    api.delete(path)
    api.delete(volume)


@pytest.fixture
def cordoned(calm: Cluster) -> Iterator[str]:
    """Path of a node that a test cordons; open again afterwards."""
    path = f"/api/v1/nodes/{LOST}"
    yield path
    calm.api().patch(path, {"spec": {"unschedulable": None}})


def partition_job(job: Job) -> Object:
    """Its Job that writes partitions; empty without one."""
    found: Object = job.api.find(f"/apis/batch/v1/namespaces/{job.namespace}/jobs/{job.name}-partition") or {}
    return found


def key_of(made: Object) -> str:
    """What a partition Job makes partitions from; empty without one."""
    return str(made["metadata"]["labels"][KEY]) if made else ""


def finish(job: Job) -> Object:
    """The partition pod ends well, once it is there; the Job that it belonged to."""
    made = partition_job(job)
    selector = f"batch.kubernetes.io/controller-uid={made['metadata']['uid']}"
    pods = f"/api/v1/namespaces/{job.namespace}/pods"
    job.wait(
        lambda: any(pod["spec"].get("nodeName") for pod in job.api.items(pods, labelSelector=selector)),
        "no partition pod",
        PATIENCE_SECONDS,
    )
    (pod,) = job.api.items(pods, labelSelector=selector)
    job.api.patch(f"{pods}/{pod['metadata']['name']}", {"metadata": {"annotations": {"hyperscale.dev/simulated-runtime": "0s"}}})
    return made


def plan_file(job: Job) -> Object:
    """What workers read."""
    found: Object = json.loads(job.api.get(f"/api/v1/namespaces/{job.namespace}/configmaps/{job.name}-plan")["data"]["plan.json"])
    return found


def test_other_shares_are_partitioned_anew_before_the_replaced_rank_starts(calm: Cluster, space: str, claim: str, cordoned: str) -> None:
    api = calm.api()
    job = Job(api, space, "parted")
    job.create(
        **COMPUTING,
        workers={"minReplicas": 2, "maxReplicas": 2, "resources": {"limits": {"nvidia.com/gpu": 8}}},
        partitioning={"method": "METIS", "claimName": claim},
    )
    job.wait(lambda: job.state() == "Partitioning", "partitions are not wanted", PATIENCE_SECONDS)
    first = finish(job)
    job.wait(lambda: job.state() == "Running", "it does not run", PATIENCE_SECONDS)
    assert sorted(job.nodes()) == ["eu-h100-0", LOST]
    rank = job.nodes().index(LOST)
    shares = [worker["share"] for worker in plan_file(job)["workers"]]
    assert shares == pytest.approx([0.5, 0.5], abs=0.1)

    api.patch(cordoned, {"spec": {"unschedulable": True}})
    api.delete(f"/api/v1/namespaces/{space}/pods/parted-worker-{rank}", gracePeriodSeconds="0")
    job.wait(lambda: job.reason() == "Partitioning", "other partitions are not wanted", PATIENCE_SECONDS)
    job.wait(lambda: key_of(partition_job(job)) not in ("", key_of(first)), "no Job for the other shares", PATIENCE_SECONDS)
    assert plan_file(job)["planId"] == job.plan()["id"]
    assert plan_file(job)["workers"][rank]["share"] < 0.9 * shares[rank]
    assert job.pods()[rank]["spec"]["schedulingGates"], "the replaced rank waits"
    finish(job)
    job.wait(lambda: all(job.pod_nodes()) and job.pod_nodes() == job.nodes(), "the replaced rank is not placed", PATIENCE_SECONDS)
    assert LOST not in job.nodes()
    assert job.condition("Partitioned")["status"] == "True"
