"""Read answers of the Kubernetes API within bounds: nothing that the server sends ends the process or holds up the event loop."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial
from typing import Any, Final

import aiohttp
import msgspec

from hyperscale.control.apply.api_errors import TooLargeError, TransientError
from hyperscale.spec import api_objects
from hyperscale.util.nesting import shallow
from hyperscale.util.threads import in_daemon_thread

MAX_BODY_BYTES: Final = 16 * 2**20
"""Largest response read: an endless body must not end the process, and cutting a list of this size into its items takes 20 ms."""
LARGE_BYTES: Final = 65_536
"""JSON of one object that is decoded at once; the worst of this size takes some 20 ms."""
Json = dict[str, Any]


async def read_object(raw: bytes) -> Json:
    """As `objects.read`; what is large is decoded in a thread, or one object would hold up the event loop. Raises ValueError."""
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
