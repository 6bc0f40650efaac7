"""What the API server says of every kind, on its way into the cache: full listings, and watches that begin where a listing ended.

Each object is decoded and read alone, and the event loop goes round after every few milliseconds of that. A listing that the API server
breaks off (410) begins again. A watch that ends continues from the last version that it told; where the API server no longer knows that
version a new listing comes first, which also tells what was deleted meanwhile.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Final, NamedTuple

from hyperscale.control.apply import paths
from hyperscale.control.apply.api_answers import LARGE_BYTES, ApiError, GoneError, NotFoundError, TransientError, read_object
from hyperscale.control.apply.client import ApiClient
from hyperscale.control.cache.cluster_cache import ClusterCache
from hyperscale.control.cache.intake import JOB, MPIJOB, NODE, POD, POLICY
from hyperscale.control.cache.listings import EVERYWHERE, Listing
from hyperscale.control.cache.records import Key
from hyperscale.model import constants
from hyperscale.spec import api_objects
from hyperscale.spec.api_objects import ListPage
from hyperscale.util.slices import Slices

_LOG = logging.getLogger(__name__)

Json = dict[str, Any]

WATCH_SECONDS: Final = 300
FIRST_RETRY_SECONDS: Final = 0.1
RETRY_SECONDS: Final = 1.0
"""A watch that ends sooner has failed, and the next one waits longer."""
LONGEST_RETRY_SECONDS: Final = 30.0
MAX_BEGINNINGS: Final = 5
"""Of one listing that the API server keeps breaking off; then the next resync tries."""


class _Kind(NamedTuple):
    """Where a kind is listed."""

    name: str
    path: Callable[[str], str]
    namespaced: bool


KINDS: Final = (
    # In this order: what is held by an MPIJob depends on its job, whose a pod is on its MPIJob.
    _Kind(NODE, paths.nodes, namespaced=False),
    _Kind(POLICY, paths.policies, namespaced=False),
    _Kind(JOB, paths.jobs, namespaced=True),
    _Kind(MPIJOB, paths.mpijobs, namespaced=True),
    # Pods of every namespace, whatever namespaces are served: a GPU that any of them holds is taken.
    _Kind(POD, paths.pods, namespaced=False),
)
KIND_OF_PLURAL: Final = {
    (constants.GROUP, constants.JOB_PLURAL): JOB,
    (constants.GROUP, constants.POLICY_PLURAL): POLICY,
    (constants.MPI_GROUP, constants.MPI_PLURAL): MPIJOB,
    ("", "pods"): POD,
    ("", "nodes"): NODE,
}


class Event(NamedTuple):
    """One change of one object."""

    type: str
    """ADDED, MODIFIED or DELETED."""
    resource: Json


class Feed:
    """Keeps the cache up to date."""

    def __init__(
        self,
        client: ApiClient,
        cache: ClusterCache,
        namespaces: tuple[str, ...],
        after_listing: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """namespaces: those whose jobs are served; () for all.

        after_listing: called after a listing that a watch needed: jobs may have changed without an event
        """
        self._client = client
        self._cache = cache
        self._namespaces = namespaces or (EVERYWHERE,)
        self._kinds = {kind.name: kind for kind in KINDS}
        self._locks = {kind.name: asyncio.Lock() for kind in KINDS}
        self._listed = {kind.name: asyncio.Event() for kind in KINDS}
        self._versions: dict[tuple[str, str], int] = {}
        """The last version that was reported, by kind and scope: where the next watch begins."""
        self._after_listing = after_listing

    async def list_all(self) -> None:
        """List every kind and make it the truth; raises ApiError."""
        for kind in KINDS:
            await self.list_kind(kind.name)

    async def list_kind(self, kind: str) -> None:
        """One full listing; raises ApiError."""
        async with self._locks[kind]:
            for scope in self._scopes(kind):
                await self._list_scope(kind, scope)
        self._listed[kind].set()

    def events(self, kind: str) -> AsyncIterator[Event]:
        """Changes of one kind since its last listing, for ever. What cannot be listed or watched is logged and tried again."""
        return _merged([self._events(kind, scope) for scope in self._scopes(kind)])

    def _scopes(self, kind: str) -> tuple[str, ...]:
        return self._namespaces if self._kinds[kind].namespaced else (EVERYWHERE,)

    async def _events(self, kind: str, scope: str) -> AsyncIterator[Event]:
        await self._listed[kind].wait()
        failures = 0
        while True:
            begun = time.monotonic()
            try:
                async for event in self._watched(kind, scope):
                    yield event
            except GoneError:
                await self._listed_again(kind, scope)
            except ApiError as error:
                _LOG.warning("%s cannot be watched now: %s", self._kinds[kind].path(scope), error)
            failures = failures + 1 if time.monotonic() - begun < RETRY_SECONDS else 0
            await asyncio.sleep(min(LONGEST_RETRY_SECONDS, FIRST_RETRY_SECONDS * 2 ** min(failures, 10)))

    async def _watched(self, kind: str, scope: str) -> AsyncIterator[Event]:
        """One watch, from the last version that was reported."""
        path = self._kinds[kind].path(scope)
        async for change, raw in self._client.watch(path, self._versions[kind, scope], WATCH_SECONDS):
            if change == "BOOKMARK":
                self._told(kind, scope, api_objects.bookmark(raw))
            elif (resource := await _read(raw, path)) is not None:
                self._told(kind, scope, api_objects.version_of(resource["metadata"].get("resourceVersion")))
                yield Event(change, resource)

    def _told(self, kind: str, scope: str, version: int) -> None:
        self._versions[kind, scope] = max(version, self._versions.get((kind, scope), 0))

    async def _listed_again(self, kind: str, scope: str) -> None:
        """After a watch that lost its place; tried until it succeeds."""
        pause = RETRY_SECONDS
        while True:
            try:
                async with self._locks[kind]:
                    await self._list_scope(kind, scope)
                return await self._after_listing() if self._after_listing is not None else None
            except ApiError as error:
                _LOG.warning("%s cannot be listed now: %s", self._kinds[kind].path(scope), error)
                await asyncio.sleep(pause)
                pause = min(LONGEST_RETRY_SECONDS, 2 * pause)

    async def _list_scope(self, kind: str, scope: str) -> None:
        path = self._kinds[kind].path(scope)
        for _ in range(MAX_BEGINNINGS):
            try:
                listing: Listing | None = None
                async for page in self._client.pages(path):
                    listing = listing or self._cache.listings.begin(kind, scope, page.version)
                    await self._take(listing, page)
            except GoneError:
                _LOG.info("the listing of %s begins again: it took longer than the API server remembers", path)
                continue
            if listing is not None:
                self._cache.replace_listing(listing)
                self._told(kind, scope, listing.version)
            await asyncio.sleep(0)
            return
        raise TransientError(410, f"the API server broke off the listing of {path} {MAX_BEGINNINGS} times", "Expired")

    async def _take(self, listing: Listing, page: ListPage) -> None:
        """Take in a page, a few milliseconds at a time; jobs are recounted before anyone else looks."""
        slices = Slices()
        for raw in page.items:
            head = api_objects.head(raw)
            if head is None or not self._cache.listings.has_listed(listing, Key(head.namespace, head.name), head.version):
                if len(raw) > LARGE_BYTES:
                    self._cache.recount()
                resource = await _read(raw, listing.kind)
                if resource is not None:
                    self._cache.take_listed(listing, resource)
            if slices.due:
                self._cache.recount()
                await slices.pause()
        self._cache.recount()
        await slices.pause()
        self._cache.snapshots.absorb()
        await slices.pause()

    async def optional(self, choices: tuple[str, ...]) -> list[Json] | None:
        """Objects of a kind that need not exist, from the first version that is served; None where that cannot be determined now."""
        for path in choices:
            try:
                return [
                    resource
                    async for page in self._client.pages(path)
                    for raw in page.items
                    if (resource := await _read(raw, path)) is not None
                ]
            except NotFoundError:
                continue
            except ApiError as error:
                _LOG.warning("%s cannot be listed: %s", path, error)
                return None
        return []


async def _read(raw: bytes, path: str) -> Json | None:
    """Other tasks run meanwhile where `raw` is longer than LARGE_BYTES."""
    try:
        return await read_object(raw)
    except ValueError as error:
        _LOG.warning("an object of %s cannot be read: %s", path, error)
        return None


async def _merged(streams: list[AsyncIterator[Event]]) -> AsyncIterator[Event]:
    """Events of several streams as they come."""
    if len(streams) == 1:
        async for event in streams[0]:
            yield event
        return
    events: asyncio.Queue[Event] = asyncio.Queue(1)

    async def carry(stream: AsyncIterator[Event]) -> None:
        async for event in stream:
            await events.put(event)

    async with asyncio.TaskGroup() as group:
        for stream in streams:
            group.create_task(carry(stream))
        while True:
            yield await events.get()
