"""Claims on a real API server: a job is planned where its volumes are, and waits for a claim that does not exist."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any, Final

import pytest

from e2e.jobs import Job
from tests.fault.conftest import Stage
from tests.fault.process import OperatorProcess
from tests.fault.proxy import Answer, FaultProxy

ZONE: Final = "topology.kubernetes.io/zone"
STATE: Final = {"checkpoint": {"claimName": "state"}}
_numbers = itertools.count(1)


def claims(job: Job) -> str:
    return f"/api/v1/namespaces/{job.namespace}/persistentvolumeclaims"


def claim(job: Job, **spec: Any) -> None:
    size = {"requests": {"storage": "1Gi"}}
    body = {"metadata": {"name": "state"}, "spec": {"accessModes": ["ReadWriteMany"], "resources": size, **spec}}
    job.api.create(claims(job), {"apiVersion": "v1", "kind": "PersistentVolumeClaim", **body})


def zones(stage: Stage) -> dict[str, str]:
    return {node["metadata"]["name"]: node["metadata"]["labels"][ZONE] for node in stage.api.items("/api/v1/nodes")}


@pytest.fixture
def volume(stage: Stage) -> Iterator[str]:
    """A PersistentVolume in the zone of the slowest GPUs, which no job chooses of its own accord."""
    name = f"zonal-{next(_numbers)}"
    where = {"key": ZONE, "operator": "In", "values": [zones(stage)["ap-v100-0"]]}
    spec = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteMany"],
        "hostPath": {"path": "/state"},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [where]}]}},
    }
    stage.api.create(
        "/api/v1/persistentvolumes", {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": spec}
    )
    yield name
    stage.api.delete(f"/api/v1/persistentvolumes/{name}")


def test_a_job_is_planned_in_the_zone_of_its_volume(operator: OperatorProcess, stage: Stage, job: Job, volume: str) -> None:
    claim(job, volumeName=volume, storageClassName="")
    job.create(**STATE, startPolicy="Never")
    job.wait_reason("StartPolicyNever")
    known = zones(stage)
    assert {known[node] for node in job.nodes()} == {known["ap-v100-0"]}
    told = {entry["node"]: entry for entry in job.plan()["rejected"]}
    assert told["eu-h100-0"]["reason"] == "Volume"
    assert 'PersistentVolumeClaim "state"' in told["eu-h100-0"]["message"]


def test_an_unbound_claim_is_planned_where_its_class_makes_volumes(operator: OperatorProcess, stage: Stage, job: Job) -> None:
    known = zones(stage)
    path = "/apis/storage.k8s.io/v1/storageclasses"
    topologies = [{"matchLabelExpressions": [{"key": ZONE, "values": [known["ap-v100-0"]]}]}]
    body = {"provisioner": "example.com/disk", "volumeBindingMode": "WaitForFirstConsumer", "allowedTopologies": topologies}
    stage.api.create(path, {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "zonal"}, **body})
    try:
        claim(job, storageClassName="zonal")
        job.create(**STATE, startPolicy="Never")
        job.wait_reason("StartPolicyNever")
        assert {known[node] for node in job.nodes()} == {known["ap-v100-0"]}
    finally:
        stage.api.delete(f"{path}/zonal")


def test_a_job_whose_claim_does_not_exist_waits_before_it_holds_gpus(operator: OperatorProcess, proxy: FaultProxy, job: Job) -> None:
    since = len(proxy.asked)
    job.create(**STATE)
    job.wait_reason("VolumeMissing")
    condition = job.condition("Planned")
    assert condition["status"] == "False"
    assert f'PersistentVolumeClaim "state" does not exist in namespace {job.namespace}' in condition["message"]
    assert job.mpijob() is None
    claim(job)
    job.patch(metadata={"annotations": {"example.com/touched": "yes"}})  # a reason to look again
    job.wait_reason("Starting")
    read = proxy.asked_since(since, lambda asked: asked.path.startswith(claims(job)))
    assert {asked.line for asked in read} == {f"GET {claims(job)}/state"}, "claims are read by name, never listed or watched"


def test_without_the_right_to_read_claims_jobs_are_planned_and_that_is_said_once(
    operator: OperatorProcess, proxy: FaultProxy, job: Job
) -> None:
    with proxy.answering(lambda asked: "persistentvolumeclaims" in asked.path, Answer(403)):
        job.create(**STATE)
        job.wait_reason("Starting")
        other = Job(job.api, job.namespace, "other")
        other.create(**STATE)
        other.wait_reason("Starting")
    assert operator.log.count("persistentvolumeclaims cannot be read") == 1


def test_a_claim_name_that_is_a_path_is_refused_and_never_asked_for(operator: OperatorProcess, proxy: FaultProxy, job: Job) -> None:
    """Joined to a URL, such names read other namespaces, or open watches, with the operator's rights."""
    since = len(proxy.asked)
    odd = {
        "watches": "../../../pods?watch=true&x=1",
        "reads": f"../../{job.namespace}/configmaps/kube-root-ca.crt",
        "nodes": "../../../../nodes/eu-h100-0",
    }
    for name, claim_name in odd.items():
        other = Job(job.api, job.namespace, name)
        volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": claim_name}}]
        other.create(
            workers={"minReplicas": 2, "maxReplicas": 2, "template": {"spec": {"containers": [{"name": "worker"}], "volumes": volumes}}}
        )
        other.wait_reason("InvalidPodTemplate")
        message = other.condition("Planned")["message"]
        assert "spec.workers.template.spec.volumes[0].persistentVolumeClaim.claimName" in message
        assert "is no name of a PersistentVolumeClaim; write 1 to 253 characters" in message
    job.create()
    job.wait_reason("Starting")
    strange = proxy.asked_since(
        since,
        lambda asked: ".." in asked.path or "x=1" in asked.query or "kube-root-ca" in asked.path or asked.path.startswith("/api/v1/nodes/"),
    )
    assert strange == []
