"""A job that is edited or deleted while its plan is made: the old plan is thrown away, nothing is created."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from e2e.cluster.control_plane import wait_until
from e2e.jobs import PATIENCE_SECONDS, Job
from tests.fault.conftest import Stage
from tests.fault.process import OperatorProcess
from tests.fault.proxy import FaultProxy
from tests.fault.stopping import planning
from tests.fault.watching import creates, wait_created


@pytest.fixture(scope="module")
def operator(stage: Stage) -> Iterator[OperatorProcess]:
    """It passes over one job at a time: while a second one waits, the first is being planned."""
    with stage.watching(concurrent_reconciles=1) as process:
        yield process


@pytest.fixture
def patient(policy: Callable[..., None], operator: OperatorProcess) -> None:
    """Planners may take a minute."""
    policy(planDeadlineSeconds=60)


def told(proxy: FaultProxy, kind: str, name: str) -> bool:
    """Whether the operator received such an event of a job."""
    return (kind, "GNNTrainingJob", name) in proxy.events


def test_a_job_edited_while_its_plan_is_made_gets_a_plan_for_the_edit(
    operator: OperatorProcess, proxy: FaultProxy, patient: None, job: Job
) -> None:
    job = Job(job.api, job.namespace, "edited")
    since, planned = len(proxy.asked), operator.metric("hyperscale_plans_total")
    with planning(operator, job) as other:
        job.patch(spec={"workers": {"minReplicas": 3, "maxReplicas": 3}})
        wait_until(lambda: told(proxy, "MODIFIED", job.name), PATIENCE_SECONDS, "the operator was not told")
    wait_created(job)
    other.wait_reason("StartPolicyNever")
    assert operator.metric("hyperscale_plans_total") - planned == 3, "one void plan, its successor, and the other job's"
    assert len(creates(proxy, job, since)) == 1
    assert (job.mpijob() or {})["spec"]["mpiReplicaSpecs"]["Worker"]["replicas"] == 3
    assert len(job.nodes()) == 3
    assert job.condition("Planned")["observedGeneration"] == 2
    assert operator.planner_pids()


def test_a_job_deleted_while_its_plan_is_made_leaves_nothing(operator: OperatorProcess, proxy: FaultProxy, patient: None, job: Job) -> None:
    job = Job(job.api, job.namespace, "deleted")
    since = len(proxy.asked)
    with planning(operator, job) as other:
        assert "finalizers" not in job.resource()["metadata"]
        job.delete()
        wait_until(lambda: told(proxy, "DELETED", job.name), PATIENCE_SECONDS, "the operator was not told")
        assert job.api.find(job.path) is None
    other.wait_reason("StartPolicyNever")
    assert not creates(proxy, job, since)
    assert job.mpijob() is None


def test_a_job_replaced_while_its_plan_is_made_gets_a_child_of_its_own(
    operator: OperatorProcess, proxy: FaultProxy, patient: None, job: Job
) -> None:
    job = Job(job.api, job.namespace, "replaced")
    with planning(operator, job):
        job.delete()
        job.create(workers={"minReplicas": 1, "maxReplicas": 1})
    wait_created(job)
    mpijob = job.mpijob() or {}
    assert mpijob["metadata"]["ownerReferences"][0]["uid"] == job.resource()["metadata"]["uid"]
    assert mpijob["spec"]["mpiReplicaSpecs"]["Worker"]["replicas"] == 1


def test_a_job_edited_just_before_the_create_is_planned_again(
    operator: OperatorProcess, proxy: FaultProxy, patient: None, job: Job
) -> None:
    since = len(proxy.asked)
    with proxy.holding(lambda asked: asked.method == "GET" and asked.path == job.path) as held:
        with planning(operator, job):
            pass  # long enough for the operator not to trust its first look any more
        job.wait(lambda: bool(held.caught), "the job is not read again before the create")
        job.patch(spec={"workers": {"minReplicas": 1, "maxReplicas": 1}})
    wait_created(job)
    assert len(job.nodes()) == 1
    assert len(creates(proxy, job, since)) == 1


def test_no_job_ever_carries_a_finalizer_or_an_annotation_of_the_operator(operator: OperatorProcess, job: Job) -> None:
    job.create()
    wait_created(job)
    metadata = job.resource()["metadata"]
    assert "finalizers" not in metadata
    assert "annotations" not in metadata
