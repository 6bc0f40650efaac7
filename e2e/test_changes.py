"""The cluster changes under a job: no room, room again, a lost worker, a lost node, a cordon, two jobs for one place."""

from __future__ import annotations

import functools
from collections.abc import Iterator

import pytest

from e2e.cluster.api import Api
from e2e.cluster.cluster import Cluster
from e2e.cluster.control_plane import wait_until
from e2e.cluster.operator import OperatorProcess
from e2e.jobs import Job, namespace

FAILURE_LABEL = "hyperscale.dev/simulated-node-failure"
WHOLE_NODES = {"minReplicas": 2, "maxReplicas": 2, "resources": {"limits": {"nvidia.com/gpu": 8}}}


@pytest.fixture
def space(calm: Cluster, operator: OperatorProcess) -> Iterator[str]:
    with namespace(calm.api(), "changes") as name:
        yield name


@pytest.fixture
def nodes(calm: Cluster) -> Iterator[Cluster]:
    """The cluster, whose nodes are all well again after the test."""
    yield calm
    api = calm.api()
    for node in api.items("/api/v1/nodes"):
        name = node["metadata"]["name"]
        api.patch(f"/api/v1/nodes/{name}", {"metadata": {"labels": {FAILURE_LABEL: None}}, "spec": {"unschedulable": None}})
    for node in api.items("/api/v1/nodes"):
        path = f"/api/v1/nodes/{node['metadata']['name']}"
        wait_until(functools.partial(_untainted, api, path), 30, f"{path} stays tainted")


def test_a_job_without_room_says_why_and_starts_when_another_ends(nodes: Cluster, space: str) -> None:
    api = nodes.api()
    product = {"nodeSelector": {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}}
    first, second = Job(api, space, "first"), Job(api, space, "second")
    first.create(workers=WHOLE_NODES, placement=product)
    first.wait_state("Running")
    second.create(workers=WHOLE_NODES, placement=product)
    second.wait_reason("InsufficientGPUs")
    condition = second.condition("Planned")
    assert condition["status"] == "False"
    assert "16" in condition["message"]
    assert second.mpijob() is None
    first.remove()
    second.wait_bound()
    assert second.pod_nodes() == second.nodes()


def test_of_many_jobs_for_few_gpus_each_runs_whole_or_waits_whole(nodes: Cluster, space: str) -> None:
    api = nodes.api()
    product = {"nodeSelector": {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}}
    jobs = [Job(api, space, f"rival-{number}") for number in range(5)]
    for job in jobs:
        job.create(workers={"minReplicas": 3, "maxReplicas": 3, "resources": {"limits": {"nvidia.com/gpu": 2}}}, placement=product)
    for job in jobs:
        job.wait(functools.partial(_settled, job), "neither runs nor waits")
    running = [job for job in jobs if job.reason() == "Running"]
    assert len(running) == 2, "16 GPUs hold two jobs of 6"
    for job in running:
        assert job.pod_nodes() == job.nodes()
    for job in jobs:
        assert job in running or job.pods() == []


def test_only_the_lost_worker_is_replaced_and_the_others_stay(nodes: Cluster, space: str) -> None:
    api = nodes.api()
    job = Job(api, space, "cora")
    job.create(workers={"minReplicas": 3, "maxReplicas": 3})
    job.wait_state("Running")
    before = {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in job.pods()}
    planned = job.plan()["id"]
    api.delete(f"/api/v1/namespaces/{space}/pods/cora-worker-1", gracePeriodSeconds="0")
    job.wait(lambda: len(job.pods()) == 3 and job.pods()[1]["metadata"]["uid"] != before["cora-worker-1"], "no replacement came")
    job.wait_bound()
    after = {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in job.pods()}
    assert {name for name in before if before[name] != after[name]} == {"cora-worker-1"}
    assert job.pod_nodes() == job.nodes()
    assert job.plan()["id"] == planned


def test_a_worker_lost_with_its_node_is_planned_onto_another_and_the_others_stay(nodes: Cluster, space: str) -> None:
    api = nodes.api()
    job = Job(api, space, "cora")
    job.create(workers=WHOLE_NODES)
    job.wait_state("Running")
    stays, lost = job.nodes()
    uid = job.pods()[0]["metadata"]["uid"]
    api.patch(f"/api/v1/nodes/{lost}", {"spec": {"unschedulable": True}})
    api.delete(f"/api/v1/namespaces/{space}/pods/cora-worker-1", gracePeriodSeconds="0")
    job.wait(lambda: job.nodes()[1:] not in ([], [lost]), "the lost rank was not planned again")
    job.wait_bound()
    assert job.nodes()[0] == stays
    assert job.pods()[0]["metadata"]["uid"] == uid
    assert job.pod_nodes() == job.nodes()
    job.wait(lambda: job.status()["planChanges"] == 1, "the replan is not counted")


def test_a_node_that_blinks_changes_nothing(nodes: Cluster, space: str) -> None:
    api = nodes.api()
    job = Job(api, space, "cora")
    job.create()
    job.wait_state("Running")
    planned, uids = job.plan()["id"], [pod["metadata"]["uid"] for pod in job.pods()]
    node = job.nodes()[0]
    api.patch(f"/api/v1/nodes/{node}", {"metadata": {"labels": {FAILURE_LABEL: "true"}}})
    job.wait(lambda: _ready(api.get(f"/api/v1/nodes/{node}")) != "True", "the node does not fail")
    api.patch(f"/api/v1/nodes/{node}", {"metadata": {"labels": {FAILURE_LABEL: None}}})
    job.wait(lambda: _ready(api.get(f"/api/v1/nodes/{node}")) == "True", "the node does not come back")
    assert job.plan()["id"] == planned
    assert [pod["metadata"]["uid"] for pod in job.pods()] == uids
    assert job.status()["planChanges"] == 0


def test_a_plan_awaiting_approval_is_made_anew_when_its_node_is_cordoned(nodes: Cluster, space: str) -> None:
    api = nodes.api()
    job = Job(api, space, "cora")
    job.create(startPolicy="Manual", workers=WHOLE_NODES)
    job.wait_reason("AwaitingApproval")
    planned, node = job.plan()["id"], job.nodes()[0]
    api.patch(f"/api/v1/nodes/{node}", {"spec": {"unschedulable": True}})
    job.wait(lambda: job.plan()["id"] != planned, "the plan stays")
    assert node not in job.nodes()
    job.patch(metadata={"annotations": {"hyperscale.dev/approved-plan": planned}})
    job.wait(lambda: planned in job.condition("Approved").get("message", ""), "the stale approval is not told")
    assert job.mpijob() is None
    job.patch(metadata={"annotations": {"hyperscale.dev/approved-plan": job.plan()["id"]}})
    job.wait_bound()


def _settled(job: Job) -> bool:
    return job.reason() in ("Running", "InsufficientGPUs", "WaitingForAdmission")


def _untainted(api: Api, path: str) -> bool:
    return "taints" not in api.get(path)["spec"]


def _ready(node: dict[str, dict[str, list[dict[str, str]]]]) -> str:
    return next((one["status"] for one in node["status"]["conditions"] if one["type"] == "Ready"), "")
