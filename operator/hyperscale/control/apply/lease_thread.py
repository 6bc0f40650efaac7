"""The Lease in a thread of its own, with an event loop and connections of its own.

Whatever keeps the operator's event loop busy, such as listings on a machine with more work than cores, delays no renewal. A process whose
event loop has stopped for good keeps the Lease until its liveness probe fails, as with client-go.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Future
from typing import Any, Final, TypeVar

from hyperscale.control.apply.client import ApiClient
from hyperscale.control.apply.lease import Lease

_LOG = logging.getLogger(__name__)

JOIN_SECONDS: Final = 1.0

T = TypeVar("T")


class LeaseThread:
    """Holds a Lease. Its methods are for one event loop, that of the operator."""

    def __init__(self, connect: Callable[[], Awaitable[ApiClient]], make: Callable[[ApiClient], Lease], lost: Callable[[], None]) -> None:
        """All are called in the thread; `lost` once the Lease is lost: nothing may be written from then on."""
        self._connect = connect
        self._make = make
        self._lost = lost
        self._loop: asyncio.AbstractEventLoop
        self._thread = threading.Thread(target=self._run, name="lease", daemon=True)
        self._client: ApiClient
        self._lease: Lease
        self._holding: Future[None] | None = None

    async def start(self) -> None:
        """Before anything else; raises what `connect` raises."""
        self._loop = asyncio.new_event_loop()
        self._thread.start()
        self._client, self._lease = await self._there(self._connected())

    def seconds_left(self) -> float:
        """How long this process may still write; 0 or less where another may hold the Lease."""
        return self._lease.seconds_left()

    def overdue(self) -> bool:
        """Whether the Lease is being renewed and the next renewal should have been answered by now."""
        return self._holding is not None and not self._holding.done() and self._lease.overdue()

    async def acquire(self) -> None:
        """Return when this process holds the Lease; then `hold` it."""
        await self._there(self._lease.acquire())

    def hold(self) -> None:
        """Renew from now on, until `close`."""
        self._holding = asyncio.run_coroutine_threadsafe(self._hold(), self._loop)

    async def confirm(self) -> None:
        """Ask whether the Lease is still this process's, after a write that met another's; does not return where it is not."""
        await self._there(self._lease.confirm())

    def let_go(self) -> None:
        """Renew no more: nothing writes any more."""
        if self._holding is not None:
            self._holding.cancel()

    async def close(self) -> None:
        """Give the Lease up, best effort, and end the thread."""
        self.let_go()
        await self._there(self._lease.release())
        await self._there(self._client.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(JOIN_SECONDS)

    def _run(self) -> None:
        try:
            self._loop.run_forever()
        finally:
            self._loop.close()

    async def _connected(self) -> tuple[ApiClient, Lease]:
        client = await self._connect()
        return client, self._make(client)

    async def _hold(self) -> None:
        try:
            await self._lease.hold()
        except Exception:  # whatever it is, this process does not know that it may write
            _LOG.exception("the Lease cannot be renewed")
        self._lost()

    async def _there(self, work: Coroutine[Any, Any, T]) -> T:
        """The outcome of `work`, which the thread does."""
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))
