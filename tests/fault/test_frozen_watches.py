"""Watches that stay open and say nothing (a frozen load balancer): the full listing fixes what they lost."""

from __future__ import annotations

from collections.abc import Iterator

import kopf
import pytest

from e2e.jobs import Job
from hyperscale.control.controller.handlers import configure_kopf
from tests.fault.conftest import Stage
from tests.fault.process import OperatorProcess
from tests.fault.proxy import FaultProxy
from tests.fault.watching import WATCHED, creates, wait_created


@pytest.fixture(scope="module")
def operator(stage: Stage) -> Iterator[OperatorProcess]:
    """It relists every two seconds."""
    with stage.watching(resync_seconds=2) as process:
        yield process


def test_what_a_silent_stream_does_not_tell_is_seen_in_the_next_full_listing(
    operator: OperatorProcess, proxy: FaultProxy, job: Job
) -> None:
    assert proxy.freeze_watches() >= len(WATCHED)
    told, since = len(proxy.events), len(proxy.asked)
    job.create()
    wait_created(job)
    job.patch(spec={"runPolicy": {"suspend": True}})
    job.wait_state("Queued")
    job.delete()
    again = Job(job.api, job.namespace, "again")
    again.create()
    wait_created(again)
    assert len(proxy.events) == told, "the watches told nothing"
    assert len(creates(proxy, job, since)) == 2
    assert operator.probe("/healthz") == 200


def test_a_silent_stream_is_given_up_within_75_seconds() -> None:
    settings = kopf.OperatorSettings()
    configure_kopf(settings)
    assert settings.watching.inactivity_timeout + (settings.watching.connect_timeout or 0) <= 75
