"""A job's code tried in a real pod before its start: what fails holds the job and no GPU, and what passes trains."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import pytest
import yaml

from e2e import training
from e2e.cluster.api import Object
from e2e.cluster.cluster import Cluster
from e2e.cluster.operator import OperatorProcess, install, start_operator
from e2e.demo import TRAINING_EXAMPLE
from e2e.jobs import Job, namespace, state_of

EPOCHS: Final = 10
TOO_WIDE: Final = 65_536
"""Hidden units: one weight between two such layers takes 16 GiB, the pod has 2."""
TRIED_SECONDS: Final = 240.0
"""A preflight, and the start of its pod on a loaded machine."""


@pytest.fixture(scope="module")
def operator(real_cluster: Cluster) -> Iterator[OperatorProcess]:
    """An operator for nodes that run containers."""
    install(real_cluster)
    process = start_operator(real_cluster)
    yield process
    process.stop()


@pytest.fixture(scope="module")
def space(real_cluster: Cluster, operator: OperatorProcess) -> Iterator[str]:
    """A namespace."""
    with namespace(real_cluster.api(), "preflights") as name:
        yield name


def create(nodes: Cluster, space: str, name: str, preflight: str, **model: object) -> Job:
    """The example's job, short, with another model."""
    spec: dict[str, Any] = yaml.safe_load(TRAINING_EXAMPLE.read_text())["spec"]
    spec["model"] |= {"epochs": EPOCHS, **model}
    spec["preflight"] = preflight
    del spec["checkpoint"]
    job = Job(nodes.api(), space, name)
    job.create(**spec)
    return job


def preflight_pods(job: Job) -> list[Object]:
    """Pods of its preflight."""
    return job.api.items(f"/api/v1/namespaces/{job.namespace}/pods", labelSelector=f"batch.kubernetes.io/job-name={job.name}-preflight")


def test_code_that_fails_holds_the_job_and_corrected_it_trains(real_cluster: Cluster, operator: OperatorProcess, space: str) -> None:
    job = create(real_cluster, space, "wide", "Require", layers=3, hiddenSize=TOO_WIDE)
    job.wait(lambda: job.condition("Preflight").get("status") == "False", "no fault", TRIED_SECONDS)
    print(job.condition("Preflight")["message"])
    assert job.reason() == "PreflightFailed"
    assert job.condition("Preflight")["reason"] == "OutOfMemory"
    assert (job.mpijob(), job.plan()) == (None, {})
    assert len(preflight_pods(job)) == 1, "what failed is not tried again"
    job.patch(spec={"model": {"layers": 2, "hiddenSize": 16}})
    job.wait(lambda: job.condition("Preflight").get("status") == "True", "the corrected model does not pass", TRIED_SECONDS)
    print(job.status()["preflight"])
    status = training.wait_finished(operator, job.status)
    assert state_of(status) == "Succeeded", f"{status}\n{training.launcher_log(real_cluster, space, job.name)}"
    assert status["preflight"]["outcome"] == "Passed"


def test_advice_delays_no_start_and_is_told(real_cluster: Cluster, operator: OperatorProcess, space: str) -> None:
    job = create(real_cluster, space, "advised", "Advise")
    job.wait(lambda: job.condition("Preflight").get("status") == "True", "no outcome", TRIED_SECONDS)
    (pod,) = preflight_pods(job)
    mpijob = job.mpijob()
    assert mpijob is not None
    ended = pod["status"]["containerStatuses"][0]["state"]["terminated"]["finishedAt"]
    assert mpijob["metadata"]["creationTimestamp"] < ended, "the start has waited for the outcome"
    status = training.wait_finished(operator, job.status)
    assert state_of(status) == "Succeeded", f"{status}\n{training.launcher_log(real_cluster, space, job.name)}"
