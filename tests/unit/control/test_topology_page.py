"""The page with a map of the cluster: escaped, without scripts, bounded, for the loopback only."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from html.parser import HTMLParser
from xml.etree import ElementTree

import aiohttp
import networkx
import pytest

from e2e.cluster.ports import free_ports
from hyperscale.control.telemetry.metrics import Telemetry, TelemetryServer
from hyperscale.model.api.topology import TopologyStatus, topology_status
from hyperscale.model.cluster import ClusterSnapshot, Link, MetricsState, Node, Quality, Sample
from hyperscale.pictures import page as topologypage
from hyperscale.pictures.graphml import graphml

HOSTILE = '<script>alert("1")</script>&\'\x07'


def cluster(count: int = 6, **changed: object) -> ClusterSnapshot:
    names = [f"node-{number:04d}" for number in range(count)]
    nodes = tuple(
        Node(name, "NVIDIA-H100", None, 8, at % 9, schedulable=at != 5, domains=(f"eu-{at % 2}", f"eu-{at % 2}/r{at % 4}"))
        for at, name in enumerate(names)
    )
    links = tuple(
        Link(a, b, Sample(1e-5 * (1 + at), 2.0, Quality.MEASURED, source="agent", confidence=0.75), Sample(1e9, 2.0, Quality.MEASURED))
        for at, (a, b) in enumerate((a, b) for a in names[:6] for b in names[:6] if a != b)
    )
    made = ClusterSnapshot(taken_at=0.0, nodes=nodes, links=links, levels=("region", "rack"), metrics=MetricsState(True))
    return ClusterSnapshot(**{**{name: getattr(made, name) for name in made.__struct_fields__}, **changed})


def html(snapshot: ClusterSnapshot) -> str:
    return topologypage.page(topology_status(snapshot), 15)


class Tags(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)
        assert not any(name.startswith("on") or name in ("style", "src", "href") for name, _ in attrs)
        if tag != "meta":
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_every_node_and_few_links_are_drawn_and_told_with_their_source() -> None:
    text = html(cluster())
    tags = Tags(text)
    assert tags.open == []
    assert text.count('class="node"') == 6
    assert text.count('class="link"') == 7, "three pairs in each of two islands, and the median between them"
    assert "measured by Agent, confidence 0.75, 2 s old" in text
    assert "cordoned" in text
    assert 'http-equiv="refresh" content="15"' in text


def test_whatever_a_name_holds_stays_text() -> None:
    nodes = (Node(HOSTILE, HOSTILE, None, 8, 0, domains=(HOSTILE, HOSTILE)), Node("b", None, None, 0, 0, domains=("", "")))
    links = (Link(HOSTILE, "b", Sample(1e-3, None, Quality.MEASURED, source=HOSTILE), Sample(None, None, Quality.UNKNOWN, "x")),)
    state = MetricsState(False, "PrometheusTimeout", HOSTILE, (HOSTILE,))
    text = html(cluster(nodes=nodes, links=links, metrics=state))
    assert "script" not in Tags(text).seen
    assert "No metrics (PrometheusTimeout)" in text
    assert "\x07" not in text


def test_a_large_cluster_stays_a_bounded_page_and_says_what_it_leaves_out() -> None:
    text = html(cluster(5000))
    assert text.count('class="node"') == 5000
    assert len(text) < 2_000_000
    assert Tags(text).open == []


@pytest.mark.parametrize(
    "snapshot", [cluster(1), cluster(0), cluster(links=()), cluster(levels=())], ids=["one", "none", "no links", "no levels"]
)
def test_small_and_unlabelled_clusters_have_a_page_too(snapshot: ClusterSnapshot) -> None:
    assert Tags(html(snapshot)).open == []


def test_equal_clusters_give_equal_pages() -> None:
    status = topology_status(cluster(40))
    assert topologypage.page(status) == topologypage.page(
        TopologyStatus(**{name: getattr(status, name) for name in status.__struct_fields__})
    )


def test_graphml_comes_back_as_the_same_graph_with_qualities() -> None:
    text = graphml(cluster())
    read = networkx.parse_graphml(text)
    assert len(read.nodes) == 6
    assert len(read.edges) == 30
    assert read.nodes["node-0005"]["freeGpus"] == 0
    assert read.nodes["node-0003"]["level:rack"] == "eu-1/r3"
    edge = read.edges["node-0000", "node-0001"]
    assert (edge["latencySeconds"], edge["latencyQuality"], edge["latencySource"], edge["latencyConfidence"]) == (
        1e-5,
        "measured",
        "agent",
        0.75,
    )


def test_graphml_holds_whatever_a_name_holds_but_control_characters() -> None:
    text = graphml(cluster(nodes=(Node(HOSTILE, HOSTILE, None, 1, 0),), links=(), levels=()))
    (node,) = ElementTree.fromstring(text).iter("{http://graphml.graphdrawing.org/xmlns}node")  # noqa: S314 - made just now
    assert node.get("id") == HOSTILE.replace("\x07", "")


@asynccontextmanager
async def serving(fault: str = "") -> AsyncIterator[int]:
    async def page() -> bytes:
        return html(cluster()).encode()

    health, metrics, port = free_ports(3)
    server = TelemetryServer(Telemetry(), lambda: "", lambda: fault, page)
    await server.start(health, metrics, port)
    try:
        yield port
    finally:
        await server.stop()


async def test_the_page_is_served_to_the_loopback_under_a_policy_that_allows_its_style_only() -> None:
    async with serving() as port, aiohttp.ClientSession() as session:
        async with session.get(f"http://127.0.0.1:{port}/topology") as answer:
            text = await answer.text()
            assert (answer.status, answer.content_type) == (200, "text/html")
            policy = answer.headers["Content-Security-Policy"]
        assert policy.startswith("default-src 'none'")
        assert "script-src" not in policy
        assert len(re.findall("<style>", text)) == 1
        async with session.get(f"http://127.0.0.1:{port}/topology", headers={"Host": "evil.example:80"}) as answer:
            assert answer.status == 403
        async with session.post(f"http://127.0.0.1:{port}/topology", data=b"x" * 4096) as answer:
            assert answer.status == 405


async def test_before_the_first_listing_there_is_no_page_rather_than_one_of_an_empty_cluster() -> None:
    async with (
        serving("the first listing is not done") as port,
        aiohttp.ClientSession() as session,
        session.get(f"http://127.0.0.1:{port}/topology") as answer,
    ):
        assert (answer.status, await answer.text()) == (503, "the first listing is not done\n")
