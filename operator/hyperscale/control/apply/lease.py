"""One active operator: a coordination.k8s.io Lease, taken before anything is watched and renewed while the process lives.

Expiry is judged by this process's own monotonic clock since it last saw the record change, never by comparing wall clocks of two machines
(as client-go does). A holder gives up before others may take the Lease: one attempt to renew takes less than the renew deadline, counted
from before the last renewal was sent, and that deadline is less than the duration. A process that loses the Lease must exit: `Lease.hold`
returns then.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import threading
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Future
from datetime import UTC, datetime
from typing import Any, Final, TypeVar

from hyperscale.control.apply import paths
from hyperscale.control.apply.api_answers import ApiError, ConflictError, NotFoundError
from hyperscale.control.apply.client import ApiClient
from hyperscale.control.settings import RENEW_DEADLINE_SHARE
from hyperscale.model import constants

_LOG = logging.getLogger(__name__)

ATTEMPT_SHARE: Final = 1 / 3
"""Of the duration, that one attempt may take: within the deadline there must be time for another."""
RETRY_SECONDS: Final = 1.0
"""After an attempt that failed."""
RELEASE_ATTEMPTS: Final = 3


class Lease:
    """The operator's Lease in one namespace."""

    def __init__(
        self, client: ApiClient, namespace: str, identity: str, duration_seconds: float, renew_seconds: float, clock: Callable[[], float]
    ) -> None:
        self._client = client
        self._namespace = namespace
        self._identity = identity
        self._duration_seconds = duration_seconds
        self._renew_seconds = renew_seconds
        self._clock = clock
        self._record: dict[str, Any] = {}
        self._seen_at = 0.0
        self._renewed_at = -math.inf
        """When the last successful renewal was sent."""
        self._lock = asyncio.Lock()
        self._taken = asyncio.Event()
        self._released = False
        self._cut_off = False
        """Whether a write was sent whose answer did not come: the record may be another one."""

    def seconds_left(self) -> float:
        """How long this process may still write; 0 or less where another may hold the Lease."""
        return self._renewed_at + RENEW_DEADLINE_SHARE * self._duration_seconds - self._clock()

    def overdue(self) -> bool:
        """Whether the next renewal should have been answered by now, and the Lease may still be kept."""
        silent_seconds = self._clock() - self._renewed_at
        return self.seconds_left() > 0 and silent_seconds > self._renew_seconds + RETRY_SECONDS

    async def acquire(self) -> None:
        """Return when this process holds the Lease. A record of the same identity is this process's own from before a restart."""
        waiting = False
        while not await self._try():
            if not waiting:
                _LOG.info("waiting for the Lease", extra={"holder": self._holder()})
                waiting = True
            await asyncio.sleep(min(1.0, self._renew_seconds))
        _LOG.info("holding the Lease", extra={"identity": self._identity})

    async def hold(self) -> None:
        """Renew until the Lease is lost: taken by another, or not renewed before the deadline."""
        while (left := self.seconds_left()) > 0:
            late = self._clock() - self._renewed_at >= self._renew_seconds
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._taken.wait(), min(RETRY_SECONDS if late else self._renew_seconds, self._renew_seconds, left))
            if self._taken.is_set() or (self.seconds_left() > 0 and not await self._renew()):
                _LOG.error("the Lease was taken", extra={"holder": self._holder()})
                return
        _LOG.error("the Lease could not be renewed in time")

    async def confirm(self) -> None:
        """Ask whether the Lease is still this process's, after a write that met another's; does not return where it is not."""
        if not await self._renew():
            self._taken.set()
            await asyncio.Event().wait()

    async def _renew(self) -> bool:
        """Renew once; False where another holds the Lease."""
        return await self._try() or self._holder() in ("", self._identity)

    async def release(self) -> None:
        """Give the Lease up so that a successor need not wait, and take it no more; best effort, in the time of one attempt.

        A renewal that was cut off may reach the API server all the same: then the Lease is read, and given up as it is now.
        """
        self._released, self._renewed_at = True, -math.inf
        try:
            async with asyncio.timeout(ATTEMPT_SHARE * self._duration_seconds), self._lock:
                for attempt in range(RELEASE_ATTEMPTS):
                    if attempt or self._cut_off:
                        self._remember(await self._client.find(self._path()) or {})
                    if self._holder() != self._identity or await self._given_up():
                        return
            _LOG.warning("the Lease was not released: it was written %d times meanwhile", RELEASE_ATTEMPTS)
        except (ApiError, TimeoutError) as error:
            _LOG.warning("the Lease was not released: %s", error or "no answer in time")

    async def _given_up(self) -> bool:
        """Write the Lease without a holder; False where it is no longer as it was read. Raises ApiError."""
        spec = {**self._record["spec"], "holderIdentity": ""}
        try:
            self._remember(await self._client.replace(self._path(), {**self._record, "spec": spec}))
        except ConflictError:
            return False
        return True

    async def _try(self) -> bool:
        """Take or renew once; False when another holds it or the API did not answer."""
        try:
            limit, left = ATTEMPT_SHARE * self._duration_seconds, self.seconds_left()
            async with asyncio.timeout(min(limit, left) if left > 0 else limit), self._lock:
                return await self._take()
        except ConflictError:
            return False
        except (ApiError, TimeoutError) as error:
            _LOG.warning("the Lease could not be read or renewed: %s", error or "no answer in time")
            return False

    async def _take(self) -> bool:
        """Raises ApiError."""
        if self._released:
            return False
        if self.seconds_left() > 0 and self._holder() == self._identity:
            with contextlib.suppress(ConflictError, NotFoundError):  # then it is no longer as it was written last, and is read
                await self._write_again()
                return True
        lease = await self._client.find(self._path())
        if lease is not None:
            if _version(lease) != _version(self._record):
                self._remember(lease)
            expired = self._clock() - self._seen_at >= self._duration_seconds
            if self._holder() not in ("", self._identity) and not expired:
                return False
        sent_at, self._cut_off = self._clock(), True
        if lease is None:
            self._remember(await self._client.create(paths.leases(self._namespace), self._renewed({})))
        else:
            self._remember(await self._client.replace(self._path(), self._renewed(lease)))
        self._renewed_at, self._cut_off = sent_at, False
        return True

    async def _write_again(self) -> None:
        """Renew by one request, as client-go does: the version it carries shows that no other wrote in between."""
        sent_at = self._clock()
        self._remember(await self._client.replace(self._path(), self._renewed(self._record)))
        self._renewed_at = sent_at

    def _renewed(self, record: dict[str, Any]) -> dict[str, Any]:
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        spec = dict(record.get("spec") or {})
        if spec.get("holderIdentity") != self._identity:
            spec["acquireTime"] = now
            spec["leaseTransitions"] = int(spec.get("leaseTransitions") or 0) + (1 if record else 0)
        spec |= {"holderIdentity": self._identity, "renewTime": now, "leaseDurationSeconds": max(1, round(self._duration_seconds))}
        metadata = record.get("metadata") or {"name": constants.LEASE_NAME, "namespace": self._namespace}
        return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec}

    def _remember(self, record: dict[str, Any]) -> None:
        self._record = record
        self._seen_at = self._clock()

    def _holder(self) -> str:
        return (self._record.get("spec") or {}).get("holderIdentity") or ""

    def _path(self) -> str:
        return f"{paths.leases(self._namespace)}/{constants.LEASE_NAME}"


def _version(record: dict[str, Any]) -> str:
    return (record.get("metadata") or {}).get("resourceVersion") or ""


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
