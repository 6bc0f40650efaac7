"""The Job that reads the sizes of a graph, on a real API server: before the first plan, once, and never one of somebody else."""

from __future__ import annotations

import json

from e2e.jobs import Job
from tests.fault.companions import SIZES, STORED, end_job, inspect_job, posts, report
from tests.fault.process import OperatorProcess
from tests.fault.proxy import FaultProxy


def test_a_job_without_sizes_is_planned_by_those_that_were_read(operator: OperatorProcess, proxy: FaultProxy, job: Job) -> None:
    since = len(proxy.asked)
    job.create(dataset=STORED)
    job.wait_reason("InspectingDataset")
    assert job.condition("Planned")["status"] == "False"
    assert job.mpijob() is None
    report(job, json.dumps(SIZES))
    end_job(job, inspect_job(job), "Complete")
    job.wait_reason("Starting")
    told = job.status()["dataset"]
    assert {name: told[name] for name in SIZES} == SIZES
    assert told["source"] == "Read"
    assert posts(proxy, job, "jobs", since) == 1


def test_another_dataset_is_read_anew_before_the_next_plan(operator: OperatorProcess, job: Job) -> None:
    job.create(dataset=STORED, startPolicy="Never")
    job.wait_reason("InspectingDataset")
    report(job, json.dumps(SIZES))
    end_job(job, inspect_job(job), "Complete")
    job.wait_reason("StartPolicyNever")
    first = job.api.get(inspect_job(job))["metadata"]["uid"]
    job.patch(spec={"dataset": {"path": "other.npz"}})
    job.wait_reason("InspectingDataset")
    job.wait(lambda: (job.api.find(inspect_job(job)) or {"metadata": {"uid": first}})["metadata"]["uid"] != first, "no new Job")
    assert "plan" not in job.status()
    report(job, json.dumps({**SIZES, "vertices": 3000}), name="second")
    end_job(job, inspect_job(job), "Complete")
    job.wait_reason("StartPolicyNever")
    assert job.status()["dataset"]["vertices"] == 3000


def test_a_graph_that_cannot_be_read_says_why(operator: OperatorProcess, job: Job) -> None:
    job.create(dataset=STORED)
    job.wait_reason("InspectingDataset")
    report(job, "own.npz: has no features", phase="Failed")
    end_job(job, inspect_job(job), "Failed", "BackoffLimitExceeded")
    job.wait_reason("DatasetUnreadable")
    assert "own.npz: has no features" in job.condition("Planned")["message"]
    assert job.condition("Stalled")["status"] == "True"
    job.patch(spec={"dataset": {"vertices": 2708, "edges": 10556, "featureSize": 1433, "classes": 7}})
    job.wait_reason("Starting")
    assert job.status()["dataset"]["source"] == "Spec"


def test_an_inspect_job_of_somebody_else_is_left_alone_and_not_believed(operator: OperatorProcess, job: Job) -> None:
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "example.com/theirs:1"}]}}
    theirs = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": f"{job.name}-inspect"}, "spec": {"template": template}}
    made = job.api.create(inspect_job(job).rpartition("/")[0], theirs)
    job.create(dataset=STORED)
    job.wait_reason("NameConflict")
    assert job.api.get(inspect_job(job))["metadata"]["uid"] == made["metadata"]["uid"]
    assert job.mpijob() is None


def test_a_pod_of_somebody_else_reports_nothing(operator: OperatorProcess, job: Job) -> None:
    job.create(dataset=STORED)
    job.wait_reason("InspectingDataset")
    report(job, json.dumps({**SIZES, "vertices": 1}), name="forged", owner="someone-else")
    report(job, json.dumps(SIZES), name="own")
    end_job(job, inspect_job(job), "Complete")
    job.wait_reason("Starting")
    assert job.status()["dataset"]["vertices"] == 2708


def test_a_report_that_is_gone_is_made_again(operator: OperatorProcess, job: Job) -> None:
    job.create(dataset=STORED)
    job.wait_reason("InspectingDataset")
    first = job.api.get(inspect_job(job))["metadata"]["uid"]
    end_job(job, inspect_job(job), "Complete")
    job.wait(lambda: (job.api.find(inspect_job(job)) or {"metadata": {"uid": first}})["metadata"]["uid"] != first, "no new Job")
    report(job, json.dumps(SIZES))
    end_job(job, inspect_job(job), "Complete")
    job.wait_reason("Starting")
