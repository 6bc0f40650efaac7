"""/metrics, /healthz and /readyz: GET only. Requests are bounded in size and time: no client blocks the agent or fills its memory.

Written on asyncio's streams: an HTTP framework would double the memory of a process that runs on every node.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from hyperscale.agent.exposition import CONTENT_TYPE

_LOG = logging.getLogger("hyperscale.agent.agent_server")

MAX_HEAD_BYTES: Final = 8192
MAX_CONNECTIONS: Final = 32
MAX_CONNECTIONS_OF_HOST: Final = 8
"""Of one address: a single client must not shut Prometheus and the kubelet out."""
REQUEST_SECONDS: Final = 5.0
ANSWER_SECONDS: Final = 10.0
_REASONS: Final = {
    200: "OK",
    400: "Bad Request",
    404: "Not Found",
    405: "Method Not Allowed",
    500: "Internal Server Error",
    503: "Service Unavailable",
}


class HttpAnswer(NamedTuple):
    """Status, text and its type."""

    status: int
    text: str
    content_type: str = "text/plain; charset=utf-8"


Page = Callable[[], HttpAnswer]


class AgentServer:
    """Serves pages by path; one request a connection."""

    def __init__(self, pages: Mapping[str, Page]) -> None:
        """pages: by path; called in the event loop, so they must be quick."""
        self._pages = dict(pages)
        self._listening: asyncio.Server | None = None
        self.connections = 0
        """Open at this moment."""
        self._of_host: Counter[str] = Counter()

    async def start(self, port: int, host: str | None = None) -> int:
        """Listen, by default on all addresses of both families; the port, also where 0 was asked for. Raises OSError."""
        self._listening = await asyncio.start_server(self._serve, host, port, limit=MAX_HEAD_BYTES)
        return int(self._listening.sockets[0].getsockname()[1])

    async def stop(self) -> None:
        """Listen no more."""
        if self._listening is not None:
            self._listening.close()
            self._listening = None

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        name = writer.get_extra_info("peername")
        host = str(name[0]) if name else ""
        if self.connections >= MAX_CONNECTIONS or self._of_host[host] >= MAX_CONNECTIONS_OF_HOST:
            await _closed(writer)  # not counted: while a rush of these closes, others must get in
            return
        self.connections += 1
        self._of_host[host] += 1
        try:
            async with asyncio.timeout(REQUEST_SECONDS):
                head = await reader.readuntil(b"\r\n\r\n")
            async with asyncio.timeout(ANSWER_SECONDS):
                writer.write(self._answer(head))
                await writer.drain()
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, TimeoutError, OSError):
            pass  # a client that says nothing, too much, or leaves: not our trouble
        finally:
            await _closed(writer)
            self.connections -= 1
            self._of_host[host] -= 1
            self._of_host += Counter()  # drops those at 0

    def _answer(self, head: bytes) -> bytes:
        parts = head.split(b"\r\n", 1)[0].decode("latin-1").split(" ")
        if len(parts) != 3 or not parts[2].startswith("HTTP/1."):
            return _encode(HttpAnswer(400, "this is no HTTP/1 request\n"), with_body=True)
        method, target, _ = parts
        path = target.partition("?")[0]
        # What a client sends to a proxy has the host in it, and every server must take it (RFC 9112, 3.2.2).
        page = self._pages.get("/" + path.partition("://")[2].partition("/")[2] if path.startswith("http://") else path)
        if page is None:
            answer = HttpAnswer(404, f"not here; try one of {' '.join(sorted(self._pages))}\n")
        elif method not in {"GET", "HEAD"}:
            answer = HttpAnswer(405, "GET or HEAD only\n")
        else:
            answer = _ask(page)
        return _encode(answer, with_body=method != "HEAD")


async def _closed(writer: asyncio.StreamWriter) -> None:
    """Close; what a client does not fetch in time is thrown away, or those that never read would fill the memory."""
    writer.close()
    try:
        async with asyncio.timeout(REQUEST_SECONDS):
            await writer.wait_closed()
    except (OSError, TimeoutError):
        writer.transport.abort()


def _ask(page: Page) -> HttpAnswer:
    try:
        return page()
    except Exception:  # a page that fails must not take the connection's task with it unseen
        _LOG.exception("a page failed")
        return HttpAnswer(500, "failed; the agent's log says why\n")


def _encode(answer: HttpAnswer, *, with_body: bool) -> bytes:
    body = answer.text.encode()
    allow = "Allow: GET, HEAD\r\n" if answer.status == 405 else ""
    head = (
        f"HTTP/1.1 {answer.status} {_REASONS[answer.status]}\r\nContent-Type: {answer.content_type}\r\n"
        f"Content-Length: {len(body)}\r\n{allow}Connection: close\r\n\r\n"
    )
    return head.encode("latin-1") + (body if with_body else b"")


def metrics(text: Callable[[], str]) -> Page:
    """Page of an exposition text."""
    return lambda: HttpAnswer(200, text(), CONTENT_TYPE)
