"""The Job that tries a job's code, on a real API server: what it holds, what it lets pass, and that there is one of it."""

from __future__ import annotations

import json
from typing import Final

import pytest

from e2e.jobs import Job
from tests.fault.companions import end_job, posts, preflight_job, report
from tests.fault.process import OperatorProcess
from tests.fault.proxy import FaultProxy

WELL: Final = json.dumps({"sentence": "3 steps went well", "steps": 3, "peakMemoryBytes": 12345})
NAN: Final = json.dumps({"sentence": "the loss is NaN after step 2", "fault": "NotFinite", "steps": 2})


def policy(job: Job) -> str:
    return f"/apis/networking.k8s.io/v1/namespaces/{job.namespace}/networkpolicies/{job.name}-preflight"


def wait_tried(job: Job, uid: str = "") -> str:
    """The uid of the Job, once there is one other than `uid`."""
    job.wait(lambda: (job.api.find(preflight_job(job)) or {"metadata": {"uid": uid}})["metadata"]["uid"] != uid, "no preflight Job")
    found: str = job.api.get(preflight_job(job))["metadata"]["uid"]
    return found


def test_a_required_preflight_holds_the_start_and_no_gpu_until_it_passed(operator: OperatorProcess, proxy: FaultProxy, job: Job) -> None:
    since = len(proxy.asked)
    job.create(preflight="Require")
    job.wait_reason("Preflighting")
    wait_tried(job)
    assert job.plan() == {}
    assert job.mpijob() is None
    assert job.api.get(policy(job))["spec"]["policyTypes"] == ["Ingress", "Egress"]
    report(job, WELL, role="preflight")
    job.wait_reason("Starting")
    assert (job.condition("Preflight")["status"], job.condition("Preflight")["reason"]) == ("True", "Passed")
    assert job.status()["preflight"]["peakMemoryBytes"] == 12345
    assert posts(proxy, job, "jobs", since) == 1
    job.wait(lambda: "PreflightPassed" in {event["reason"] for event in job.events()}, "no event")


def test_a_fault_stops_the_start_until_the_spec_changes(operator: OperatorProcess, job: Job) -> None:
    job.create(preflight="Require")
    first = wait_tried(job)
    report(job, NAN, phase="Failed", role="preflight")
    job.wait_reason("PreflightFailed")
    assert job.condition("Stalled")["message"] == "NotFinite: the loss is NaN after step 2"
    assert job.mpijob() is None
    end_job(job, preflight_job(job), "Failed", "BackoffLimitExceeded")
    job.patch(spec={"model": {"hiddenSize": 32}})
    wait_tried(job, first)
    report(job, WELL, name="second", role="preflight")
    job.wait_reason("Starting")
    assert job.condition("Preflight")["status"] == "True"


def test_advice_comes_beside_the_start(operator: OperatorProcess, job: Job) -> None:
    job.create(preflight="Advise")
    job.wait_reason("Starting")
    wait_tried(job)
    report(job, NAN, phase="Failed", role="preflight")
    job.wait(lambda: job.condition("Preflight").get("status") == "False", "no advice")
    assert job.reason() == "Starting"
    assert job.mpijob() is not None


@pytest.mark.parametrize("quota", [{"count/jobs.batch": "0"}, {"requests.memory": "1Mi"}], ids=["the Job", "its pod"])
def test_a_quota_that_refuses_is_named_and_tried_again(operator: OperatorProcess, job: Job, quota: dict[str, str]) -> None:
    quotas = f"/api/v1/namespaces/{job.namespace}/resourcequotas"
    job.api.create(quotas, {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "small"}, "spec": {"hard": quota}})
    job.api.patch(f"{quotas}/small/status", {"status": {"hard": quota, "used": dict.fromkeys(quota, "0")}})
    job.create(preflight="Require")
    job.wait_reason("QuotaExceeded")
    assert job.condition("Preflight")["reason"] == "QuotaExceeded"
    assert job.mpijob() is None
    job.api.delete(f"{quotas}/small")
    wait_tried(job)


def test_a_job_of_somebody_else_under_its_name_is_left_alone(operator: OperatorProcess, job: Job) -> None:
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "example.com/theirs:1"}]}}
    theirs = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": f"{job.name}-preflight"}, "spec": {"template": template}}
    made = job.api.create(preflight_job(job).rpartition("/")[0], theirs)
    job.create(preflight="Require")
    job.wait_reason("NameConflict")
    assert job.api.get(preflight_job(job))["metadata"]["uid"] == made["metadata"]["uid"]
    assert job.mpijob() is None
