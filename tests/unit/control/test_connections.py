"""A request that ends early gives its connection back: one that the API server never finishes takes none from the others."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import aiohttp
import pytest
from kubernetes.aio import client as official

from hyperscale.control.apply.api_answers import MAX_BODY_BYTES, ApiError, TransientError
from hyperscale.control.apply.client import ApiClient

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
NAMED = b'{"metadata": {"name": "a"}}'


async def begun(writer: asyncio.StreamWriter) -> None:
    """An answer that begins and has no end, as that of a watch."""
    writer.write(HEAD + b"1\r\n{\r\n")
    await writer.drain()
    await asyncio.Event().wait()


async def endless(writer: asyncio.StreamWriter) -> None:
    """An answer that is longer than any that is read."""
    writer.write(HEAD)
    chunk = b"%x\r\n" % 2**20 + b" " * 2**20 + b"\r\n"
    for _ in range(2 * MAX_BODY_BYTES // 2**20):
        writer.write(chunk)
        await writer.drain()


@asynccontextmanager
async def server(odd: Callable[[asyncio.StreamWriter], Awaitable[None]]) -> AsyncIterator[str]:
    """URL of an API server that answers /odd as said, and everything else at once."""
    tasks: set[asyncio.Task[None]] = set()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                if head.startswith(b"GET /odd"):
                    await odd(writer)
                else:
                    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(NAMED) + NAMED)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(talk(reader, writer))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    listening = await asyncio.start_server(connected, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
    finally:
        listening.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@asynccontextmanager
async def one_connection(url: str, answered: asyncio.Event, timeout_seconds: float) -> AsyncIterator[ApiClient]:
    """A client that may have one connection at a time; `answered` is set when the head of an answer has come."""
    trace = aiohttp.TraceConfig()

    async def note(*_: object) -> None:
        answered.set()

    trace.on_request_end.append(note)
    configuration = official.Configuration(host=url)
    configuration.connection_pool_maxsize = 1
    configuration.trace_configs = [trace]
    client = ApiClient(official.ApiClient(configuration), timeout_seconds)
    try:
        yield client
    finally:
        await client.close()


@pytest.mark.parametrize("odd", [begun, endless])
async def test_a_connection_is_free_again_after_an_answer_that_was_given_up(odd: Callable[[asyncio.StreamWriter], Awaitable[None]]) -> None:
    async with server(odd) as url, one_connection(url, asyncio.Event(), 2.0) as client:
        with pytest.raises(ApiError):
            await client.get("/odd")
        assert await client.get("/plain") == {"metadata": {"name": "a"}}


async def test_a_connection_is_free_again_after_a_cancelled_request() -> None:
    answered = asyncio.Event()
    async with server(begun) as url, one_connection(url, answered, 30.0) as client:
        asking = asyncio.create_task(client.get("/odd"))
        await answered.wait()
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        async with asyncio.timeout(10.0):
            assert await client.get("/plain") == {"metadata": {"name": "a"}}


async def test_an_answer_that_has_no_end_is_told_as_none() -> None:
    async with server(begun) as url, one_connection(url, asyncio.Event(), 0.5) as client:
        with pytest.raises(TransientError, match="no answer within"):
            await client.get("/odd")
