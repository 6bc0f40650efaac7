"""An API server that says 429 or 500, cuts connections, or does not answer: the operator slows down and then continues."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

from e2e.cluster.control_plane import wait_until
from e2e.jobs import PATIENCE_SECONDS, Job
from tests.fault.conftest import Stage
from tests.fault.process import OperatorProcess
from tests.fault.proxy import Answer, Asked, FaultProxy
from tests.fault.watching import creates, wait_created

RETRY_AFTER_SECONDS = 2
OBSERVED_SECONDS = 4.0


@pytest.fixture(scope="module")
def operator(stage: Stage) -> Iterator[OperatorProcess]:
    """It waits at most six seconds for an answer, and relists often."""
    with stage.watching(request_timeout_seconds=6, resync_seconds=3) as process:
        yield process


def about_work(asked: Asked) -> bool:
    """Everything but the Lease, whose loss ends the operator."""
    return "/leases" not in asked.path


def refused_meanwhile(proxy: FaultProxy, job: Job, since: int) -> list[Asked]:
    """What the operator asks for from now on, until one request lies OBSERVED_SECONDS after the first."""
    proxy.cut_watches()
    job.create()
    wait_until(lambda: seconds_of(proxy.asked_since(since, about_work)) >= OBSERVED_SECONDS, PATIENCE_SECONDS, "it asks no more")
    return proxy.asked_since(since, about_work)


def seconds_of(requests: list[Asked]) -> float:
    """From the first of them to the last."""
    return requests[-1].at - requests[0].at if requests else 0.0


def busiest(requests: list[Asked]) -> tuple[str, int]:
    """The request that was repeated most, and how often."""
    return Counter(asked.line for asked in requests).most_common(1)[0]


def test_too_many_requests_are_obeyed(operator: OperatorProcess, proxy: FaultProxy, job: Job) -> None:
    since = len(proxy.asked)
    with proxy.answering(about_work, Answer(429, {"Retry-After": str(RETRY_AFTER_SECONDS)})):
        refused = refused_meanwhile(proxy, job, since)
    line, count = busiest(refused)
    assert count <= seconds_of(refused) / RETRY_AFTER_SECONDS + 3, line
    assert len(refused) <= 12 * max(OBSERVED_SECONDS, seconds_of(refused))
    wait_created(job)
    assert len(creates(proxy, job, since)) == 1
    assert operator.probe("/healthz") == 200


def test_a_burst_of_errors_is_outlived(operator: OperatorProcess, proxy: FaultProxy, job: Job) -> None:
    since = len(proxy.asked)
    with proxy.answering(about_work, Answer(500)):
        refused = refused_meanwhile(proxy, job, since)
    line, count = busiest(refused)
    assert count <= 2 * max(OBSERVED_SECONDS, seconds_of(refused)), line
    wait_created(job)
    assert len(creates(proxy, job, since)) == 1
    assert operator.probe("/healthz") == 200


@pytest.mark.parametrize("status", [429, 500])
def test_a_refused_create_is_repeated_until_it_is_taken(operator: OperatorProcess, proxy: FaultProxy, job: Job, status: int) -> None:
    since = len(proxy.asked)

    def is_create(asked: Asked) -> bool:
        return asked.method == "POST" and asked.path.endswith("/mpijobs")

    with proxy.answering(is_create, Answer(status, {"Retry-After": "1"})):
        job.create()
        wait_until(lambda: len(creates(proxy, job, since)) >= 2, PATIENCE_SECONDS, "the create is not repeated")
        assert job.mpijob() is None
    wait_created(job)
    times = [asked.at for asked in creates(proxy, job, since)]
    assert len(times) <= 4 + (times[-1] - times[0]), "at most once a second, but for what happens to other jobs"


def test_a_status_write_that_gets_no_answer_is_repeated_and_nothing_is_created_twice(
    operator: OperatorProcess, proxy: FaultProxy, job: Job
) -> None:
    since = len(proxy.asked)
    with proxy.holding(lambda asked: asked.path == f"{job.path}/status") as held:
        job.create()
        wait_until(lambda: len(held.caught) >= 2, PATIENCE_SECONDS, "the write is not repeated")
    wait_created(job)
    assert len(creates(proxy, job, since)) == 1
    assert operator.probe("/healthz") == 200


def test_events_that_are_refused_harm_nothing(operator: OperatorProcess, proxy: FaultProxy, job: Job) -> None:
    with proxy.answering(lambda asked: asked.path.endswith("/events"), Answer(500)):
        job.create()
        wait_created(job)
    assert job.reason() == "Starting"
