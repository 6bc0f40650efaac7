"""An HTTP proxy between operator and API server that fails in chosen ways, and counts what passes.

It speaks plain HTTP to the operator and passes the operator's token on, so that the API server still sees who asks. It runs in a thread of
its own; every method may be called from the test's thread.
"""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import parse_qs

import aiohttp
import yaml
from aiohttp import web

from e2e.cluster.api import Access

LOOPBACK: Final = "127.0.0.1"
_HOP_BY_HOP: Final = frozenset({"connection", "keep-alive", "transfer-encoding", "content-length", "host"})
_START_SECONDS: Final = 60.0
_TLS_CLOSE_SECONDS: Final = 0.25
"""aiohttp does not wait for the end of TLS connections."""


@dataclass(frozen=True)
class Asked:
    """One request of the operator."""

    method: str
    path: str
    query: str
    at: float
    """time.monotonic() of the test's process."""
    port: int = 0
    """Where the operator's connection begins: requests with the same one came on the same connection."""

    @property
    def is_watch(self) -> bool:
        return parse_qs(self.query).get("watch") == ["true"]

    @property
    def line(self) -> str:
        """What was asked, without what differs from time to time."""
        return f"{self.method} {self.path}{'?watch' if self.is_watch else ''}"


Chosen = Callable[[Asked], bool]


