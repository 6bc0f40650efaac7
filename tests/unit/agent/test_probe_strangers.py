"""Strangers at an agent's probe port get no session, no figures and no room in the log."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from hyperscale.agent.probe import probe_wire as wire
from hyperscale.agent.probe.peers import Peer
from hyperscale.agent.probe.probe_client import Client, PeerError
from hyperscale.agent.probe.probe_server import MAX_STRANGERS, MAX_STRANGERS_OF_HOST
from hyperscale.agent.probe.probe_stream import PeerChannel
from tests.unit.agent.probe_ends import HOST, OTHER, connection, ends, silent


async def test_who_does_not_know_the_token_learns_nothing_and_measures_nothing(tmp_path: Path) -> None:
    async with ends(tmp_path, second_token=OTHER) as (first, second):
        with pytest.raises(PeerError, match="token"):
            await second.towards(first).round_trips()
        assert first.server.refused == {"token": 1}
        assert not first.datagrams.sessions


async def test_who_claims_to_be_another_node_is_not_measured(tmp_path: Path) -> None:
    async with ends(tmp_path) as (first, second):
        with pytest.raises(PeerError, match="another node"):
            await first.towards(second, name="c").round_trips()


async def test_a_recorded_handshake_cannot_be_played_again(tmp_path: Path) -> None:
    async with ends(tmp_path) as (first, second):
        token = first.tokens.own()
        hello = wire.Hello(wire.VERSION, "a", "0" * 32, token.key_id)
        channel = await connection(second)
        await channel.send(hello)
        welcome = await channel.receive(wire.Welcome)
        recorded = wire.TokenProof(wire.proof(token.secret, "client", hello, welcome.name, welcome.nonce))
        await channel.close()
        again = await connection(second)
        await again.send(hello)
        assert (await again.receive(wire.Welcome)).nonce != welcome.nonce
        await again.send(recorded)
        with pytest.raises((EOFError, ConnectionError)):
            await again.receive(wire.Reply)
        await again.close()
        assert second.server.sessions == 0


async def test_a_server_that_only_echoes_proofs_back_is_found_out(tmp_path: Path) -> None:
    async def mirror(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        channel = PeerChannel(reader, writer, "server")
        hello = await channel.receive(wire.Hello)
        await channel.send(wire.Welcome("b", hello.nonce, "00" * 32))
        await channel.close()

    async with ends(tmp_path) as (first, second):
        server = await asyncio.start_server(mirror, HOST, 0)
        port = server.sockets[0].getsockname()[1]
        client = Client("a", Peer("b", HOST, port), first.tokens, first.datagrams, first.purse)
        with pytest.raises(PeerError, match="does not know the token"):
            await client.round_trips()
        server.close()
        assert second.server.sessions == 0


@pytest.mark.parametrize("content", [b"\xff\xff\xff\xff", b"GET / HTTP/1.1\r\n\r\n", b"\0\0\0\2{}", b"\0\0\0\4\xff\xfe\0\0"])
async def test_strangers_get_no_session_whatever_they_send(content: bytes, tmp_path: Path) -> None:
    async with ends(tmp_path) as (first, _):
        reader, writer = await asyncio.open_connection(HOST, first.peer.port)
        writer.write(content)
        writer.write_eof()
        answer = await reader.read()
        assert len(answer) < 200
        writer.close()
        assert first.server.refused.get("token") == 1 or not first.server.sessions
        assert first.server.strangers == 0


async def test_connections_that_prove_nothing_are_bounded(tmp_path: Path) -> None:
    async with ends(tmp_path) as (first, _):
        idle = [await silent(first, number // MAX_STRANGERS_OF_HOST) for number in range(MAX_STRANGERS + 3)]
        for _ in range(6000):
            if first.server.refused.get("full", 0) >= 3:
                break
            await asyncio.sleep(0.01)
        assert first.server.refused["full"] == 3
        assert first.server.strangers == MAX_STRANGERS
        for _, writer in idle:
            writer.close()


async def test_a_single_stranger_does_not_lock_the_others_out(tmp_path: Path) -> None:
    async with ends(tmp_path) as (first, second):
        idle = [await silent(second, 0) for _ in range(MAX_STRANGERS)]
        client = first.towards(second)
        assert (await client.round_trips(1)).seconds
        assert second.server.strangers == MAX_STRANGERS_OF_HOST
        await client.close()
        for _, writer in idle:
            writer.close()


async def test_a_ping_is_answered_once_and_never_to_a_stranger(tmp_path: Path) -> None:
    async with ends(tmp_path) as (first, second):
        client = first.towards(second)
        await client.round_trips(1)
        (identity,) = second.datagrams.sessions
        key = first.datagrams.sessions[identity].key
        session = wire.Session(identity, key)
        before = second.purse.spent_bytes
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(first.datagrams.ping(session, 1, (HOST, second.peer.port)), 0.2)
        forged = wire.Session(identity, b"x" * 32)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(first.datagrams.ping(forged, 9, (HOST, second.peer.port)), 0.2)
        assert second.purse.spent_bytes == before
        await client.close()


async def test_strangers_do_not_fill_the_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with ends(tmp_path) as (_, second):
        for _ in range(20):
            reader, writer = await asyncio.open_connection(HOST, second.peer.port)
            writer.write(wire.LENGTH.pack(2) + b"no")
            await reader.read()
            writer.close()
        assert second.server.refused == {"token": 20}
    assert len([record for record in caplog.records if "refused" in record.message]) == 1
