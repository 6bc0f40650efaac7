"""kopf decorators, what kopf needs to be given, and the only uses of its private packages: its public API offers neither of these.

Every event goes into the cache and asks for a pass; the pass reads the cache itself. Only `on.event` handlers: they store nothing on the
objects, need no finalizer, and are level-based (kopf's own docs, critiques).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from typing import Any, Final

import aiohttp
import kopf
from kopf._cogs.aiokits import aiotasks
from kopf._cogs.clients import errors, watching
from kopf._cogs.structs import references
from kopf._core.engines import peering

from hyperscale.control.controller.feed import KIND_OF_PLURAL, Feed
from hyperscale.control.controller.manager import Operator
from hyperscale.model import constants

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


CRDS_AT_ONCE: Final = 50
"""Definitions in one page of kopf's own listing; some have half a megabyte."""


def register(registry: kopf.OperatorRegistry, operator: Operator) -> None:
    """Put all handlers into `registry`; kopf copies its own memo for every object, `operator` is one."""

    @kopf.on.startup(registry=registry)
    async def configure(settings: kopf.OperatorSettings, **_: Any) -> None:  # noqa: ANN401 - kopf passes many kinds of things
        configure_kopf(settings)

    @kopf.on.login(registry=registry)
    def login(**given: Any) -> kopf.ConnectionInfo | None:  # noqa: ANN401 - kopf passes many kinds of things
        return kopf.login_with_service_account(**given) or kopf.login_with_kubeconfig(**given)

    for group, version, plural, changed in (
        (constants.GROUP, constants.VERSION, constants.JOB_PLURAL, operator.job_changed),
        (constants.GROUP, constants.VERSION, constants.POLICY_PLURAL, operator.policy_changed),
        (constants.MPI_GROUP, constants.MPI_VERSION, constants.MPI_PLURAL, operator.mpijob_changed),
        ("", "v1", "pods", operator.pod_changed),
        ("", "v1", "nodes", operator.node_changed),
    ):
        kopf.on.event(group, version, plural, id=changed.__name__, registry=registry)(_handler(changed))


def _handler(changed: Callable[..., None]) -> Callable[..., Awaitable[None]]:
    """Return a handler that hands the API object itself, without kopf's read-only views, to `changed`."""

    async def handle(type: str | None, body: kopf.Body, **_: Any) -> None:  # noqa: A002, ANN401 - kopf's names, and many kinds of things
        changed(dict(body), deleted=type == "DELETED")

    return handle


def configure_kopf(settings: kopf.OperatorSettings) -> None:
    """Bounds and storages; each deviation from kopf's default has bitten someone."""
    settings.persistence.progress_storage = kopf.AnnotationsProgressStorage(prefix=constants.KOPF_PREFIX)  # dask/dask-kubernetes#968
    settings.persistence.diffbase_storage = _NoDiffs(prefix=constants.KOPF_PREFIX)
    settings.persistence.finalizer = f"{constants.KOPF_PREFIX}/finalizer"
    settings.posting.enabled = False  # the operator emits its own events, after the status write
    settings.watching.server_timeout = 300
    settings.watching.client_timeout = 330  # a frozen stream ends automatically (nolar/kopf#585)
    settings.watching.connect_timeout = 5
    settings.watching.chunk_size = CRDS_AT_ONCE
    settings.networking.request_timeout = 30
    settings.networking.connect_timeout = 5
    settings.networking.enforce_retry_after = True
    settings.process.ultimate_exiting_timeout = 20
    settings.peering.standalone = True  # the Lease decides who is active


class _NoDiffs(kopf.AnnotationsDiffBaseStorage):
    """Nothing to compare: kopf copies each object deeply on every event for handlers of changes, and here are none."""

    def build(self, *, body: kopf.Body, extra_fields: Iterable[kopf.FieldSpec] | None = None) -> kopf.BodyEssence:
        """No essence at all."""
        return kopf.BodyEssence({})
