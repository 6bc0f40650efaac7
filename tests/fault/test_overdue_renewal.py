"""While a renewal of the Lease is overdue, the operator sends no other request: its own load may be why the renewal is not answered."""

from __future__ import annotations

import asyncio
import time
from functools import partial

from kubernetes.aio import client as official
from kubernetes.aio import config

from e2e.cluster.control_plane import wait_until
from e2e.jobs import PATIENCE_SECONDS
from hyperscale.control.apply.client import ApiClient
from hyperscale.control.apply.lease import Lease, LeaseThread
from hyperscale.control.apply.pace import Pace
from tests.fault.conftest import Stage
from tests.fault.process import LEASE
from tests.fault.proxy import Asked, FaultProxy

NAMESPACE = LEASE.split("/")[-3]
LEASE_SECONDS = 36.0
"""The second attempt to renew comes two seconds after a third of it, the loss after two thirds."""
NODES = "/api/v1/nodes"


async def connect(stage: Stage) -> ApiClient:
    configuration = official.Configuration()
    await config.load_kube_config(str(stage.kubeconfig), client_configuration=configuration)  # type: ignore[no-untyped-call]
    return ApiClient(official.ApiClient(configuration), PATIENCE_SECONDS)


def made(client: ApiClient) -> Lease:
    return Lease(client, NAMESPACE, "overdue", LEASE_SECONDS, 1.0, time.monotonic)


def is_renewal(asked: Asked) -> bool:
    return "/leases" in asked.path and asked.method == "PUT"


def test_requests_wait_while_a_renewal_is_overdue_and_are_sent_after_it(stage: Stage, proxy: FaultProxy) -> None:
    lost: list[bool] = []

    async def work() -> None:
        thread = LeaseThread(partial(connect, stage), made, lambda: lost.append(True))
        await thread.start()
        await thread.acquire()
        client = await connect(stage)
        operators = client.bounded(Pace(0.0, 1.0, time.monotonic), thread)
        assert (await operators.get(NODES))["items"]
        with proxy.holding(is_renewal) as held:
            thread.hold()
            await asyncio.to_thread(wait_until, lambda: len(held.caught) >= 2, PATIENCE_SECONDS, "no second attempt to renew")
            since = len(proxy.asked)
            listing = asyncio.create_task(operators.get(NODES))
            await client.get(LEASE)
            await client.get(LEASE)
            assert [asked.line for asked in proxy.asked_since(since) if asked.path == NODES] == []
        assert (await listing)["items"]
        await thread.close()
        await client.close()

    asyncio.run(work())
    assert not lost
