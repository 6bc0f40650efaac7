"""What kopf asks of the API server when the operator starts: every kind in pages, so that no listing is decoded in one go."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

import kopf
import pytest

from e2e.cluster import audit
from e2e.cluster.api import Api
from e2e.cluster.control_plane import ControlPlane
from hyperscale import handlers

NODES = "/api/v1/nodes"
NAMES = [f"paged-{number}" for number in range(5)]
WATCHED = {"gnntrainingjobs", "plannerpolicies", "pods", "nodes"}
"""And MPIJobs, whose kind is not installed for every test of this folder."""


class Heard:
    """Stands where the operator does: which nodes it was told of, how often."""

    def __init__(self) -> None:
        self.nodes: Counter[str] = Counter()
        self.complete = asyncio.Event()

    def node_changed(self, body: dict[str, Any], *, deleted: bool) -> None:
        """One event."""
        self.nodes[body["metadata"]["name"]] += 1
        if set(NAMES) <= self.nodes.keys():
            self.complete.set()

    def other_changed(self, body: dict[str, Any], *, deleted: bool) -> None:
        """Of no interest here."""

    job_changed = policy_changed = mpijob_changed = pod_changed = other_changed


@pytest.fixture
def nodes(api: Api) -> Iterator[None]:
    """More nodes than two pages of two hold."""
    for name in NAMES:
        api.create(NODES, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}})
    yield
    for name in NAMES:
        api.delete(f"{NODES}/{name}")


async def watch_until_complete() -> Heard:
    """kopf with the operator's handlers, until it has told of all nodes and ended."""
    registry, heard, stop = kopf.OperatorRegistry(), Heard(), asyncio.Event()
    handlers.register(registry)
    watching = asyncio.create_task(kopf.operator(registry=registry, memo=heard, standalone=True, clusterwide=True, stop_flag=stop))
    try:
        async with asyncio.timeout(60):
            await heard.complete.wait()
    finally:
        stop.set()
        await watching
    return heard


@pytest.mark.usefixtures("nodes")
async def test_every_kind_is_listed_in_pages_and_every_page_is_heard(
    api: Api, plane: ControlPlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handlers, "PAGE_SIZE", 2)
    monkeypatch.setenv("KUBECONFIG", str(plane.kubeconfig))
    begin = audit.caught_up(api, plane.audit_log)
    heard = await watch_until_complete()
    assert set(NAMES) <= heard.nodes.keys()
    lists = listed(api, plane, begin)
    assert {resource for resource, _ in lists} >= WATCHED
    assert [(resource, query) for resource, query in lists if query.get("limit") != ["2"]] == []
    assert sum("continue" in query for resource, query in lists if resource == "nodes") >= 2


def listed(api: Api, plane: ControlPlane, begin: int) -> list[tuple[str, dict[str, list[str]]]]:
    """Resource and query of every list that kopf asked for since that position of the audit log."""
    audit.settled(api, plane.audit_log, begin)
    with plane.audit_log.open("rb") as file:
        file.seek(begin)
        events = [json.loads(line) for line in file if line.endswith(b"\n")]
    asked = [one for one in events if str(one.get("userAgent")).startswith("kopf") and one["verb"] == "list"]
    return [(one["objectRef"]["resource"], parse_qs(urlsplit(one["requestURI"]).query)) for one in asked]
