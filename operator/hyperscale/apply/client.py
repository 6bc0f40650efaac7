"""A small asynchronous client for the few requests that the operator makes: bounded in time and size, errors in three kinds.

Connection, TLS and credentials (with token refresh) come from the official client's asyncio half; bodies stay plain JSON, because building
its model objects costs more than the request.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from typing import Any, Final
from urllib.parse import urlencode

import aiohttp
import msgspec
from kubernetes.aio import client as kubernetes_client
from kubernetes.aio import config as kubernetes_config

from hyperscale import __version__

MAX_BODY_BYTES: Final = 64 * 2**20
"""Largest response read; a list page is far smaller, and an endless body must not end the process."""

PAGE_SIZE: Final = 500
"""Objects a list request asks for at once (client-go's default chunk)."""

USER_AGENT: Final = f"hyperscale/{__version__}"

ConfigException = kubernetes_config.ConfigException
"""Neither a service account nor a kubeconfig is there."""

Json = dict[str, Any]


class ApiError(Exception):
    """The API server refused; `status` is the HTTP code, `message` the server's own sentence."""

    def __init__(self, status: int, message: str, reason: str = "") -> None:
        super().__init__(f"{status} {reason}: {message}" if reason else f"{status}: {message}")
        self.status = status
        self.message = message
        self.reason = reason


class NotFoundError(ApiError):
    """404: what was asked for does not exist; for a level-based operator that is an answer, not a failure."""


class ConflictError(ApiError):
    """409, or 422 on a patch whose `test` failed: the world moved; read again and decide again."""


class TransientError(ApiError):
    """429, 5xx or no answer: the same request may succeed later; `retry_after_seconds` when the server said so."""

    def __init__(self, status: int, message: str, reason: str = "", retry_after_seconds: float | None = None) -> None:
        super().__init__(status, message, reason)
        self.retry_after_seconds = retry_after_seconds


class TooLargeError(ApiError):
    """The answer is longer than MAX_BODY_BYTES."""


class ApiClient:
    """Requests to one API server."""

    def __init__(self, api: kubernetes_client.ApiClient, timeout_seconds: float) -> None:
        self._api = api
        self._timeout_seconds = timeout_seconds

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

    async def pages(self, path: str, query: Mapping[str, str] | None = None) -> AsyncIterator[tuple[int, list[Json]]]:
        """Resource version and items of a list, page by page: of fewer items each where they are so large that a page would be too long."""
        token, limit = "", PAGE_SIZE
        while True:
            try:
                page = await self.get(path, {**(query or {}), "limit": str(limit), **({"continue": token} if token else {})})
            except TooLargeError:
                if limit == 1:
                    raise
                limit = max(1, limit // 8)  # one object has at most 1.5 MiB (etcd's limit)
                continue
            metadata = page.get("metadata") or {}
            yield int(metadata.get("resourceVersion") or 0), page.get("items") or []
            token = metadata.get("continue") or ""
            if not token:
                return

    async def create(self, path: str, body: Json, query: Mapping[str, str] | None = None) -> Json:
        """POST; raises ConflictError when the name is taken."""
        return await self._request("POST", path, query, body, "application/json")

    async def replace(self, path: str, body: Json) -> Json:
        """PUT with the resourceVersion in `body`; raises ConflictError when it moved."""
        return await self._request("PUT", path, None, body, "application/json")

    async def apply(self, path: str, body: Json, field_manager: str) -> Json:
        """Server-side apply; a `metadata.uid` in `body` keeps it from touching another object of the same name."""
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
        configuration = self._api.configuration
        headers = {"Accept": "application/json", "Content-Type": content_type, "User-Agent": USER_AGENT}
        token = await configuration.get_api_key_with_prefix("BearerToken", alias="authorization")
        if token:
            headers["Authorization"] = token
        url = configuration.host + path + (f"?{urlencode(query)}" if query else "")
        try:
            async with asyncio.timeout(self._timeout_seconds):
                answer = await self._api.rest_client.request(method, url, headers, body, _request_timeout=self._timeout_seconds)
                return _decoded(answer.status, await _bounded_body(answer.response), answer.response.headers)
        except TimeoutError as error:
            raise TransientError(0, f"{method} {path}: no answer within {self._timeout_seconds:g} s", "Timeout") from error
        except (aiohttp.ClientError, OSError) as error:
            raise TransientError(0, f"{method} {path}: {error}", "Unreachable") from error
        except kubernetes_client.ApiException as error:
            raise _error(error.status or 0, error.body or error.reason or "", dict(error.headers or {})) from error


async def _bounded_body(response: aiohttp.ClientResponse) -> bytes:
    """The whole body, at most MAX_BODY_BYTES; raises ApiError beyond."""
    chunks: list[bytes] = []
    size = 0
    async for chunk in response.content.iter_chunked(2**16):
        size += len(chunk)
        if size > MAX_BODY_BYTES:
            response.close()
            raise TooLargeError(response.status, f"response larger than {MAX_BODY_BYTES} bytes")
        chunks.append(chunk)
    return b"".join(chunks)


def _decoded(status: int, body: bytes, headers: Mapping[str, str]) -> Json:
    if 200 <= status < 300:
        decoded: Json = msgspec.json.decode(body) if body else {}
        return decoded
    raise _error(status, body, headers)


def _error(status: int, body: bytes | str, headers: Mapping[str, str]) -> ApiError:
    """The error of its kind, with the API server's own reason and message where the body is a v1.Status."""
    text = body.decode(errors="replace") if isinstance(body, bytes) else body
    reason, message = "", text[:500]
    try:
        parsed = json.loads(text)
        reason, message = str(parsed.get("reason", "")), str(parsed.get("message", message))
    except (ValueError, AttributeError):
        pass
    if status == 404:
        return NotFoundError(status, message, reason)
    if status in (409, 410):
        return ConflictError(status, message, reason)
    if status == 429 or status >= 500:
        return TransientError(status, message, reason, _seconds(headers.get("Retry-After")))
    return ApiError(status, message, reason)


def _seconds(text: str | None) -> float | None:
    try:
        return max(0.0, float(text)) if text else None
    except ValueError:
        return None
