"""Listens for an aiohttp application on a port that any pod can reach: strangers get few connections, and a short time on each.

aiohttp itself bounds neither: connections that say nothing would be held until the process can open no file.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from aiohttp import web

MAX_STRANGERS: Final = 64
"""Connections that have not proven themselves."""
MAX_STRANGERS_OF_HOST: Final = 16
"""At most this number of them from one address: a single one must not lock all others out."""
STRANGER_SECONDS: Final = 5.0
"""Then such a connection is cut."""


class Door:
    """One listening port."""

    def __init__(self, application: web.Application) -> None:
        self._runner = web.AppRunner(application, access_log=None)
        self._listening: asyncio.Server | None = None
        self._strangers: dict[asyncio.Transport, str] = {}
        """Their addresses."""

    async def start(self, port: int) -> None:
        """Listen on all addresses; raises OSError where the port is taken."""
        await self._runner.setup()
        server = self._runner.server
        if server is None:  # never: `setup` makes it
            raise OSError("no server")
        self._listening = await asyncio.get_running_loop().create_server(lambda: _Visitor(self, server), None, port, reuse_address=True)

    async def stop(self) -> None:
        """Listen no more, and end all connections."""
        if self._listening is not None:
            self._listening.close()
        await self._runner.cleanup()

    @property
    def strangers(self) -> int:
        """Open connections that have not proven themselves."""
        return sum(1 for transport in self._strangers if not transport.is_closing())

    def proven(self, request: web.Request) -> None:
        """Who asks this may stay as long as it wants to."""
        if isinstance(request.transport, asyncio.Transport):
            self._strangers.pop(request.transport, None)

    def admits(self, transport: asyncio.Transport) -> bool:
        """Whether a new connection may stay; one that may is cut after a while, unless it proves itself."""
        self._strangers = {stranger: host for stranger, host in self._strangers.items() if not stranger.is_closing()}
        name = transport.get_extra_info("peername")
        host = str(name[0]) if name else ""
        if len(self._strangers) >= MAX_STRANGERS or list(self._strangers.values()).count(host) >= MAX_STRANGERS_OF_HOST:
            return False
        self._strangers[transport] = host
        asyncio.get_running_loop().call_later(STRANGER_SECONDS, self._cut, transport)
        return True

    def _cut(self, transport: asyncio.Transport) -> None:
        if self._strangers.pop(transport, None) is not None:
            transport.abort()


class _Visitor(asyncio.Protocol):
    """A connection until it is admitted."""

    def __init__(self, door: Door, server: Callable[[], asyncio.Protocol]) -> None:
        self._door, self._server = door, server

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if not isinstance(transport, asyncio.Transport) or not self._door.admits(transport):
            if isinstance(transport, asyncio.Transport):
                transport.abort()
            return
        handler = self._server()
        transport.set_protocol(handler)
        handler.connection_made(transport)
