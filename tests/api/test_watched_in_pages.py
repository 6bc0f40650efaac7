"""What the operator asks of the API server when it starts: every kind once, in pages; kopf then hears what happens from there on."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast
from urllib.parse import parse_qs, urlsplit

import kopf
import pytest
from kubernetes.aio import client as kubernetes_client
from kubernetes.aio import config as kubernetes_config

from e2e.cluster import audit
from e2e.cluster.api import Api
from e2e.cluster.control_plane import ControlPlane
from hyperscale.control.apply import client
from hyperscale.control.apply.client import ApiClient
from hyperscale.control.cache.cluster_cache import ClusterCache
from hyperscale.control.cache.intake import JOB, NODE, POD, POLICY
from hyperscale.control.controller import handlers
from hyperscale.control.controller.feed import Feed
from hyperscale.control.controller.manager import Operator
from hyperscale.model.api.policy import PolicySpec

official: Any = kubernetes_client
settings: Any = kubernetes_config
"""They ship no annotations."""

NODES = "/api/v1/nodes"
NAMES = [f"paged-{number}" for number in range(5)]
LATE = "paged-late"
KINDS = (JOB, POLICY, POD, NODE)
"""MPIJobs, the fifth, are not installed for every test of this folder."""
PLURALS = {"gnntrainingjobs", "plannerpolicies", "pods", "nodes"}


class Heard:
    """Stands where the operator does: which nodes were reported to it, how often."""

    def __init__(self) -> None:
        self.nodes: Counter[str] = Counter()
        self.complete = asyncio.Event()

    def node_changed(self, body: dict[str, Any], *, deleted: bool) -> None:
        """One event."""
        self.nodes[body["metadata"]["name"]] += 1
        if LATE in self.nodes:
            self.complete.set()

    def other_changed(self, body: dict[str, Any], *, deleted: bool) -> None:
        """Of no interest here."""

    job_changed = policy_changed = mpijob_changed = pod_changed = other_changed


@pytest.fixture
def nodes(api: Api) -> Iterator[None]:
    """More nodes than two pages of two hold."""
    for name in NAMES:
        api.create(NODES, node(name))
    yield
    for name in (*NAMES, LATE):
        api.delete(f"{NODES}/{name}")


def node(name: str) -> dict[str, Any]:
    resources = {"nvidia.com/gpu": "1"}
    status = {"allocatable": resources, "capacity": resources}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": status}


async def connect(kubeconfig: Path) -> ApiClient:
    """The operator's client; the official one reads $KUBECONFIG when it is imported."""
    configuration = official.Configuration()
    await settings.load_kube_config(config_file=str(kubeconfig), client_configuration=configuration)
    return ApiClient(official.ApiClient(configuration), 10.0)


async def watch_until_late(api: Api, kubeconfig: Path, world: ClusterCache) -> Heard:
    """The feed and kopf with the operator's handlers, until they have told of a node that came after the listing."""
    heard, registry, stop = Heard(), kopf.OperatorRegistry(), asyncio.Event()
    connected = await connect(kubeconfig)
    feed = Feed(connected, world, ())
    handlers.register(registry, cast("Operator", heard))
    handlers.read_from(feed)
    for kind in KINDS:
        await feed.list_kind(kind)
    watching = asyncio.create_task(kopf.operator(registry=registry, standalone=True, clusterwide=True, stop_flag=stop))
    try:
        async with asyncio.timeout(60):
            await asyncio.to_thread(api.create, NODES, node(LATE))
            await heard.complete.wait()
    finally:
        stop.set()
        await watching
        await connected.close()
    return heard


@pytest.mark.usefixtures("nodes")
async def test_every_kind_is_listed_once_in_pages_and_heard_from_there_on(
    api: Api, plane: ControlPlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "PAGE_SIZE", 2)
    monkeypatch.setenv("KUBECONFIG", str(plane.kubeconfig))
    begin = audit.caught_up(api, plane.audit_log)
    world = ClusterCache()
    heard = await watch_until_late(api, plane.kubeconfig, world)
    assert set(NAMES) <= {one.name for one in world.snapshot(PolicySpec(), 0.0).nodes}
    assert set(heard.nodes) == {LATE}, "what the listing told is not told again"
    lists = listed(api, plane, begin)
    assert {resource for resource, _ in lists} >= PLURALS
    assert [(resource, query) for resource, query in lists if resource in PLURALS and query.get("limit") != ["2"]] == []
    assert sum("continue" not in query for resource, query in lists if resource == "nodes") == 1
    assert sum("continue" in query for resource, query in lists if resource == "nodes") >= 2


def listed(api: Api, plane: ControlPlane, begin: int) -> list[tuple[str, dict[str, list[str]]]]:
    """Resource and query of every list that operator and kopf asked for since that position of the audit log."""
    audit.settled(api, plane.audit_log, begin)
    with plane.audit_log.open("rb") as file:
        file.seek(begin)
        events = [json.loads(line) for line in file if line.endswith(b"\n")]
    asked = [one for one in events if str(one.get("userAgent")).startswith(("kopf", "hyperscale")) and one["verb"] == "list"]
    return [(one["objectRef"]["resource"], parse_qs(urlsplit(one["requestURI"]).query)) for one in asked]
