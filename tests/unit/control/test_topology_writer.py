"""The ClusterTopology is written when it has something to tell, at a bounded rate, and not again after a restart."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from hyperscale.agent.probe.probe_schedule import MAX_DESTINATIONS, ProbeSchedule
from hyperscale.control.apply.api_answers import ConflictError, TransientError
from hyperscale.control.telemetry.metrics import Telemetry
from hyperscale.control.topology import writer as publish
from hyperscale.control.topology.topology_changes import ALL_PAIRS_NODES
from hyperscale.control.topology.writer import TopologyWriter
from hyperscale.model.api.policy import PolicySpec
from hyperscale.model.api.topology import topology_status
from hyperscale.model.cluster import ClusterSnapshot, Link, MetricsState, Node, Quality, Sample

OBJECT = "/apis/hyperscale.dev/v1alpha1/clustertopologies/default"


def cluster(latency: float = 1e-3, free: int = 4, age: float = 1.0, message: str = "") -> ClusterSnapshot:
    links = (Link("a", "b", Sample(latency, age, Quality.MEASURED, source="agent"), Sample(1e9, age, Quality.MEASURED, source="agent")),)
    nodes = tuple(Node(name, None, None, allocatable_gpus=4, requested_gpus=4 - free) for name in "ab")
    return ClusterSnapshot(taken_at=age, nodes=nodes, links=links, metrics=MetricsState(True, message=message))


class Api:
    """Keeps one object as the API server does."""

    def __init__(self) -> None:
        self.objects: dict[str, Any] = {}
        self.writes = self.versions = self.conflicts = 0
        self.fails = False

    async def find(self, path: str) -> Any:
        found = self.objects.get(path)
        return found and found | {"metadata": found["metadata"] | {"resourceVersion": str(self.versions)}}

    async def apply(self, path: str, body: Any, field_manager: str) -> Any:
        if self.fails:
            raise TransientError(503, "no")
        target, version = path.removesuffix("/status"), str(self.versions)
        if body["metadata"].get("resourceVersion", version) != version:
            self.conflicts += 1
            raise ConflictError(409, "it was changed")
        self.writes += path.endswith("/status")
        self.versions += 1
        written = msgspec.json.decode(msgspec.json.encode(body))
        written["metadata"]["resourceVersion"] = str(self.versions)
        self.objects[target] = {**self.objects.get(target, {}), **written}
        return self.objects[target]


class World:
    def __init__(self) -> None:
        self.now = cluster()
        self.clock = 0.0

    def snapshot(self, policy: PolicySpec, now: float) -> ClusterSnapshot:
        return self.now


@asynccontextmanager
async def running(api: Api, cache: World) -> AsyncIterator[Telemetry]:
    telemetry = Telemetry()
    writer = TopologyWriter(api, cache, PolicySpec, telemetry, lambda: cache.clock, 60.0)  # type: ignore[arg-type] # stand-ins
    task = asyncio.create_task(writer.run())
    try:
        yield telemetry
    finally:
        task.cancel()


@pytest.fixture(autouse=True)
def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publish, "LOOK_SECONDS", 0.001)


async def looked(api: Api, writes: int) -> None:
    """Until `writes` writes were made; then long enough for one more, if it were to come."""
    async with asyncio.timeout(10):
        while api.writes < writes:  # noqa: ASYNC110 - what is waited for is in the stand-in API
            await asyncio.sleep(0.002)
    await asyncio.sleep(0.05)
    assert api.writes == writes


async def test_noise_ages_and_wording_are_no_reason_to_write() -> None:
    api, cache = Api(), World()
    async with running(api, cache):
        await looked(api, 1)
        for latency in (1.15e-3, 0.9e-3, 1.19e-3):
            cache.now = cluster(latency, age=7.0, message="12 series name no node")
            await looked(api, 1)
        cache.now = cluster(1.3e-3)
        await looked(api, 2)
        assert api.objects[OBJECT]["status"]["links"][0]["latencySeconds"] == 1.3e-3
        assert api.objects[OBJECT]["status"]["links"][0]["sources"] == ["Agent"]


async def test_a_figure_that_creeps_away_is_written_once_it_is_far_from_what_stands_there() -> None:
    api, cache = Api(), World()
    async with running(api, cache):
        await looked(api, 1)
        for step in range(1, 5):
            cache.now = cluster(1e-3 * 1.06**step)
            await looked(api, 1 if step < 4 else 2)


async def test_a_restart_does_not_write_what_is_there_already() -> None:
    api, cache = Api(), World()
    async with running(api, cache):
        await looked(api, 1)
    cache.now = cluster(1.1e-3, age=99.0)
    async with running(api, cache):
        await looked(api, 1)
        cache.now = cluster(free=2)
        await looked(api, 2)


async def test_an_object_of_another_version_is_written_anew() -> None:
    api, cache = Api(), World()
    api.objects[OBJECT] = {"metadata": {"resourceVersion": "0"}, "status": {"nodeCount": "many"}}
    async with running(api, cache):
        await looked(api, 1)


async def test_what_another_wrote_is_read_before_it_is_written_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publish, "RETRY_SECONDS", 0.001)
    api, cache = Api(), World()
    writer = TopologyWriter(api, cache, PolicySpec, Telemetry(), lambda: cache.clock, 0.001)  # type: ignore[arg-type] # stand-ins
    task = asyncio.create_task(writer.run())
    await looked(api, 1)
    api.versions += 1
    cache.clock, cache.now = 61.0, cluster(1e-9)
    async with asyncio.timeout(10):
        while api.objects[OBJECT]["status"]["links"][0]["latencySeconds"] != 1e-9:
            cache.clock += 1.0
            await asyncio.sleep(0.002)
    assert api.conflicts == 1
    task.cancel()


async def test_news_that_never_end_are_written_at_the_rate_and_the_last_of_them_is_not_lost() -> None:
    api, cache = Api(), World()
    async with running(api, cache):
        for number in range(10):
            cache.now = cluster(10.0**-number)
            await looked(api, min(number + 1, publish.BURST))
        cache.clock = 61.0
        await looked(api, publish.BURST + 1)
        assert api.objects[OBJECT]["status"]["links"][0]["latencySeconds"] == 1e-9


async def test_a_server_that_refuses_is_counted_and_harms_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publish, "RETRY_SECONDS", 0.001)
    api, cache = Api(), World()
    api.fails = True
    writer = TopologyWriter(api, cache, PolicySpec, telemetry := Telemetry(), lambda: cache.clock, 0.001)  # type: ignore[arg-type] # stand-ins
    task = asyncio.create_task(writer.run())
    while telemetry.topology_writes.labels(outcome="Failed")._value.get() < 2:
        cache.clock += 1.0
        await asyncio.sleep(0.002)
    api.fails = False
    async with asyncio.timeout(10):
        while not api.writes:
            cache.clock += 1.0
            await asyncio.sleep(0.002)
    task.cancel()


def test_clusters_that_differ_in_more_than_noise_are_told_apart() -> None:
    written = topology_status(cluster())
    for other in (cluster(free=3), replace(cluster(), metrics=MetricsState(False, "PrometheusTimeout")), replace(cluster(), links=())):
        assert publish._news(other, written) is not None


def of_agents(hour: int, count: int = 48) -> ClusterSnapshot:
    """Links as agents serve them in a round, none of which ever changes its figures."""
    schedule = ProbeSchedule({f"node-{number}": f"rack-{number // 16}" for number in range(count)})
    drawn = {(f"node-{me}", peer) for me in range(count) for peer in sum(schedule.targets(f"node-{me}", hour), ())}
    links = tuple(Link(*pair, Sample(1e-3, 1.0, Quality.MEASURED), Sample(1e9, 1.0, Quality.MEASURED)) for pair in sorted(drawn))
    return replace(cluster(), links=links)


def test_an_idle_cluster_whose_agents_draw_other_pairs_every_round_writes_nothing() -> None:
    assert ALL_PAIRS_NODES == 2 * MAX_DESTINATIONS + 1
    written = topology_status(of_agents(100))
    assert len({of_agents(hour).links for hour in range(100, 105)}) > 2
    assert [publish._news(of_agents(hour), written) for hour in range(101, 105)] == [None] * 4


def test_a_pair_of_few_nodes_that_went_a_node_without_links_and_a_figure_that_changed_are_news() -> None:
    few = of_agents(100, count=12)
    assert publish._news(replace(few, links=few.links[1:]), topology_status(few)) is not None
    before = of_agents(100)
    written = topology_status(before)
    silent = tuple(link for link in before.links if "node-7" not in (link.source, link.destination))
    assert publish._news(replace(before, links=silent), written) is not None
    slower = tuple(replace(link, latency_seconds=Sample(2e-3, 1.0, Quality.MEASURED)) for link in of_agents(101).links)
    assert publish._news(replace(before, links=slower), written) is not None
