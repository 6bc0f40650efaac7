"""An MPIJob that another than the operator suspends: a person, Kueue without a queue label, any controller. It stays suspended."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from e2e.jobs import Job
from tests.fault.admission import suspending_webhook
from tests.fault.conftest import Stage
from tests.fault.players import create_workers, gates, is_suspended, set_suspend, wait_suspended, writes_to_mpijob
from tests.fault.process import OperatorProcess
from tests.fault.proxy import FaultProxy

WORKLOADS: Final = "/apis/kueue.x-k8s.io/v1beta1/namespaces/{}/workloads"


def wait_open(job: Job) -> None:
    job.wait(lambda: bool(job.pods()) and not any(gates(pod) for pod in job.pods()), "the gates stay closed")


def test_a_person_who_suspends_the_mpijob_is_obeyed_and_so_is_the_one_who_resumes_it(
    operator: OperatorProcess, proxy: FaultProxy, job: Job
) -> None:
    job.create()
    job.wait_reason("Starting")
    since = len(proxy.asked)
    set_suspend(job, True)
    told = wait_suspended(job, "SuspendedExternally")
    assert told["status"] == "True"
    assert "kubectl-patch" in told["message"]
    assert f"kubectl patch mpijob {job.name} -n {job.namespace}" in told["message"]
    assert job.state() == "Queued"
    job.patch(metadata={"annotations": {"example.com/touched": "yes"}})  # a reason to look again
    assert is_suspended(job)
    set_suspend(job, False)
    create_workers(job)
    wait_open(job)
    job.wait(lambda: job.condition("Suspended")["status"] == "False", "it still counts as suspended")
    assert writes_to_mpijob(proxy, job, since) == 0


def test_a_webhook_that_suspends_every_mpijob_is_not_fought(
    stage: Stage, operator: OperatorProcess, proxy: FaultProxy, job: Job, tmp_path: Path
) -> None:
    since = len(proxy.asked)
    with suspending_webhook(stage.api, job.namespace, tmp_path) as webhook:
        job.create()
        wait_suspended(job, "SuspendedExternally")
        assert is_suspended(job)
        webhook.admits = True
        set_suspend(job, False, "kueue")
        create_workers(job)
        wait_open(job)
    assert writes_to_mpijob(proxy, job, since) == 0


def test_a_person_who_resumes_against_the_spec_is_not_overruled_and_no_gate_opens(
    operator: OperatorProcess, proxy: FaultProxy, job: Job
) -> None:
    job.create()
    job.wait_reason("Starting")
    job.patch(spec={"runPolicy": {"suspend": True}})
    job.wait_reason("Suspended")
    since = len(proxy.asked)
    set_suspend(job, False)
    job.wait_reason("ResumedExternally")
    create_workers(job)
    job.wait(lambda: job.status()["workers"]["planned"] == 2, "its pods are not seen")
    assert all(gates(pod) for pod in job.pods())
    assert writes_to_mpijob(proxy, job, since) == 0
    job.patch(spec={"runPolicy": {"suspend": False}})
    wait_open(job)


@pytest.fixture
def kueue(stage: Stage) -> Iterator[None]:
    """Kueue's Workloads are known to the API server."""
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": "workloads.kueue.x-k8s.io",
            "annotations": {"api-approved.kubernetes.io": "https://github.com/kubernetes-sigs/kueue"},
        },
        "spec": {
            "group": "kueue.x-k8s.io",
            "names": {"kind": "Workload", "plural": "workloads", "singular": "workload"},
            "scope": "Namespaced",
            "versions": [{"name": "v1beta1", "served": True, "storage": True, "schema": schema}],
        },
    }
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    made = stage.api.create(path, definition)
    from e2e.cluster.components import wait_established

    wait_established(stage.api, f"{path}/{made['metadata']['name']}")
    yield
    stage.api.delete(f"{path}/{made['metadata']['name']}")


def own_workload(job: Job, name: str) -> None:
    """Kueue makes the Workload that stands for an MPIJob."""
    mpijob = job.mpijob() or {}
    owner = {"apiVersion": mpijob["apiVersion"], "kind": "MPIJob", "name": job.name, "uid": mpijob["metadata"]["uid"], "controller": True}
    metadata = {"name": name, "labels": {"kueue.x-k8s.io/job-uid": owner["uid"]}, "ownerReferences": [owner]}
    workload = {"apiVersion": "kueue.x-k8s.io/v1beta1", "kind": "Workload", "metadata": metadata}
    job.api.create(WORKLOADS.format(job.namespace), workload)


def test_an_mpijob_that_kueue_manages_without_a_queue_label_waits_for_its_workload(
    kueue: None, operator: OperatorProcess, proxy: FaultProxy, job: Job
) -> None:
    job.create()
    job.wait_reason("Starting")
    since = len(proxy.asked)
    own_workload(job, "mpijob-cora-1a2b3")
    set_suspend(job, True, "kueue")
    told = wait_suspended(job, "QueuedByKueue")
    assert '"mpijob-cora-1a2b3"' in told["message"]
    assert writes_to_mpijob(proxy, job, since) == 0
    assert is_suspended(job)
