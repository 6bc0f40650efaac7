"""Agents that talk over the loopback interface: measuring, proving, refusing. One pair of agents for all of these, hence long."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from hyperscale.agent.agent_settings import AgentSettings
from hyperscale.agent.probe import probe
from hyperscale.agent.probe import probe_wire as wire
from hyperscale.agent.probe.peers import Peer
from hyperscale.agent.probe.probe_client import Burst, Client, PeerError
from hyperscale.agent.probe.probe_metrics import ProbeSeries
from hyperscale.agent.probe.probe_rounds import Destination, Rounds
from hyperscale.agent.probe.probe_server import ProbeServer
from hyperscale.agent.probe.probe_settings import LinkSettings
from hyperscale.agent.probe.probe_socket import Sent, SocketBudget
from tests.unit.agent.probe_ends import HOST, OTHER, SECRET, ends, free_port


async def test_round_trips_and_a_train_are_measured(tmp_path: Path) -> None:
    async with ends(tmp_path) as (first, second):
        client = first.towards(second)
        trips = await client.round_trips()
        assert len(trips.seconds) == trips.sent == 5
        assert all(0 < seconds < 1 for seconds in trips.seconds)
        burst = await client.burst(None, paced=False, reserve=0.0)
        assert burst.bytes_per_second > 1e6
        await client.close()


async def test_a_session_ends_with_the_token_that_opened_it(tmp_path: Path) -> None:
    async with ends(tmp_path) as (first, second):
        client = first.towards(second)
        assert (await client.burst(None, paced=False, reserve=0.0)).packets > 0
        for end in (first, second):
            (tmp_path / end.name).write_text(OTHER)
            end.tokens._checked = -float("inf")
            end.tokens.own()
            end.tokens._former.clear()  # as after the grace
        with pytest.raises(PeerError, match="broken off"):
            await client.burst(None, paced=False, reserve=0.0)
        assert second.server.refused == {"token": 1}
        assert (await client.burst(None, paced=False, reserve=0.0)).packets > 0
        await client.close()


def test_the_count_of_bytes_spent_never_falls_and_is_right_in_the_end() -> None:
    purse = SocketBudget(1e-9, 1000.0)
    assert purse.take(600)
    purse.give_back(500)
    assert purse.spent_bytes == 600
    assert purse.take(300)
    assert purse.spent_bytes == 600
    assert purse.take(300)
    assert purse.spent_bytes == 700


async def test_a_busy_node_and_a_spent_budget_refuse_trains_but_not_round_trips(tmp_path: Path) -> None:
    async with ends(tmp_path, capacity=100_000.0) as (first, second):
        client = first.towards(second)
        with pytest.raises(PeerError, match="budget"):
            await client.burst(None, paced=False, reserve=0.0)
        second.busy = True
        with pytest.raises(PeerError, match="busy"):
            await client.burst(None, paced=False, reserve=0.0)
        assert len((await client.round_trips()).seconds) == 5
        await client.close()


async def test_a_peer_that_started_anew_is_met_with_a_new_session(tmp_path: Path) -> None:
    async with ends(tmp_path) as (first, second):
        client = first.towards(second)
        await client.round_trips()
        await second.server.close()
        second.server = ProbeServer("b", second.tokens, second.datagrams, second.purse, lambda: False)
        await second.server.start(HOST, second.peer.port)
        for _ in range(6000):
            if not second.datagrams.sessions:
                break
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.05)
        assert len((await client.round_trips()).seconds) == 5
        await client.close()


async def test_agents_serve_the_figures_of_their_links_and_none_of_peers_that_are_gone(tmp_path: Path) -> None:
    (tmp_path / "token").write_text(SECRET)
    addresses = ("127.0.0.1", "127.0.0.2")
    port = free_port()
    environment = {
        "HYPERSCALE_AGENT_TOKEN_FILE": str(tmp_path / "token"),
        "HYPERSCALE_AGENT_PEERS": ",".join(f"n{at}={address}:{port}" for at, address in enumerate(addresses)),
    }
    registries = [CollectorRegistry() for _ in addresses]
    tasks = [
        asyncio.create_task(probe.run(AgentSettings(node=f"n{at}", pod_ip=address, probe_port=port), registries[at], environment))
        for at, address in enumerate(addresses)
    ]
    for _ in range(3000):
        text = generate_latest(registries[0]).decode()
        if re.search(r"^hyperscale_link_bandwidth\w+{", text, re.MULTILINE):  # or a lower bound: loopback is faster than any sender
            break
        await asyncio.sleep(0.02)
    else:
        pytest.fail(text)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert "hyperscale_link_latency_seconds{" in text
    assert re.search(r"^hyperscale_link_probe_sent_total [1-9]", text, re.MULTILINE)
    assert not generate_latest(registries[0])  # an agent that ended serves nothing


async def test_settings_that_cannot_be_never_end_the_agent(caplog: pytest.LogCaptureFixture) -> None:
    task = asyncio.create_task(probe.run(AgentSettings(node="a"), CollectorRegistry(), {"HYPERSCALE_AGENT_KEEP_SECONDS": "x"}))
    async with asyncio.timeout(60):
        while "HYPERSCALE_AGENT_KEEP_SECONDS" not in caplog.text:  # noqa: ASYNC110 - a log sends no event
            await asyncio.sleep(0.01)
    assert not task.done()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_a_link_faster_than_the_agent_can_send_has_a_lower_bound_and_no_figure(tmp_path: Path) -> None:
    async with ends(tmp_path) as (first, _):
        rounds = Rounds("a", LinkSettings(), first.tokens, first.datagrams, first.purse, lambda: False)
        destination = Destination(Client("a", Peer("b", HOST, 1), first.tokens, first.datagrams, first.purse))
        rounds._destinations["b"], rounds.series["b"] = destination, ProbeSeries()
        link = Burst(1e9, limited=False, blocked=False, packets=320, lost=0)
        for burst in (link, link):
            rounds._note_burst("b", destination, burst)
        assert rounds.series["b"].bandwidth_bytes_per_second == 1e9
        slow, fast = link._replace(bytes_per_second=5e8, limited=True), link._replace(bytes_per_second=3e9, limited=True)
        for burst in (slow, slow, slow, slow, slow):  # a busy processor tells nothing of the link
            rounds._note_burst("b", destination, burst)
        assert rounds.series["b"].bandwidth_bytes_per_second == 1e9
        measured_at = destination.rate_at
        rounds._note_burst("b", destination, slow)
        assert destination.rate_at == measured_at, "what says nothing for the figure does not keep it alive"
        rounds._note_burst("b", destination, slow._replace(bytes_per_second=9.5e8))
        assert destination.rate_at > measured_at
        for _ in range(4):
            rounds._note_burst("b", destination, fast)
        assert rounds.series["b"].bandwidth_bytes_per_second is None
        assert rounds.series["b"].bandwidth_at_least == 3e9
        rounds._note_burst("b", destination, fast._replace(blocked=True))
        assert rounds.series["b"].bandwidth_bytes_per_second == 3e9
        assert rounds.series["b"].bandwidth_at_least is None


async def test_a_peer_that_leaves_the_list_while_it_is_measured_costs_the_visit_and_no_traceback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with ends(tmp_path) as (first, second):
        client = first.towards(second)
        await client.round_trips()
        asked = first.datagrams.ping

        def once(session: wire.Session, number: int, address: tuple[str, int]) -> asyncio.Future[float]:
            future = asked(session, number, address)
            leaving.append(asyncio.ensure_future(client.close()))
            return future

        leaving: list[asyncio.Future[None]] = []
        monkeypatch.setattr(first.datagrams, "ping", once)
        with pytest.raises(PeerError, match="closed meanwhile"):
            await client.round_trips()
        await asyncio.gather(*leaving)


async def test_a_peer_given_by_its_name_is_measured_at_the_address_that_was_connected_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name would be looked up for every datagram, in the event loop, and count as round trip."""
    async with ends(tmp_path) as (first, second):
        client = Client("a", second.peer._replace(host="localhost"), first.tokens, first.datagrams, first.purse)
        addresses: set[tuple[str, int]] = set()
        ping, send_train = first.datagrams.ping, first.datagrams.send_train

        def pinged(session: wire.Session, number: int, to: tuple[str, int]) -> asyncio.Future[float]:
            addresses.add(to)
            return ping(session, number, to)

        def sent(content: bytearray, to: tuple[str, int], seconds: float) -> Sent:
            addresses.add(to)
            return send_train(content, to, seconds)

        monkeypatch.setattr(first.datagrams, "ping", pinged)
        monkeypatch.setattr(first.datagrams, "send_train", sent)
        assert (await client.round_trips()).median is not None
        await client.burst(None, paced=False, reserve=0.0)
        await client.close()
        assert addresses == {(HOST, second.peer.port)}
