"""Jobs that pass the API server and still cannot be used: each has the field reported, and none stops the others."""

from __future__ import annotations

from typing import Any

import pytest

from e2e.jobs import Job
from tests.fault.conftest import Stage
from tests.fault.process import OperatorProcess
from tests.fault.watching import wait_created

NEARLY_ETCDS_LIMIT = 1_400_000


def template(**spec: Any) -> dict[str, Any]:
    """A worker template with this pod spec."""
    return {"workers": {"minReplicas": 2, "maxReplicas": 2, "template": {"spec": spec}}}


def nested(levels: int) -> object:
    """Lists in lists."""
    value: object = 1
    for _ in range(levels):
        value = [value]
    return value


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "1.4 MB of annotation": (
        {"workers": {"maxReplicas": 2, "template": {"metadata": {"annotations": {"note": "x" * NEARLY_ETCDS_LIMIT}}}}},
        "spec: larger than 65535 bytes",
    ),
    "70,000 values": (template(containers=[{"name": "worker", "args": [""] * 70_000}]), "spec: larger than 65535 bytes"),
    "100 levels": (template(containers=[{"name": "worker", "args": nested(100)}]), "spec.workers.template.spec.containers"),
    "a number beyond 64 bits": (template(priority=2**63), "spec.workers.template.spec.priority"),
    "text for containers": (template(containers="worker"), "spec.workers.template.spec.containers"),
    "null for a container": (template(containers=[None]), "spec.workers.template.spec.containers[0]"),
    "privileged": (
        template(containers=[{"name": "worker", "securityContext": {"privileged": True}}]),
        "spec.workers.template.spec.containers[0].securityContext.privileged",
    ),
    "a path of the host": (template(volumes=[{"name": "root", "hostPath": {"path": "/"}}]), "spec.workers.template.spec.volumes[0]"),
    "the host's network": (template(hostNetwork=True), "spec.workers.template.spec.hostNetwork"),
    "a node by name": (template(nodeName="eu-h100-0"), "spec.workers.template.spec.nodeName"),
    "other resources in the template": (
        template(containers=[{"name": "worker", "resources": {"limits": {"nvidia.com/gpu": 8}}}]),
        "spec.workers.template.spec.containers[0].resources.limits[nvidia.com/gpu]",
    ),
    "a field that no template has": ({"workers": {"maxReplicas": 2, "template": {"status": {}}}}, "spec.workers.template.status"),
    "a launcher of lists": ({"launcher": {"template": {"spec": ["a", "b"]}}}, "spec.launcher.template.spec"),
    "a policy that does not exist": ({"policyRef": {"name": "nowhere"}}, "spec.policyRef"),
}


TOO_LARGE = {"1.4 MB of annotation", "70,000 values", "100 levels", "a number beyond 64 bits"}
"""Refused before anybody looks at what the template says."""


def reason_of(name: str) -> str:
    return "InvalidPodTemplate" if name not in TOO_LARGE and ".template." in BAD[name][1] else "InvalidSpec"


def check_told(job: Job, path: str, reason: str) -> None:
    """The job must name the field, and nothing may have been made from it."""
    job.wait_reason(reason)
    stalled = job.condition("Stalled")
    assert (stalled["status"], stalled["reason"]) == ("True", reason)
    assert stalled["message"].startswith(path)
    assert len(stalled["message"]) < 1024
    assert job.state() == "Pending"
    assert job.mpijob() is None


@pytest.mark.parametrize("name", BAD)
def test_a_job_that_cannot_be_used_says_which_field(operator: OperatorProcess, job: Job, name: str) -> None:
    (spec, path), reason = BAD[name], reason_of(name)
    job.create(**spec)
    check_told(job, path, reason)
    job.wait(lambda: [event["reason"] for event in job.events()] == [reason], "no event")
    assert operator.probe("/healthz") == 200


def test_a_repaired_job_goes_on(operator: OperatorProcess, job: Job) -> None:
    job.create(**template(hostNetwork=True))
    job.wait_reason("InvalidPodTemplate")
    job.patch(spec={"workers": {"template": None}})
    wait_created(job)
    assert not job.condition("Stalled")


def test_a_template_that_only_the_api_server_can_judge_is_refused_by_its_dry_run(operator: OperatorProcess, job: Job) -> None:
    job.create(**template(containers=[{"name": "worker", "ports": [{"containerPort": 70_000}]}]))
    job.wait_reason("InvalidPodTemplate")
    assert job.condition("Stalled")["message"].startswith("spec.workers.template: ")
    assert job.mpijob() is None


def test_fields_that_the_api_server_prunes_do_no_harm(operator: OperatorProcess, job: Job) -> None:
    job.create(wrokers={"maxReplicas": 9}, model={"architecture": "GCN", "colour": "red"})
    wait_created(job)
    assert "wrokers" not in job.resource()["spec"]


def test_a_quota_without_room_is_told_as_such_and_the_job_starts_when_it_has(
    operator: OperatorProcess, stage: Stage, job: Job, space: str
) -> None:
    quota = f"/api/v1/namespaces/{space}/resourcequotas/few"
    hard = {"count/mpijobs.kubeflow.org": "0"}
    body = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "few"}, "spec": {"hard": hard}}
    stage.api.create(quota.rpartition("/")[0], body)
    stage.api.patch(f"{quota}/status", {"status": {"hard": hard, "used": hard}})  # no controller counts here
    job.create()
    # Before the API server has seen the status of the quota, it refuses in other words.
    job.wait(lambda: "exceeded quota: few" in job.condition("Reconciling").get("message", ""), "the quota is not named")
    assert job.reason() == "QuotaExceeded"
    assert not job.condition("Stalled")
    assert job.state() != "Failed"
    stage.api.delete(quota)
    job.patch(metadata={"annotations": {"example.com/look": "again"}})
    wait_created(job)
