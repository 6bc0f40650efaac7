"""What keeps a rank from its planned node: known before, or found out by the real scheduler, and then no rank holds GPUs for nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import pytest

from e2e.cluster.api import Api
from e2e.cluster.cluster import Cluster
from e2e.cluster.control_plane import wait_until
from e2e.cluster.operator import OperatorProcess
from e2e.jobs import COMPUTING, Job, namespace

HOSTNAME: Final = "kubernetes.io/hostname"
ZONE: Final = "topology.kubernetes.io/zone"
RDMA: Final = "rdma/hca"
WHOLE_NODES: Final = {"minReplicas": 2, "maxReplicas": 2, "resources": {"limits": {"nvidia.com/gpu": 8}}}
TIMEOUT_SECONDS: Final = 20


@pytest.fixture
def space(calm: Cluster, operator: OperatorProcess, request: pytest.FixtureRequest) -> Iterator[str]:
    api = calm.api()
    with namespace(api, "refused-" + str(abs(hash(request.node.name)))[:8]) as name:
        yield name
    for pod in api.items(f"/api/v1/namespaces/{name}/pods"):
        api.delete(f"/api/v1/namespaces/{name}/pods/{pod['metadata']['name']}", gracePeriodSeconds="0")


def occupy(api: Api, space: str, node: str) -> None:
    """A pod without GPUs that others keep away from."""
    account = f"/api/v1/namespaces/{space}/serviceaccounts/default"
    wait_until(lambda: api.find(account) is not None, 30, "the namespace has no service account")
    path = f"/api/v1/namespaces/{space}/pods"
    spec = {"nodeSelector": {HOSTNAME: node}, "containers": [{"name": "main", "image": "example.com/noisy:1"}]}
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "noisy", "labels": {"app": "noisy"}}, "spec": spec}
    api.create(path, body)
    wait_until(lambda: bool(api.get(f"{path}/noisy")["spec"].get("nodeName")), 30, "the pod is on no node")


def away_from_noise() -> dict[str, Any]:
    """A worker template that keeps away from such pods; the planner does not know where they are."""
    term = {"topologyKey": HOSTNAME, "labelSelector": {"matchLabels": {"app": "noisy"}}}
    return {"template": {"spec": {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}}}


def pod_uids(job: Job) -> set[str]:
    return {pod["metadata"]["uid"] for pod in job.pods()}


def test_a_rank_that_the_scheduler_refuses_releases_the_others_and_all_run_elsewhere(calm: Cluster, space: str) -> None:
    api = calm.api()
    occupy(api, space, "eu-h100-1")
    job = Job(api, space, "cora")
    job.create(workers=WHOLE_NODES | away_from_noise(), recovery={"schedulingTimeoutSeconds": TIMEOUT_SECONDS}, **COMPUTING)
    job.wait(lambda: "eu-h100-1" in job.nodes(), "it is not planned where the scheduler refuses")
    job.wait(lambda: sorted(job.pod_nodes()) == ["", "eu-h100-0"], "one rank is not refused")
    first = pod_uids(job)
    uid = (job.mpijob() or {})["metadata"]["uid"]
    job.wait(lambda: job.condition("Placed").get("reason") == "SchedulingTimeout", "nothing is said")
    assert "anti-affinity" in job.condition("Placed")["message"]
    job.wait(lambda: job.pod_nodes() == job.nodes() and all(job.nodes()) and "eu-h100-1" not in job.nodes(), "it does not run elsewhere")
    job.wait_state("Running")
    assert not first & pod_uids(job), "the gang was released as one"
    assert (job.mpijob() or {})["metadata"]["uid"] == uid
    rejections = {entry["node"]: entry for entry in job.plan()["rejected"]}
    assert rejections["eu-h100-1"]["reason"] == "SchedulerRefused"
    assert "anti-affinity" in rejections["eu-h100-1"]["message"]
    assert [event["type"] for event in job.events() if event["reason"] == "SchedulingTimeout"] == ["Warning"]


def test_a_device_that_no_node_offers_is_told_at_once_and_found_where_it_appears(calm: Cluster, space: str) -> None:
    api, node = calm.api(), "/api/v1/nodes/us-l40s-1/status"
    job = Job(api, space, "cora")
    job.create(workers={"minReplicas": 1, "maxReplicas": 1, "resources": {"limits": {RDMA: 1}}})
    job.wait_reason("NeverFits")
    assert RDMA in job.condition("Planned")["message"]
    assert job.condition("Stalled")["reason"] == "NeverFits"
    assert job.mpijob() is None
    try:
        api.patch(node, {"status": {"allocatable": {RDMA: "1"}, "capacity": {RDMA: "1"}}})
        job.wait_bound()
        assert job.pod_nodes() == ["us-l40s-1"]
    finally:
        job.remove()
        api.patch(node, {"status": {"allocatable": {RDMA: None}, "capacity": {RDMA: None}}})


def test_required_node_affinity_is_kept(calm: Cluster, space: str) -> None:
    job = Job(calm.api(), space, "cora")
    terms = [{"matchExpressions": [{"key": "nvidia.com/gpu.family", "operator": "NotIn", "values": ["hopper", "ampere"]}]}]
    required = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}
    job.create(workers={"minReplicas": 2, "maxReplicas": 2, "template": {"spec": {"affinity": required}}})
    job.wait_bound()
    assert job.pod_nodes() == job.nodes()
    assert not {node for node in job.nodes() if "h100" in node or "a100" in node}


def test_ranks_go_where_their_volume_is(calm: Cluster, space: str) -> None:
    api, volume = calm.api(), f"zonal-{space}"
    size, modes = {"storage": "1Gi"}, ["ReadWriteMany"]
    terms = [{"matchExpressions": [{"key": ZONE, "operator": "In", "values": ["ap-south-b"]}]}]
    spec = {"capacity": size, "accessModes": modes, "hostPath": {"path": "/state"}, "claimRef": {"namespace": space, "name": "state"}}
    affinity = {"nodeAffinity": {"required": {"nodeSelectorTerms": terms}}}
    body = {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": volume}, "spec": {**spec, **affinity}}
    api.create("/api/v1/persistentvolumes", body)
    try:
        claims = f"/api/v1/namespaces/{space}/persistentvolumeclaims"
        wanted = {"accessModes": modes, "resources": {"requests": size}, "storageClassName": "", "volumeName": volume}
        api.create(claims, {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "state"}, "spec": wanted})
        wait_until(lambda: api.get(f"{claims}/state")["status"].get("phase") == "Bound", 30, "the claim is not bound")
        job = Job(api, space, "cora")
        job.create(checkpoint={"claimName": "state"})
        job.wait_bound()
        assert {node.rpartition("-")[0] for node in job.pod_nodes()} == {"ap-v100"}
    finally:
        api.delete(f"/api/v1/persistentvolumes/{volume}")


def test_a_taint_that_comes_after_the_plan_makes_another_plan(calm: Cluster, space: str) -> None:
    api = calm.api()
    job = Job(api, space, "cora")
    job.create(startPolicy="Manual", workers=WHOLE_NODES)
    job.wait_reason("AwaitingApproval")
    planned, node = job.plan()["id"], f"/api/v1/nodes/{job.nodes()[0]}"
    try:
        api.patch(node, {"spec": {"taints": [{"key": "reserved", "value": "others", "effect": "NoSchedule"}]}})
        job.wait(lambda: job.plan()["id"] != planned, "the plan stays")
        job.patch(metadata={"annotations": {"hyperscale.dev/approved-plan": job.plan()["id"]}})
        job.wait_bound()
        assert node.rpartition("/")[2] not in job.pod_nodes()
    finally:
        api.patch(node, {"spec": {"taints": None}})
