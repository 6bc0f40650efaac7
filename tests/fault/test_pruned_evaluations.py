"""An operator with an earlier CRD, which does not know `status.evaluation`: the job continues, and nothing is written in vain."""

from __future__ import annotations

import copy
from collections.abc import Iterator

import pytest

from e2e.cluster.control_plane import wait_until
from e2e.jobs import PATIENCE_SECONDS, Job
from tests.fault.conftest import Stage
from tests.fault.process import OperatorProcess, running

CRD = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/gnntrainingjobs.hyperscale.dev"
RECONCILES = "hyperscale_reconcile_duration_seconds_count"


@pytest.fixture(name="operator")
def operator_fixture(stage: Stage) -> Iterator[OperatorProcess]:
    """It looks at every job each second."""
    current = stage.api.get(CRD)
    former = copy.deepcopy(current)
    status = former["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"]
    del status["properties"]["evaluation"]
    stage.proxy.reset()
    stage.api.request("PUT", CRD, former)
    try:
        with running(stage.operator(resync_seconds=1), stage.api) as process:
            process.wait_ready()
            yield process
    finally:
        latest = stage.api.get(CRD)
        stage.api.request("PUT", CRD, {**latest, "spec": current["spec"]})


def test_an_api_server_that_drops_the_evaluation_is_written_to_once(operator: OperatorProcess, stage: Stage, job: Job) -> None:
    job.create(startPolicy="Manual")
    job.wait(lambda: bool(job.condition("Evaluated")), "the plan is not evaluated", 40.0)
    begun, written = operator.metric(RECONCILES), len(stage.proxy.asked)
    wait_until(lambda: operator.metric(RECONCILES) >= begun + 6, PATIENCE_SECONDS, "the operator does not look at the job any more")
    assert "evaluation" not in job.status()
    writes = stage.proxy.asked_since(written, lambda asked: asked.method == "PATCH" and asked.path.endswith("/cora/status"))
    assert len(writes) <= 1
