from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator

import pytest

from hyperscale.agent import agent_server as module
from hyperscale.agent.agent_server import MAX_CONNECTIONS, MAX_CONNECTIONS_OF_HOST, MAX_HEAD_BYTES, AgentServer, HttpAnswer, metrics

LOOPBACK = "127.0.0.1"


def fail() -> HttpAnswer:
    raise RuntimeError("a bug")


@pytest.fixture
async def server() -> AsyncIterator[AgentServer]:
    server = AgentServer({"/healthz": lambda: HttpAnswer(200, "fine\n"), "/metrics": metrics(lambda: "a 1\n"), "/broken": fail})
    yield server
    await server.stop()


@pytest.fixture
async def port(server: AgentServer) -> int:
    return await server.start(0, LOOPBACK)


async def ask(port: int, request: bytes) -> bytes:
    reader, writer = await asyncio.open_connection(LOOPBACK, port)
    try:
        writer.write(request)
        await writer.drain()
        async with asyncio.timeout(30):
            return await reader.read()
    except ConnectionError:
        return b""
    finally:
        writer.close()


async def test_a_page_comes_with_its_type_and_length(port: int) -> None:
    answer = await ask(port, b"GET /metrics?x=1 HTTP/1.1\r\nHost: a\r\n\r\n")
    head, body = answer.split(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 OK\r\n")
    assert b"Content-Type: text/plain; version=0.0.4; charset=utf-8" in head
    assert b"Content-Length: 4" in head
    assert body == b"a 1\n"


@pytest.mark.parametrize(
    ("request_line", "status"),
    [
        (b"GET /healthz HTTP/1.1", b"200 OK"),
        (b"GET http://node-a:9465/healthz?x=1 HTTP/1.1", b"200 OK"),
        (b"GET http://node-a:9465 HTTP/1.1", b"404 Not Found"),
        (b"GET /nothing HTTP/1.1", b"404 Not Found"),
        (b"GET /../etc/passwd HTTP/1.1", b"404 Not Found"),
        (b"POST /healthz HTTP/1.1", b"405 Method Not Allowed"),
        (b"GET /broken HTTP/1.0", b"500 Internal Server Error"),
        (b"GET /healthz", b"400 Bad Request"),
        (b"\xff\xfe\x00 \x01 \x02", b"400 Bad Request"),
        (b"", b"400 Bad Request"),
    ],
)
async def test_each_request_gets_its_status(port: int, request_line: bytes, status: bytes) -> None:
    answer = await ask(port, request_line + b"\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 " + status)
    assert b"a bug" not in answer


async def test_head_has_no_body(port: int) -> None:
    answer = await ask(port, b"HEAD /healthz HTTP/1.1\r\n\r\n")
    assert answer.endswith(b"\r\n\r\n")
    assert b"Content-Length: 5" in answer


async def test_a_head_without_end_is_cut_off(port: int) -> None:
    assert await ask(port, b"GET /healthz HTTP/1.1\r\nX: " + b"a" * (MAX_HEAD_BYTES * 4)) == b""


async def test_a_client_that_says_nothing_is_let_go(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "REQUEST_SECONDS", 0.1)
    assert await ask(port, b"GET /heal") == b""


async def silent(port: int, number: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A connection that says nothing, from one of many addresses."""
    return await asyncio.open_connection(LOOPBACK, port, local_addr=(f"127.0.1.{number + 1}", 0))


async def test_one_client_that_holds_connections_does_not_shut_the_others_out(port: int, server: AgentServer) -> None:
    held = [await silent(port, 0) for _ in range(MAX_CONNECTIONS)]
    assert (await ask(port, b"GET /healthz HTTP/1.1\r\n\r\n")).startswith(b"HTTP/1.1 200 OK")
    assert server.connections <= MAX_CONNECTIONS_OF_HOST
    for _, writer in held:
        writer.close()


async def test_a_rush_from_one_address_does_not_shut_another_out_for_a_moment_either(port: int, server: AgentServer) -> None:
    """All of them wait in the kernel before the server takes the first: it takes them in one go, the other address last."""
    with contextlib.ExitStack() as rush:
        for _ in range(2 * MAX_CONNECTIONS):
            rush.enter_context(socket.create_connection((LOOPBACK, port), source_address=("127.0.1.1", 0)))
        other = rush.enter_context(socket.create_connection((LOOPBACK, port)))
        other.sendall(b"GET /healthz HTTP/1.1\r\n\r\n")
        other.setblocking(False)
        async with asyncio.timeout(30):
            assert (await asyncio.get_running_loop().sock_recv(other, 100)).startswith(b"HTTP/1.1 200 OK")
    assert server.connections <= MAX_CONNECTIONS_OF_HOST + 1


async def test_an_answer_that_nobody_reads_is_not_kept(server: AgentServer, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ANSWER_SECONDS", "REQUEST_SECONDS"):
        monkeypatch.setattr(module, name, 0.2)
    full = 16 * 1024 * 1024
    server._pages["/metrics"] = metrics(lambda: "a" * full)
    port = await server.start(0, LOOPBACK)
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.setblocking(False)
        loop = asyncio.get_running_loop()
        await loop.sock_connect(client, (LOOPBACK, port))
        await loop.sock_sendall(client, b"GET /metrics HTTP/1.1\r\n\r\n")
        await asyncio.sleep(0.01)
        while server.connections:  # noqa: ASYNC110 - the server has nothing to wait on but its number
            await asyncio.sleep(0.01)
        read = 0
        with contextlib.suppress(ConnectionResetError):
            while part := await loop.sock_recv(client, 1 << 20):
                read += len(part)
        assert read < full


async def test_more_connections_than_allowed_are_closed_at_once_and_the_others_go_on(port: int, server: AgentServer) -> None:
    held = [await silent(port, number // MAX_CONNECTIONS_OF_HOST) for number in range(MAX_CONNECTIONS)]
    while server.connections < MAX_CONNECTIONS:  # noqa: ASYNC110 - the server has nothing to wait on but its number
        await asyncio.sleep(0)
    assert await ask(port, b"GET /healthz HTTP/1.1\r\n\r\n") == b""
    held[0][1].write(b"GET /healthz HTTP/1.1\r\n\r\n")
    assert (await held[0][0].read()).startswith(b"HTTP/1.1 200 OK")
    for _, writer in held:
        writer.close()
