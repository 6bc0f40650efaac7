"""A launcher that fails leaves its last line; the job's conditions say it, while the launcher is tried again and after the last attempt."""

from __future__ import annotations

from e2e.jobs import Job
from tests.fault.players import create_launcher
from tests.fault.process import OperatorProcess
from tests.fault.watching import wait_created

WORDS = "hyperscale.training.worker: spec.workers.template: the image's Horovod was built without CUDA and NCCL"


def fail(job: Job, message: str) -> str:
    """The kubelet reports the end of the launcher; its pod's path."""
    pod = create_launcher(job)
    path = f"/api/v1/namespaces/{job.namespace}/pods/{pod['metadata']['name']}"
    ended = {"exitCode": 2, "reason": "Error", "message": message}
    container = {"name": pod["spec"]["containers"][0]["name"], "image": "one", "imageID": "one", "ready": False, "restartCount": 0}
    job.api.patch(f"{path}/status", {"status": {"phase": "Failed", "containerStatuses": [{**container, "state": {"terminated": ended}}]}})
    return path


def say(job: Job, **conditions: tuple[str, str, str]) -> None:
    """mpi-operator's conditions: status, reason, message."""
    told = [{"type": kind, "status": value, "reason": why, "message": text} for kind, (value, why, text) in conditions.items()]
    job.api.patch(f"{job.mpijob_path}/status", {"status": {"conditions": told}})


def test_why_a_launcher_failed_is_told_by_the_jobs_conditions(operator: OperatorProcess, job: Job) -> None:
    job.create()
    wait_created(job)
    path = fail(job, f"noise\n{WORDS}\n")
    say(job, Created=("True", "MPIJobCreated", "created"), Running=("False", "MPIJobSuspended", "MPIJob team/cora is restarting"))
    job.wait(lambda: WORDS in job.condition("Running").get("message", ""), "Running does not say why the launcher failed")
    say(job, Failed=("True", "BackoffLimitExceeded", "MPIJob team/cora has failed"), Running=("False", "MPIJobFailed", "failed"))
    job.wait_reason("Failed")
    wanted = f"MPIJob team/cora has failed; the launcher's last line: {WORDS}"
    job.wait(lambda: job.condition("Failed").get("message") == wanted, "Failed does not say why the launcher failed")
    assert job.condition("Stalled")["message"] == wanted
    job.api.delete(path, gracePeriodSeconds="0")
    job.api.patch(job.path, {"metadata": {"annotations": {"touched": "once"}}})
    job.wait(lambda: job.api.find(path) is None, "the launcher's pod is there")
    assert job.condition("Failed")["message"] == wanted
