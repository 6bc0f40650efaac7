"""The plan file and the partition Job on a real API server: made once, before what needs them; those of others are not touched."""

from __future__ import annotations

import pytest

from e2e.jobs import Job, claim_unbound
from tests.fault.companions import SHARED, end, partition_job, plan_file, posts, written
from tests.fault.players import create_launcher, create_workers, gates, make_ready
from tests.fault.process import OperatorProcess
from tests.fault.proxy import FaultProxy


@pytest.fixture(autouse=True)
def claim(job: Job) -> None:
    """The job's volume is there."""
    claim_unbound(job.api, job.namespace, "parts")


def test_the_plan_file_is_there_before_the_mpijob_and_says_the_plan(operator: OperatorProcess, proxy: FaultProxy, job: Job) -> None:
    since = len(proxy.asked)
    job.create()
    job.wait_reason("Starting")
    document = written(job)
    assert document["planId"] == job.plan()["id"]
    assert [worker["node"] for worker in document["workers"]] == job.nodes()
    made = [asked.path for asked in proxy.asked_since(since, lambda asked: asked.method == "POST") if job.namespace in asked.path]
    assert [path.rpartition("/")[2] for path in made][:2] == ["configmaps", "mpijobs"]
    (owner,) = job.api.get(plan_file(job))["metadata"]["ownerReferences"]
    assert owner["uid"] == job.resource()["metadata"]["uid"]


def test_the_plan_file_says_the_plan_in_force_when_a_launcher_starts_that_goes_by_it(operator: OperatorProcess, job: Job) -> None:
    """A crash between the file and the record of a plan with other workers leaves the file of a plan that never was in force."""
    job.create(workers={"minReplicas": 1, "maxReplicas": 2})
    job.wait_reason("Starting")
    workers = create_workers(job)
    paths = [f"/api/v1/namespaces/{job.namespace}/pods/{pod['metadata']['name']}" for pod in workers]
    job.wait(lambda: not any(gates(job.api.get(path)) for path in paths), "the workers' gates stay closed")
    job.api.patch(plan_file(job), {"data": {"plan.json": '{"planId": "never in force"}'}})
    launcher = create_launcher(job)
    for pod in workers:
        make_ready(job, pod)
    path = f"/api/v1/namespaces/{job.namespace}/pods/{launcher['metadata']['name']}"
    job.wait(lambda: not gates(job.api.get(path)), "the launcher's gate stays closed")
    assert written(job)["planId"] == job.plan()["id"]


def test_a_plan_file_of_somebody_else_is_left_alone(operator: OperatorProcess, job: Job) -> None:
    theirs = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"{job.name}-plan"}, "data": {"plan.json": "theirs"}}
    job.api.create(plan_file(job).rpartition("/")[0], theirs)
    job.create()
    job.wait_reason("NameConflict")
    assert "ConfigMap" in job.condition("Stalled")["message"]
    assert job.api.get(plan_file(job))["data"] == {"plan.json": "theirs"}
    assert job.mpijob() is None


def test_a_partition_job_of_somebody_else_is_left_alone(operator: OperatorProcess, job: Job) -> None:
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "example.com/theirs:1"}]}}
    theirs = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": f"{job.name}-partition"}, "spec": {"template": template}}
    made = job.api.create(partition_job(job).rpartition("/")[0], theirs)
    job.create(partitioning=SHARED)
    job.wait_reason("NameConflict")
    assert job.api.get(partition_job(job))["metadata"]["uid"] == made["metadata"]["uid"]
    assert job.mpijob() is None


def test_training_waits_for_the_partitions(operator: OperatorProcess, proxy: FaultProxy, job: Job) -> None:
    since = len(proxy.asked)
    job.create(partitioning=SHARED)
    job.wait_state("Partitioning")
    assert job.condition("Partitioned")["status"] == "False"
    assert job.mpijob() is None
    end(job, "Complete")
    job.wait_reason("Starting")
    assert job.condition("Partitioned")["status"] == "True"
    assert posts(proxy, job, "jobs", since) == 1


def test_a_failed_partition_job_says_why_and_one_that_is_deleted_is_made_anew(operator: OperatorProcess, job: Job) -> None:
    job.create(partitioning=SHARED)
    job.wait_state("Partitioning")
    first = job.api.get(partition_job(job))["metadata"]["uid"]
    end(job, "Failed", "needs 40 GiB")
    job.wait_reason("PartitioningFailed")
    assert job.condition("Stalled")["message"] == "needs 40 GiB"
    job.api.delete(partition_job(job), propagationPolicy="Background")
    job.patch(metadata={"annotations": {"example.com/touched": "yes"}})
    job.wait(lambda: (job.api.find(partition_job(job)) or {"metadata": {"uid": first}})["metadata"]["uid"] != first, "no new Job")
    job.wait_state("Partitioning")


def test_other_partitions_replace_the_job_that_made_the_first(operator: OperatorProcess, job: Job) -> None:
    job.create(partitioning=SHARED)
    job.wait_state("Partitioning")
    first = job.api.get(partition_job(job))["metadata"]
    job.patch(spec={"partitioning": {"method": "Random"}})
    label = "hyperscale.dev/partition-key"
    job.wait(
        lambda: (job.api.find(partition_job(job)) or {"metadata": first})["metadata"]["labels"][label] != first["labels"][label],
        "no new Job",
    )
    assert job.mpijob() is None


def test_what_an_earlier_job_of_this_name_left_makes_way(operator: OperatorProcess, job: Job) -> None:
    """There is no garbage collector here: without the operator's own hand the second job would wait for ever."""
    job.create(partitioning=SHARED)
    job.wait_state("Partitioning")
    end(job, "Complete")
    job.wait_reason("Starting")
    left = {job.api.get(path(job))["metadata"]["uid"] for path in (plan_file, partition_job)}
    job.delete()
    job.api.delete(job.mpijob_path)
    job.wait(lambda: job.api.find(job.path) is None and job.mpijob() is None, "the first job stays")
    job.create(partitioning=SHARED)
    job.wait_state("Partitioning")
    end(job, "Complete")
    job.wait_reason("Starting")
    assert written(job)["planId"] == job.plan()["id"]
    assert not left & {job.api.get(path(job))["metadata"]["uid"] for path in (plan_file, partition_job)}
