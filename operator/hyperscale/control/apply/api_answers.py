"""Answers of the Kubernetes API, read within bounds, and errors in the kinds that the operator tells apart.

Nothing that the server sends ends the process or holds up the event loop.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from functools import partial
from typing import Any, Final

import aiohttp
import msgspec

from hyperscale.spec import api_objects
from hyperscale.util.nesting import shallow
from hyperscale.util.threads import in_daemon_thread

MAX_MESSAGE: Final = 4096
"""Characters of an error's message."""


class ApiError(Exception):
    """The API server refused; `status` is the HTTP code, `message` the server's own sentence."""

    def __init__(self, status: int, message: str, reason: str = "", retry_after_seconds: float | None = None) -> None:
        super().__init__(f"{status} {reason}: {message}" if reason else f"{status}: {message}")
        self.status = status
        self.message = message
        self.reason = reason
        self.retry_after_seconds = retry_after_seconds


class NotFoundError(ApiError):
    """404: what was asked for does not exist; for a level-based operator that is an answer, not a failure."""


class GoneError(ApiError):
    """410: the version, or the page of a list, is too old; list from the beginning."""


class ConflictError(ApiError):
    """409, or 422 on a patch whose `test` failed: the cache moved; read again and decide again."""


class TransientError(ApiError):
    """429, 5xx or no answer: the same request may succeed later; `retry_after_seconds` when the server said so."""


class TooLargeError(ApiError):
    """The answer is longer than MAX_BODY_BYTES."""


_KINDS: Final = {404: NotFoundError, 409: ConflictError, 410: GoneError}


def check_status(status: int, body: bytes, headers: Mapping[str, str]) -> None:
    """Raise the error of an answer whose status is not a success."""
    if not 200 <= status < 300:
        raise error_of(status, body, headers)


def error_of(status: int, body: bytes | str, headers: Mapping[str, str]) -> ApiError:
    """The error of its kind, with the API server's own reason and message where the body is a v1.Status."""
    text = body.decode(errors="replace") if isinstance(body, bytes) else body
    reason, message = "", text[:500]
    try:
        parsed = json.loads(text)
        reason, message = str(parsed.get("reason", "")), str(parsed.get("message", message))[:MAX_MESSAGE]
    except (ValueError, AttributeError, RecursionError):
        pass
    if status == 429 or status >= 500:
        return TransientError(status, message, reason, _seconds(headers.get("Retry-After")))
    return _KINDS.get(status, ApiError)(status, message, reason)


def _seconds(text: str | None) -> float | None:
    try:
        return max(0.0, float(text)) if text else None
    except ValueError:
        return None


MAX_BODY_BYTES: Final = 16 * 2**20
"""Largest response read: an endless body must not end the process, and cutting a list of this size into its items takes 20 ms."""
LARGE_BYTES: Final = 65_536
"""JSON of one object that is decoded at once; the worst of this size takes some 20 ms."""
Json = dict[str, Any]


async def read_object(raw: bytes) -> Json:
    """As `api_objects.read`; what is large is decoded in a thread, or one object would hold up the event loop. Raises ValueError."""
    return api_objects.read(raw) if len(raw) <= LARGE_BYTES else await in_daemon_thread(partial(api_objects.read, raw))


async def bounded_body(response: aiohttp.ClientResponse) -> bytes:
    """The whole body, at most MAX_BODY_BYTES; raises TooLargeError beyond.

    Whatever ends the reading early, cancellation included, closes the connection: the pool would count it as taken for ever.
    """
    chunks: list[bytes] = []
    size = 0
    try:
        async for chunk in response.content.iter_chunked(2**16):
            size += len(chunk)
            if size > MAX_BODY_BYTES:
                raise TooLargeError(response.status, f"response larger than {MAX_BODY_BYTES} bytes")
            chunks.append(chunk)
    except BaseException:
        response.close()
        raise
    return b"".join(chunks)


async def lines_of(content: aiohttp.StreamReader) -> AsyncIterator[bytes]:
    """Lines of a stream; raises TransientError for one that is longer than any event."""
    pending = b""
    async for chunk in content.iter_any():
        *lines, pending = (pending + chunk).split(b"\n")
        for line in lines:
            if line:
                yield line
        if len(pending) > MAX_BODY_BYTES:
            raise TransientError(200, f"an event of more than {MAX_BODY_BYTES} bytes", "BadAnswer")


def plain_object(body: bytes) -> Json:
    """An answer that is no object with a name."""
    try:
        decoded = msgspec.json.decode(shallow(body))
    except (ValueError, RecursionError) as error:
        raise TransientError(200, f"an answer that cannot be read: {error}", "BadAnswer") from error
    return decoded if isinstance(decoded, dict) else {}
