from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from hyperscale.agent import server as module
from hyperscale.agent.server import MAX_CONNECTIONS, MAX_HEAD_BYTES, Answer, Server, metrics

LOOPBACK = "127.0.0.1"


def fail() -> Answer:
    raise RuntimeError("a bug")


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    server = Server({"/healthz": lambda: Answer(200, "fine\n"), "/metrics": metrics(lambda: "a 1\n"), "/broken": fail})
    yield server
    await server.stop()


@pytest.fixture
async def port(server: Server) -> int:
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


async def test_more_connections_than_allowed_are_closed_at_once_and_the_others_go_on(port: int, server: Server) -> None:
    held = [await asyncio.open_connection(LOOPBACK, port) for _ in range(MAX_CONNECTIONS)]
    while server.connections < MAX_CONNECTIONS:  # noqa: ASYNC110 - the server has nothing to wait on but its number
        await asyncio.sleep(0)
    assert await ask(port, b"GET /healthz HTTP/1.1\r\n\r\n") == b""
    held[0][1].write(b"GET /healthz HTTP/1.1\r\n\r\n")
    assert (await held[0][0].read()).startswith(b"HTTP/1.1 200 OK")
    for _, writer in held:
        writer.close()
