"""An MPIJob of the job's name that is not the job's: it is left alone, and the job says so once."""

from __future__ import annotations

from typing import Any

import pytest

from e2e.jobs import Job
from tests.fault.process import OperatorProcess
from tests.fault.proxy import FaultProxy

FORGED_OWNER = {
    "apiVersion": "hyperscale.dev/v1alpha1",
    "kind": "GNNTrainingJob",
    "name": "cora",
    "uid": "00000000-0000-4000-8000-000000000000",
    "controller": True,
    "blockOwnerDeletion": True,
}
FOREIGN: dict[str, dict[str, Any]] = {
    "no owner": {},
    "another owner": {"ownerReferences": [FORGED_OWNER]},
    "forged labels": {"labels": {"hyperscale.dev/job-name": "cora", "app.kubernetes.io/managed-by": "hyperscale"}},
}


def foreign(job: Job, metadata: dict[str, Any]) -> dict[str, Any]:
    """An MPIJob of the job's name, made by another owner."""
    pod = {"spec": {"containers": [{"name": "main", "image": "example.com/theirs:1"}]}}
    return job.api.create(
        job.mpijob_path.rpartition("/")[0],
        {
            "apiVersion": "kubeflow.org/v2beta1",
            "kind": "MPIJob",
            "metadata": {"name": job.name, **metadata},
            "spec": {"mpiReplicaSpecs": {"Launcher": {"replicas": 1, "template": pod}, "Worker": {"replicas": 1, "template": pod}}},
        },
    )


def conflicts(job: Job) -> list[dict[str, Any]]:
    return [event for event in job.events() if event["reason"] == "NameConflict"]


@pytest.mark.parametrize("metadata", FOREIGN.values(), ids=FOREIGN.keys())
def test_a_foreign_mpijob_of_the_same_name_is_left_alone(
    operator: OperatorProcess, proxy: FaultProxy, job: Job, metadata: dict[str, Any]
) -> None:
    theirs = foreign(job, metadata)
    since = len(proxy.asked)
    job.create()
    job.wait_reason("NameConflict")
    stalled = job.condition("Stalled")
    assert (stalled["status"], stalled["reason"]) == ("True", "NameConflict")
    assert "delete it or rename this job" in stalled["message"]
    job.wait(lambda: len(conflicts(job)) == 1, "no event")
    job.api.patch(job.mpijob_path, {"metadata": {"annotations": {"example.com/touched": "yes"}}})  # a reason to look again
    job.patch(spec={"runPolicy": {"suspend": True}})
    job.wait(lambda: job.status()["observedGeneration"] == 2, "the new generation is not seen")
    assert job.reason() == "NameConflict"
    assert len(conflicts(job)) == 1
    assert (job.mpijob() or {})["spec"] == theirs["spec"]
    assert not proxy.asked_since(since, lambda asked: asked.path == job.mpijob_path and asked.method != "GET")
    assert not proxy.asked_since(since, lambda asked: asked.method == "POST" and asked.path.endswith("/mpijobs"))


def test_when_the_foreign_mpijob_goes_the_job_gets_its_own(operator: OperatorProcess, job: Job) -> None:
    theirs = foreign(job, {})
    job.create()
    job.wait_reason("NameConflict")
    job.api.delete(job.mpijob_path)
    job.wait_reason("Starting")
    ours = job.mpijob() or {}
    assert ours["metadata"]["uid"] != theirs["metadata"]["uid"]
    (owner,) = ours["metadata"]["ownerReferences"]
    assert owner["uid"] == job.resource()["metadata"]["uid"]
    assert not job.condition("Stalled")


def test_a_foreign_mpijob_that_comes_between_plan_and_create_is_left_alone(operator: OperatorProcess, proxy: FaultProxy, job: Job) -> None:
    with proxy.holding(lambda asked: asked.method == "POST" and asked.path.endswith("/mpijobs")) as held:
        job.create()
        job.wait(lambda: bool(held.caught), "no create")
        theirs = foreign(job, {})
    job.wait_reason("NameConflict")
    assert (job.mpijob() or {})["metadata"]["uid"] == theirs["metadata"]["uid"]
    assert "mpiJobRef" not in job.status()
