"""Watches that break or get a 410: nothing is lost and nothing is done twice ."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from e2e.cluster.control_plane import wait_until
from e2e.jobs import GATE, PATIENCE_SECONDS, Job
from tests.fault.conftest import Stage
from tests.fault.players import create_workers, gates, resize_node
from tests.fault.process import OperatorProcess
from tests.fault.proxy import FaultProxy
from tests.fault.watching import WATCHED, creates, wait_created, wait_watching

GONE = {
    "type": "ERROR",
    "object": {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Expired", "message": "too old", "code": 410},
}


BROKEN = {"type": "ERROR", "object": {"kind": "Status", "status": "Failure", "reason": "InternalError", "code": 500}}


@pytest.mark.parametrize("last", [GONE, BROKEN, None], ids=["410 Gone", "an internal error", "broken connections"])
def test_what_happens_between_two_watches_is_neither_lost_nor_done_twice(
    operator: OperatorProcess, proxy: FaultProxy, job: Job, last: dict[str, object] | None
) -> None:
    job.create()
    wait_created(job)
    since = len(proxy.asked)
    late = Job(job.api, job.namespace, "late")
    with proxy.holding(lambda asked: asked.path.endswith("/gnntrainingjobs")) as held:
        assert proxy.cut_watches(last) >= len(WATCHED)
        wait_until(lambda: bool(held.caught), PATIENCE_SECONDS, "jobs are not watched again")
        late.create()
    wait_watching(proxy, since)
    wait_created(late)
    job.patch(spec={"runPolicy": {"suspend": True}})
    job.wait_state("Queued")
    assert len(creates(proxy, late, since)) == 1


def test_a_job_deleted_while_nobody_watched_is_not_brought_back(operator: OperatorProcess, proxy: FaultProxy, job: Job) -> None:
    job.create(startPolicy="Never")
    job.wait_reason("StartPolicyNever")
    since = len(proxy.asked)
    with proxy.holding(lambda asked: asked.path.endswith("/gnntrainingjobs")) as held:
        proxy.cut_watches(GONE)
        wait_until(lambda: bool(held.caught), PATIENCE_SECONDS, "jobs are not watched again")
        job.delete()
    wait_watching(proxy, since)
    after = Job(job.api, job.namespace, "after")
    after.create()
    wait_created(after)
    assert job.api.find(job.path) is None
    assert job.mpijob() is None
    assert operator.probe("/healthz") == 200


def test_watches_that_break_again_and_again_do_not_stop_the_work(
    operator: OperatorProcess, proxy: FaultProxy, space: str, stage: Stage
) -> None:
    since = len(proxy.asked)
    jobs = [Job(stage.api, space, f"job-{number}") for number in range(4)]
    for number, each in enumerate(jobs):
        proxy.cut_watches(GONE if number % 2 else None)
        each.create()
    for each in jobs:
        wait_created(each)
    assert len(creates(proxy, jobs[0], since)) == len(jobs)


def test_gates_are_opened_once_though_watches_break(operator: OperatorProcess, proxy: FaultProxy, job: Job) -> None:
    job.create()
    wait_created(job)
    since = len(proxy.asked)
    proxy.cut_watches(GONE)
    pods = create_workers(job)
    proxy.cut_watches()
    assert all(GATE in gates(pod) for pod in pods)
    job.wait(lambda: not any(GATE in gates(pod) for pod in job.pods()), "the gates stay closed")
    assert [pod["spec"]["nodeSelector"]["kubernetes.io/hostname"] for pod in job.pods()] == job.nodes()
    assert len(proxy.asked_since(since, lambda asked: asked.method == "PATCH" and "/pods/" in asked.path)) == len(pods)


def test_room_that_comes_after_an_unseen_deletion_brings_nothing_back(
    operator: OperatorProcess, proxy: FaultProxy, job: Job, small_node: str
) -> None:
    job.create(placement={"nodeSelector": {"kubernetes.io/hostname": small_node}})
    job.wait(lambda: job.condition("Planned").get("status") == "False", "it is not refused")
    since = len(proxy.asked)
    with proxy.holding(lambda asked: asked.path.endswith("/gnntrainingjobs")) as held:
        proxy.cut_watches(GONE)
        wait_until(lambda: bool(held.caught), PATIENCE_SECONDS, "jobs are not watched again")
        job.delete()
        asked, planned = len(proxy.asked), operator.metric("hyperscale_plans_total", outcome="Planned")
        resize_node(job.api, small_node, 8)

        def asked_for_the_job() -> bool:
            return bool(proxy.asked_since(asked, lambda one: one.path.startswith(job.path)))

        # A pass that was on its way may find the job gone before the room comes, and then nothing is left to plan.
        wait_until(
            lambda: operator.metric("hyperscale_plans_total", outcome="Planned") > planned or asked_for_the_job(),
            PATIENCE_SECONDS,
            "nothing is planned again",
        )
        job.wait(lambda: asked_for_the_job() or job.mpijob() is not None, "nothing came of it")
    wait_watching(proxy, since)
    assert job.mpijob() is None
    assert not creates(proxy, job, since)


@pytest.fixture
def small_node(stage: Stage) -> Iterator[str]:
    """A node whose GPUs are not there yet."""
    name = "eu-h100-1"
    resize_node(stage.api, name, 0)
    yield name
    resize_node(stage.api, name, 8)
