"""A launcher on a node that is gone: its Job keeps it until its failure is reported, which no component does."""

from __future__ import annotations

import time

import pytest
from kubernetes.aio import client as kubernetes_client
from kubernetes.aio import config as kubernetes_config

from e2e.cluster.components import ensure_namespace
from e2e.jobs import PATIENCE_SECONDS
from hyperscale.control.apply.actions import Actions
from hyperscale.control.apply.client import ApiClient
from hyperscale.control.cache.cluster_cache import ClusterCache
from hyperscale.model.decision import DeletePods, Reason
from hyperscale.model.meta import RenderDefaults
from hyperscale.model.pods import PodView
from hyperscale.observe.kube.fields import pod_view
from tests.builders.seen import seen
from tests.fault.conftest import Stage

TRACKED = "batch.kubernetes.io/job-tracking"
FOREIGN = "example.com/audit"


@pytest.fixture
def pods(stage: Stage) -> str:
    """Path of the pods of a namespace in which nothing else is."""
    ensure_namespace(stage.api, "stuck")
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
    stage.api.apply("/api/v1/namespaces/stuck/serviceaccounts/default", account)
    return "/api/v1/namespaces/stuck/pods"


async def delete_by_force(stage: Stage, pod: PodView) -> None:
    """With the operator's own rights."""
    configuration = kubernetes_client.Configuration()
    await kubernetes_config.load_kube_config(str(stage.kubeconfig), client_configuration=configuration)  # type: ignore[no-untyped-call]
    client = ApiClient(kubernetes_client.ApiClient(configuration), PATIENCE_SECONDS)
    try:
        actions = Actions(client, ClusterCache(), RenderDefaults(worker_image="one"), lambda point: None, time.time)
        await actions.delete_pods(seen(pods=(pod,)), DeletePods(Reason.NODE_LOST, pod_uids=(pod.uid,), force=True))
    finally:
        await client.close()


@pytest.mark.parametrize(
    ("role", "finalizers", "left"),
    [("launcher", [TRACKED], None), ("launcher", [TRACKED, FOREIGN], [FOREIGN]), ("worker", [TRACKED], [TRACKED]), ("worker", [], None)],
    ids=["a launcher of its Job", "somebody else waits for it too", "a worker, which is no Job's", "a worker"],
)
async def test_deleted_by_force_it_is_gone_although_its_job_would_keep_it(
    stage: Stage, pods: str, role: str, finalizers: list[str], left: list[str] | None
) -> None:
    labels = {"training.kubeflow.org/job-name": "cora", "training.kubeflow.org/job-role": role}
    metadata = {"name": "stuck", "labels": labels, "finalizers": finalizers}
    pod = {"nodeName": "eu-h100-0", "containers": [{"name": "one", "image": "one"}]}
    stage.api.create(pods, {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": pod})
    stage.api.delete(f"{pods}/stuck")
    hangs = pod_view(stage.api.get(f"{pods}/stuck"))
    assert hangs.terminating, "no kubelet says that it has ended"
    await delete_by_force(stage, hangs)
    found = stage.api.find(f"{pods}/stuck")
    if found is not None:
        stage.api.patch(f"{pods}/stuck", {"metadata": {"finalizers": None}})
    assert (found and found["metadata"]["finalizers"]) == left
