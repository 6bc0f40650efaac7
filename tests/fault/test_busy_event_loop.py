"""The Lease does not wait for the operator's event loop: renewed while that does not turn, lost in time, given up at the end."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from functools import partial

import pytest
from kubernetes.aio import client as official
from kubernetes.aio import config

from e2e.cluster.control_plane import wait_until
from e2e.jobs import PATIENCE_SECONDS
from hyperscale.control.apply.client import ApiClient
from hyperscale.control.apply.lease import Lease, LeaseThread
from tests.fault.conftest import Stage
from tests.fault.process import LEASE
from tests.fault.proxy import FaultProxy

NAMESPACE = LEASE.split("/")[-3]
LEASE_SECONDS = 12.0
RENEWALS = 14


@pytest.fixture
def leasing(stage: Stage, proxy: FaultProxy) -> Callable[[threading.Event], LeaseThread]:
    """A thread for the Lease; the event is set when it is lost."""

    async def connect() -> ApiClient:
        configuration = official.Configuration()
        await config.load_kube_config(str(stage.kubeconfig), client_configuration=configuration)  # type: ignore[no-untyped-call]
        return ApiClient(official.ApiClient(configuration), LEASE_SECONDS)

    return lambda lost: LeaseThread(connect, made, lost.set)


def made(client: ApiClient) -> Lease:
    return Lease(client, NAMESPACE, "busy", LEASE_SECONDS, 1.0, time.monotonic)


def renewals(stage: Stage, known: set[str]) -> bool:
    """Whether the Lease was renewed RENEWALS times, which takes longer than its duration."""
    known.add(str(stage.api.get(LEASE)["spec"]["renewTime"]))
    return len(known) > RENEWALS


def test_the_lease_is_renewed_for_longer_than_its_duration_while_the_event_loop_does_not_turn(
    stage: Stage, leasing: Callable[[threading.Event], LeaseThread]
) -> None:
    lost = threading.Event()

    async def busy() -> None:
        thread = leasing(lost)
        await thread.start()
        await thread.acquire()
        thread.hold()
        wait_until(partial(renewals, stage, set()), PATIENCE_SECONDS, "the Lease is not renewed")  # this event loop stands still
        assert thread.seconds_left() > 0
        await thread.confirm()
        await thread.close()

    asyncio.run(busy())
    assert not lost.is_set()
    assert stage.lease_holder() == ""


def test_a_lease_that_another_takes_is_lost_while_the_event_loop_does_not_turn(
    stage: Stage, leasing: Callable[[threading.Event], LeaseThread]
) -> None:
    lost = threading.Event()

    async def busy() -> None:
        thread = leasing(lost)
        await thread.start()
        await thread.acquire()
        thread.hold()
        stage.api.patch(LEASE, {"spec": {"holderIdentity": "thief"}})
        assert lost.wait(PATIENCE_SECONDS)
        await thread.close()

    asyncio.run(busy())
    assert stage.lease_holder() == "thief"
    stage.api.patch(LEASE, {"spec": {"holderIdentity": ""}})


def test_a_lease_is_given_up_although_a_renewal_came_through_whose_answer_was_not_read(
    stage: Stage, leasing: Callable[[threading.Event], LeaseThread]
) -> None:
    """SIGTERM cancels a renewal that is under way; the API server may carry it out all the same."""

    async def ended() -> None:
        thread = leasing(threading.Event())
        await thread.start()
        await thread.acquire()
        stage.api.patch(LEASE, {"spec": {"leaseTransitions": 7}})
        await thread.close()

    asyncio.run(ended())
    assert stage.lease_holder() == ""


def test_a_lease_that_was_given_up_is_taken_no_more(stage: Stage, leasing: Callable[[threading.Event], LeaseThread]) -> None:
    async def ended() -> None:
        thread = leasing(threading.Event())
        await thread.start()
        await thread.acquire()
        await thread._there(thread._lease.release())
        assert thread.seconds_left() <= 0
        assert await thread._there(thread._lease._try()) is False
        await thread.close()

    asyncio.run(ended())
    assert stage.lease_holder() == ""


def test_a_first_take_that_is_cut_off_on_its_way_is_given_up_all_the_same(
    stage: Stage, leasing: Callable[[threading.Event], LeaseThread], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The API server carries it out; its answer is not waited for."""
    replaced = ApiClient.replace

    async def unanswered(client: ApiClient, path: str, body: dict[str, object]) -> dict[str, object]:
        await replaced(client, path, body)
        monkeypatch.setattr(ApiClient, "replace", replaced)
        raise asyncio.CancelledError

    async def ended() -> None:
        thread = leasing(threading.Event())
        await thread.start()
        monkeypatch.setattr(ApiClient, "replace", unanswered)
        with pytest.raises(asyncio.CancelledError):
            await thread.acquire()
        assert stage.lease_holder() == "busy"
        await thread.close()

    stage.api.patch(LEASE, {"spec": {"holderIdentity": ""}})
    asyncio.run(ended())
    assert stage.lease_holder() == ""


def test_a_lease_that_another_took_is_not_given_up(stage: Stage, leasing: Callable[[threading.Event], LeaseThread]) -> None:
    async def ended() -> None:
        thread = leasing(threading.Event())
        await thread.start()
        await thread.acquire()
        stage.api.patch(LEASE, {"spec": {"holderIdentity": "thief"}})
        await thread.close()

    asyncio.run(ended())
    assert stage.lease_holder() == "thief"
    stage.api.patch(LEASE, {"spec": {"holderIdentity": ""}})


def test_a_renewal_is_one_request(stage: Stage, proxy: FaultProxy, leasing: Callable[[threading.Event], LeaseThread]) -> None:
    """On a slow API server each further one may be the one that comes too late."""

    async def renewed() -> None:
        thread = leasing(threading.Event())
        await thread.start()
        await thread.acquire()
        since = len(proxy.asked)
        await thread.confirm()
        assert [asked.method for asked in proxy.asked[since:] if "/leases" in asked.path] == ["PUT"]
        await thread.close()

    asyncio.run(renewed())
