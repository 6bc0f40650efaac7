"""The only module that uses kopf's private packages, each use behind a typed function; kopf's public API offers neither."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from typing import Any, Final

import aiohttp
import kopf
from kopf._cogs.aiokits import aiotasks
from kopf._cogs.clients import errors, watching
from kopf._cogs.structs import references
from kopf._core.engines import peering

from hyperscale.control.controller.feed import KIND_OF_PLURAL, Feed

_LOG = logging.getLogger(__name__)

PAUSE_SECONDS: Final = 1.0
"""Between a watch of definitions that failed and the next one."""

_KOPFS_WATCH: Final = watching.continuous_watch


def identity(name: str) -> peering.Identity:
    """Return the `identity` argument of `kopf.operator`, whose type kopf does not export.

    Without the argument kopf asks for a user name, which a bare uid does not have (KeyError).
    """
    return peering.Identity(name)


def read_from(feed: Feed) -> None:
    """Make kopf's watchers read our kinds from `feed`, and restart its own watch of definitions after an error.

    kopf's own watch ends the process (nolar/kopf#509) over an object that nests more deeply than Python's JSON decoder goes, over a
    listing that the API server breaks off (410) and over any error within a stream. It reads bodies of any size, and lists everything a
    second time. kopf has no setting and no hook for any of this.
    """

    async def continuous_watch(
        *,
        settings: kopf.OperatorSettings,
        resource: references.Resource,
        namespace: references.Namespace,
        operator_pause_waiter: aiotasks.Future,
    ) -> AsyncIterator[Any]:
        kind = KIND_OF_PLURAL.get((resource.group, resource.plural))
        if kind is None:
            own = _KOPFS_WATCH(settings=settings, resource=resource, namespace=namespace, operator_pause_waiter=operator_pause_waiter)
            async for event in _surviving(own):
                yield event
            return
        yield watching.Bookmark.LISTED
        async for change in feed.events(kind):
            yield {"type": change.type, "object": change.resource}

    setattr(watching, "continuous_watch", continuous_watch)  # noqa: B010 - kopf has no setting for it


async def _surviving(events: AsyncIterator[Any]) -> AsyncIterator[Any]:
    """Events of a watch that ends, and begins again, where it would raise; but for lack of rights, which kopf handles itself."""
    try:
        async for event in events:
            yield event
    except errors.APIForbiddenError:
        raise
    except (
        errors.APIError,
        watching.WatchingError,
        RecursionError,
        ValueError,
        KeyError,
        TypeError,
        aiohttp.ClientError,
        OSError,
    ) as error:
        _LOG.warning("the watch of definitions begins again: %s", error)
        await asyncio.sleep(PAUSE_SECONDS)