@dataclass(frozen=True)
class Answer:
    """What the proxy says in the API server's place."""

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)

    def body(self) -> bytes:
        reason = {429: "TooManyRequests", 410: "Gone"}.get(self.status, "InternalError")
        return json.dumps({"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "code": self.status}).encode()


class Held:
    """Requests that the proxy keeps waiting before they reach the API server."""

    def __init__(self, chosen: Chosen, loop: asyncio.AbstractEventLoop) -> None:
        self.chosen = chosen
        self.caught: list[Asked] = []
        self._loop = loop
        self._open = asyncio.Event()

    async def wait(self, asked: Asked) -> None:
        if not self._open.is_set():
            self.caught.append(asked)
        await self._open.wait()

    def release(self) -> None:
        """Let them go on."""
        self._loop.call_soon_threadsafe(self._open.set)


class Stream:
    """One open watch."""

    def __init__(self, response: web.StreamResponse, transport: asyncio.Transport | None) -> None:
        self.response = response
        self.transport = transport
        self.frozen = False
        self.ended = asyncio.Event()


class FaultProxy:
    """The proxy; use as a context manager."""

    def __init__(self, upstream: Access) -> None:
        self._upstream = upstream
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="fault-proxy", daemon=True)
        self._streams: set[Stream] = set()
        self._answers: list[tuple[Chosen, Answer]] = []
        self._held: list[Held] = []
        self._freezing = False
        self._session: aiohttp.ClientSession
        self._runner: web.ServerRunner
        self.asked: list[Asked] = []
        self.events: list[tuple[str, str, str]] = []
        """(type, kind, name) of watch events that were passed on."""
        self.port = 0

    def __enter__(self) -> FaultProxy:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._start(), self._loop).result(_START_SECONDS)
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self._stop(), self._loop).result(_START_SECONDS)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def kubeconfig(self, original: Path, target: Path) -> Path:
        """`original` with this proxy in place of the API server, readable by anybody."""
        config = yaml.safe_load(original.read_text())
        for entry in config["clusters"]:
            entry["cluster"] = {"server": f"http://{LOOPBACK}:{self.port}"}
        target.write_text(yaml.safe_dump(config))
        target.chmod(0o644)
        return target

    def reset(self) -> None:
        """Fail no more. Streams that were frozen stay so: their client must give them up on its own."""
        self._answers.clear()
        for held in self._held:
            held.release()
        self._held.clear()
        self._freezing = False

    @contextmanager
    def answering(self, chosen: Chosen, answer: Answer) -> Iterator[None]:
        """Meanwhile give this answer to chosen requests."""
        rule = (chosen, answer)
        self._answers.append(rule)
        try:
            yield
        finally:
            self._answers.remove(rule)

    @contextmanager
    def holding(self, chosen: Chosen) -> Iterator[Held]:
        """Meanwhile keep chosen requests waiting."""
        held = Held(chosen, self._loop)
        self._held.append(held)
        try:
            yield held
        finally:
            self._held.remove(held)
            held.release()

    def freeze_watches(self) -> int:
        """From now on pass nothing on through open watches, which stay open for ever, nor through new ones until `reset`; their number."""
        self._freezing = True
        return asyncio.run_coroutine_threadsafe(self._freeze(), self._loop).result(_START_SECONDS)

    def cut_watches(self, last: Mapping[str, object] | None = None) -> int:
        """End all watches: after a last event when one is given, else by breaking the connection; their number."""
        return asyncio.run_coroutine_threadsafe(self._cut(last), self._loop).result(_START_SECONDS)

    def asked_since(self, start: int, chosen: Chosen = lambda asked: True) -> list[Asked]:
        """Chosen requests after position `start` of `asked`."""
        return [asked for asked in self.asked[start:] if chosen(asked)]

    async def _start(self) -> None:
        tls = self._upstream.tls if self._upstream.tls is not None else False
        connector = aiohttp.TCPConnector(ssl=tls, limit=0)
        self._session = aiohttp.ClientSession(connector=connector, auto_decompress=False, timeout=aiohttp.ClientTimeout(total=None))
        self._runner = web.ServerRunner(web.Server(self._handle), shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, LOOPBACK, 0)
        await site.start()
        self.port = self._runner.addresses[0][1]

    async def _stop(self) -> None:
        await self._cut(None)
        await self._runner.cleanup()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        await self._session.close()
        await asyncio.sleep(_TLS_CLOSE_SECONDS)

    async def _freeze(self) -> int:
        for stream in self._streams:
            stream.frozen = True
        return len(self._streams)

    async def _cut(self, last: Mapping[str, object] | None) -> int:
        streams = list(self._streams)
        for stream in streams:
            stream.frozen = True
            if last is not None and not (stream.transport is None or stream.transport.is_closing()):
                await stream.response.write(json.dumps(last).encode() + b"\n")
                await stream.response.write_eof()
            elif stream.transport is not None:
                stream.transport.abort()
            stream.ended.set()
        return len(streams)

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        peer = request.transport.get_extra_info("peername") if request.transport is not None else None
        asked = Asked(request.method, request.path, request.query_string, time.monotonic(), peer[1] if peer else 0)
        self.asked.append(asked)
        for chosen, answer in tuple(self._answers):
            if chosen(asked):
                return web.Response(status=answer.status, headers=answer.headers, body=answer.body(), content_type="application/json")
        for held in tuple(self._held):
            if held.chosen(asked):
                await held.wait(asked)
        try:
            return await self._forward(request, asked)
        except ConnectionError:  # the operator did not wait for the answer
            return web.Response(status=502)

    async def _forward(self, request: web.BaseRequest, asked: Asked) -> web.StreamResponse:
        scheme = "http" if self._upstream.tls is None else "https"
        url = f"{scheme}://{self._upstream.host}:{self._upstream.port}{request.raw_path}"
        headers = {name: value for name, value in request.headers.items() if name.lower() not in _HOP_BY_HOP}
        async with self._session.request(request.method, url, headers=headers, data=await request.content.read() or None) as answer:
            response = web.StreamResponse(
                status=answer.status, headers={name: value for name, value in answer.headers.items() if name.lower() not in _HOP_BY_HOP}
            )
            await response.prepare(request)
            if asked.is_watch and answer.status == 200:
                await self._watch(answer, response, request.transport)
            else:
                await response.write(await answer.read())
                await response.write_eof()
        return response

    async def _watch(self, answer: aiohttp.ClientResponse, response: web.StreamResponse, transport: asyncio.Transport | None) -> None:
        stream = Stream(response, transport)
        stream.frozen = self._freezing
        self._streams.add(stream)
        passing = asyncio.ensure_future(self._pass_on(answer, stream))
        ended = asyncio.ensure_future(stream.ended.wait())
        try:
            await asyncio.wait({passing, ended}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._streams.discard(stream)
            passing.cancel()
            ended.cancel()

    async def _pass_on(self, answer: aiohttp.ClientResponse, stream: Stream) -> None:
        """Line by line, so that a cut never falls into an event and freezing loses whole ones."""
        pending = b""
        try:
            async for chunk in answer.content.iter_any():
                *lines, pending = (pending + chunk).split(b"\n")
                for line in lines:
                    if stream.frozen:
                        continue
                    await stream.response.write(line + b"\n")
                    event = json.loads(line)
                    about = event["object"]
                    self.events.append((event["type"], about.get("kind", ""), (about.get("metadata") or {}).get("name", "")))
        except (OSError, aiohttp.ClientError):
            return
        if stream.frozen:
            await stream.ended.wait()
