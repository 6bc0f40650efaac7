"""A small asynchronous client for the few requests that the operator makes: bounded in time and size, errors in three kinds.

Connection, TLS and credentials (with token refresh) come from the official client's asyncio half; bodies stay plain JSON, because building
its model objects costs more than the request.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator, Mapping
from functools import partial
from typing import Any, Final
from urllib.parse import urlencode

import aiohttp
from kubernetes.aio import client as kubernetes_client
from kubernetes.aio import config as kubernetes_config

from hyperscale import __version__
from hyperscale.control.apply.api_answers import (
    ApiError,
    ConflictError,
    Json,
    NotFoundError,
    TooLargeError,
    TransientError,
    bounded_body,
    check_status,
    error_of,
    lines_of,
    plain_object,
    read_object,
)
from hyperscale.control.apply.pace import Pace, ServerTime, Term, turn
from hyperscale.spec import api_objects
from hyperscale.spec.api_objects import ListPage
from hyperscale.util.threads import in_daemon_thread

PAGE_SIZE: Final = 500
"""Objects a list request asks for at once (client-go's default chunk)."""

CONNECT_SECONDS: Final = 5.0
SILENCE_SECONDS: Final = 70.0
"""A watch with bookmarks tells something every minute; a stream that is silent for longer is frozen (nolar/kopf#585)."""
WATCH_GRACE_SECONDS: Final = 30.0
"""The API server ends a watch on its side; this much later the client does."""

USER_AGENT: Final = f"hyperscale/{__version__}"

ConfigException = kubernetes_config.ConfigException
"""Neither a service account nor a kubeconfig is there."""


class ApiClient:
    """Requests to one API server."""

    def __init__(
        self,
        api: kubernetes_client.ApiClient,
        timeout_seconds: float,
        limits: tuple[Pace, Term] | None = None,
        server_time: ServerTime | None = None,
    ) -> None:
        """limits: see `bounded`; None sets none."""
        self.server_time = server_time or ServerTime(time.monotonic)
        self._api = api
        self._timeout_seconds = timeout_seconds
        self._limits = limits

    @classmethod
    async def connect(cls, timeout_seconds: float, concurrency: int) -> ApiClient:
        """Client from $KUBECONFIG, else from the pod's service account; raises ConfigException where neither is there."""
        configuration = kubernetes_client.Configuration()
        configuration.connection_pool_maxsize = concurrency
        try:
            kubernetes_config.load_incluster_config(client_configuration=configuration)
        except kubernetes_config.ConfigException:
            await kubernetes_config.load_kube_config(client_configuration=configuration)
        return cls(kubernetes_client.ApiClient(configuration), timeout_seconds)

    def bounded(self, pace: Pace, term: Term) -> ApiClient:
        """Return a client of the same connections, at this pace.

        A write may take as long as the Lease is held for certain. While a renewal is overdue no request is sent, watches aside.
        """
        return ApiClient(self._api, self._timeout_seconds, (pace, term), self.server_time)

    async def close(self) -> None:
        """Close all connections."""
        await self._api.close()

    async def get(self, path: str, query: Mapping[str, str] | None = None) -> Json:
        """One object or list page; raises NotFoundError, TransientError, ApiError."""
        return await self._request("GET", path, query)

    async def find(self, path: str) -> Json | None:
        """One object, or None when it does not exist."""
        try:
            return await self.get(path)
        except NotFoundError:
            return None

    async def pages(self, path: str, query: Mapping[str, str] | None = None) -> AsyncIterator[ListPage]:
        """A list, page by page, with fewer items a page where they are so large that a page would be too long.

        Raises GoneError where the list has taken so long that the API server no longer knows its moment: it must be begun again.
        """
        token, limit = "", PAGE_SIZE
        while True:
            asked = {**(query or {}), "limit": str(limit), **({"continue": token} if token else {})}
            try:
                page = await self._page(await self._send("GET", path, asked))
            except TooLargeError:
                if limit == 1:
                    raise
                limit = max(1, limit // 8)  # one object has at most 1.5 MiB (etcd's limit)
                continue
            yield page
            token, limit = page.token, min(PAGE_SIZE, 2 * limit)
            if not token:
                return

    async def _page(self, body: bytes) -> ListPage:
        """The items of a page. What nests too deeply for the decoder is cut in a thread: it may take half a second."""
        try:
            try:
                return api_objects.list_page(body)
            except RecursionError:
                return await in_daemon_thread(partial(api_objects.nested_list_page, body))
        except ValueError as error:
            raise TransientError(200, f"an answer that is no list: {error}", "BadAnswer") from error

    async def watch(self, path: str, version: int, seconds: int) -> AsyncIterator[tuple[str, bytes]]:
        """Type and JSON of each event after a version, for at most that many seconds; ends early where the stream does or falls silent.

        Raises GoneError, TransientError and ApiError where the API server refuses, also within the stream.
        """
        query = {"watch": "true", "allowWatchBookmarks": "true", "resourceVersion": str(version), "timeoutSeconds": str(seconds)}
        limits = aiohttp.ClientTimeout(total=seconds + WATCH_GRACE_SECONDS, sock_connect=CONNECT_SECONDS, sock_read=SILENCE_SECONDS)
        try:
            answer = await self._answer("GET", path, query, limits=limits)
            async with answer.response as response:
                check_status(response.status, await bounded_body(response) if response.status != 200 else b"", response.headers)
                async for line in lines_of(response.content):
                    yield await self._event(line)
        except (TimeoutError, aiohttp.ClientError, OSError):
            return

    async def _event(self, line: bytes) -> tuple[str, bytes]:
        """Raises as `watch` does for an event that is an error."""
        try:
            try:
                kind, raw = api_objects.watch_event(line)
            except RecursionError:
                kind, raw = await in_daemon_thread(partial(api_objects.nested_watch_event, line))
        except ValueError as error:
            raise TransientError(200, f"an event that cannot be read: {error}", "BadAnswer") from error
        if kind == "ERROR":
            code = re.search(rb'"code": ?(\d{3})', raw)
            raise error_of(int(code.group(1)) if code else 500, raw, {})
        return kind, raw

    async def create(self, path: str, body: Json, query: Mapping[str, str] | None = None) -> Json:
        """POST; raises ConflictError when the name is taken."""
        return await self._request("POST", path, query, body, "application/json")

    async def replace(self, path: str, body: Json) -> Json:
        """PUT with the resourceVersion in `body`; raises ConflictError when it moved."""
        return await self._request("PUT", path, None, body, "application/json")

    async def apply(self, path: str, body: Json, field_manager: str) -> Json:
        """Server-side apply; a `metadata.uid` in `body` keeps it from touching another object of the same name.

        Raises ConflictError where `body` has a `metadata.resourceVersion` that the object has no more.
        """
        query = {"fieldManager": field_manager, "force": "true"}
        return await self._request("PATCH", path, query, body, "application/apply-patch+yaml")

    async def merge(self, path: str, body: Json, field_manager: str) -> Json:
        """RFC 7386 merge patch; a `metadata.uid` in `body` keeps it from touching another object of the same name."""
        return await self._request("PATCH", path, {"fieldManager": field_manager}, body, "application/merge-patch+json")

    async def json_patch(self, path: str, operations: list[Json], field_manager: str) -> Json:
        """RFC 6902 patch; a failed `test` raises ConflictError."""
        try:
            return await self._request("PATCH", path, {"fieldManager": field_manager}, operations, "application/json-patch+json")
        except ApiError as error:
            if error.status == 422:
                raise ConflictError(error.status, error.message, error.reason) from error
            raise

    async def delete(self, path: str, uid: str, grace_seconds: int | None = None, propagation: str | None = None) -> None:
        """Delete exactly the object with that uid; an object already gone is fine.

        propagation: what happens to what it owns, Background or Foreground; None takes the API server's own choice
        """
        body: Json = {"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {"uid": uid}}
        if grace_seconds is not None:
            body["gracePeriodSeconds"] = grace_seconds
        if propagation is not None:
            body["propagationPolicy"] = propagation
        try:
            await self._request("DELETE", path, None, body, "application/json")
        except (NotFoundError, ConflictError):
            return

    async def _request(
        self, method: str, path: str, query: Mapping[str, str] | None = None, body: object = None, content_type: str = "application/json"
    ) -> Json:
        answer = await self._send(method, path, query, body, content_type)
        try:
            return await read_object(answer) if answer else {}
        except ValueError:  # a v1.Status, for one, has no name
            return plain_object(answer)

    async def _send(
        self, method: str, path: str, query: Mapping[str, str] | None = None, body: object = None, content_type: str = "application/json"
    ) -> bytes:
        """The body of a successful answer; raises NotFoundError, ConflictError, GoneError, TransientError, ApiError."""
        limit = self._timeout_seconds
        if self._limits is not None:
            await turn(*self._limits)
            limit = min(limit, self._limits[1].seconds_left()) if method != "GET" else limit
            if limit <= 0:
                raise TransientError(0, f"{method} {path}: not sent, another operator may hold the Lease", "LeaseExpired")
        try:
            async with asyncio.timeout(limit):
                answer = await self._answer(method, path, query, body, content_type, limits=limit)
                content = await bounded_body(answer.response)
        except TimeoutError as error:
            raise TransientError(0, f"{method} {path}: no answer within {limit:.3g} s", "Timeout") from error
        except (aiohttp.ClientError, OSError) as error:
            raise TransientError(0, f"{method} {path}: {error}", "Unreachable") from error
        self.server_time.note(answer.response.headers.get("Date"))
        check_status(answer.status, content, answer.response.headers)
        return content

    async def _answer(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None,
        body: object = None,
        content_type: str = "application/json",
        *,
        limits: float | aiohttp.ClientTimeout,
    ) -> Any:  # noqa: ANN401 - the official client ships no annotations
        """The head of an answer; its body is not read yet."""
        configuration = self._api.configuration
        headers = {"Accept": "application/json", "Content-Type": content_type, "User-Agent": USER_AGENT}
        token = await configuration.get_api_key_with_prefix("BearerToken", alias="authorization")
        if token:
            headers["Authorization"] = token
        url = configuration.host + path + (f"?{urlencode(query)}" if query else "")
        try:
            return await self._api.rest_client.request(method, url, headers, body, _request_timeout=limits)
        except kubernetes_client.ApiException as error:
            raise error_of(error.status or 0, error.body or error.reason or "", dict(error.headers or {})) from error
