"""One operator at a time, and an orderly end: the Lease, SIGTERM, SIGKILL, and a standby that takes over."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from e2e.cluster.control_plane import wait_until
from e2e.cluster.processes import identity_of
from e2e.jobs import PATIENCE_SECONDS, Job
from tests.fault.conftest import Stage
from tests.fault.process import LEASE, OperatorProcess, running
from tests.fault.prometheus_stub import PrometheusStub
from tests.fault.proxy import Answer, Asked, FaultProxy
from tests.fault.stopping import planning
from tests.fault.watching import creates, wait_created

EXIT_LEASE_LOST = 3
LEASE_SECONDS = 18
"""A busy machine may keep a renewal back for two thirds of it."""
AWAITED_LEASE_SECONDS = 12
"""Where a test waits for its end."""


def is_renewal(asked: Asked) -> bool:
    return "/leases" in asked.path


def start(stage: Stage, identity: str, lease_seconds: int = LEASE_SECONDS) -> OperatorProcess:
    """An operator that renews its Lease every second."""
    return stage.operator(identity=identity, lease_duration_seconds=lease_seconds, lease_renew_seconds=1)


def test_a_standby_takes_over_when_the_holder_is_killed_and_keeps_its_plan(stage: Stage, proxy: FaultProxy, job: Job) -> None:
    since = len(proxy.asked)
    with running(start(stage, "first", AWAITED_LEASE_SECONDS), stage.api) as first:
        first.wait_ready()
        with running(start(stage, "second", AWAITED_LEASE_SECONDS), stage.api) as second:
            second.wait_standby()
            assert second.probe("/readyz") == 503
            job.create()
            wait_created(job)
            assert stage.lease_holder() == "first"
            plan, mpijob, planner = job.plan(), (job.mpijob() or {})["metadata"], first.planner_pid()
            first.kill()
            late = Job(job.api, job.namespace, "late")
            late.create()
            second.wait_ready()
            wait_created(late)
            assert stage.lease_holder() == "second"
            wait_until(lambda: identity_of(planner) is None, PATIENCE_SECONDS, "the planner of a killed operator lives on")
            assert job.plan() == plan
            assert (job.mpijob() or {})["metadata"]["resourceVersion"] == mpijob["resourceVersion"]
            assert len(creates(proxy, job, since)) == 2
            assert second.terminate() == 0
            assert stage.lease_holder() == ""


def test_a_holder_whose_lease_is_taken_leaves_at_once(stage: Stage, proxy: FaultProxy) -> None:
    with running(start(stage, "first"), stage.api) as first:
        first.wait_ready()
        planner = first.planner_pid()
        stage.api.patch(LEASE, {"spec": {"holderIdentity": "thief"}})
        assert first.wait_ended() == EXIT_LEASE_LOST
        assert stage.lease_holder() == "thief"
        assert "the Lease was taken" in first.log
        wait_until(lambda: identity_of(planner) is None, PATIENCE_SECONDS, "its planner lives on")


@pytest.mark.parametrize("answer", [Answer(500), None], ids=["errors", "silence"])
def test_a_holder_that_cannot_renew_leaves_before_another_may_begin(stage: Stage, proxy: FaultProxy, answer: Answer | None) -> None:
    with running(start(stage, "first", AWAITED_LEASE_SECONDS), stage.api) as first:
        first.wait_ready()
        meanwhile = proxy.answering(lambda asked: True, answer) if answer else proxy.holding(lambda asked: True)
        with meanwhile:
            assert first.wait_ended() == EXIT_LEASE_LOST
        assert "the Lease could not be renewed in time" in first.log


def test_the_lease_is_renewed_on_connections_that_carry_nothing_else(stage: Stage, proxy: FaultProxy, job: Job) -> None:
    """Requests that take all other connections would end the process: it could not renew in time."""
    since = len(proxy.asked)
    with running(start(stage, "first"), stage.api) as first:
        first.wait_ready()
        job.create()
        wait_created(job)
        wait_until(lambda: len(proxy.asked_since(since, is_renewal)) > 2, PATIENCE_SECONDS, "the Lease is not renewed")
    asked = proxy.asked_since(since)
    assert not {each.port for each in asked if is_renewal(each)} & {each.port for each in asked if not is_renewal(each)}


def test_sigterm_ends_the_operator_in_time_and_frees_the_lease(stage: Stage, proxy: FaultProxy, job: Job) -> None:
    with running(start(stage, "first"), stage.api) as first:
        first.wait_ready()
        job.create()
        wait_created(job)
        planner = first.planner_pid()
        assert stage.lease_holder() == "first"
        assert first.terminate() == 0
        assert stage.lease_holder() == ""
        assert identity_of(planner) is None


def test_sigterm_ends_a_standby_and_leaves_the_lease_alone(stage: Stage, proxy: FaultProxy) -> None:
    with running(start(stage, "first"), stage.api) as first:
        first.wait_ready()
        with running(start(stage, "second"), stage.api) as second:
            second.wait_standby()
            assert second.terminate() == 0
            assert stage.lease_holder() == "first"


def test_sigterm_ends_an_operator_that_waits_for_a_planner(stage: Stage, proxy: FaultProxy, job: Job, policy: Callable[..., None]) -> None:
    policy(planDeadlineSeconds=60)
    with running(stage.operator(concurrent_reconciles=1), stage.api) as first:
        first.wait_ready()
        planner = first.planner_pid()
        with planning(first, job):
            assert first.terminate() == 0
        assert identity_of(planner) is None
        assert job.mpijob() is None
        assert stage.lease_holder() == ""


def test_sigterm_ends_an_operator_that_waits_for_its_first_listing(stage: Stage, proxy: FaultProxy) -> None:
    with (
        proxy.answering(lambda asked: asked.path.endswith("/gnntrainingjobs"), Answer(503)),
        running(start(stage, "first"), stage.api) as first,
    ):
        wait_until(lambda: "waiting for the API server" in first.log, PATIENCE_SECONDS, "it does not wait")
        assert first.probe("/readyz") == 503
        assert first.probe("/healthz") == 200
        planner = first.planner_pid()
        assert first.terminate() == 0
        assert stage.lease_holder() == ""
        assert identity_of(planner) is None


def test_sigterm_ends_an_operator_that_waits_for_prometheus(
    stage: Stage, proxy: FaultProxy, prometheus: PrometheusStub, policy: Callable[..., None]
) -> None:
    policy(metricsTimeoutSeconds=60)
    with running(stage.operator(prometheus_url=prometheus.url, metrics_poll_seconds=0.2), stage.api) as first:
        first.wait_ready()
        prometheus.stall()
        wait_until(lambda: prometheus.asked > 0, PATIENCE_SECONDS, "Prometheus is not asked")
        assert first.terminate() == 0
        assert stage.lease_holder() == ""
