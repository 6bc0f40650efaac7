"""An HTTP session that cannot be held up: every request ends in time, every body is cut off at a limit, no redirect is followed."""

from __future__ import annotations

import contextlib
import io
import json
import socket
import threading
from collections.abc import Callable, Mapping
from typing import Any, Final

import requests
from requests.adapters import HTTPAdapter
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.response import HTTPResponse

MAX_BODY_BYTES: Final = 32 * 1024 * 1024
"""One figure of 40,000 GPUs is about 20 MiB."""
CHUNK_BYTES: Final = 128 * 1024
Sink = Callable[[bytes], None]


class BodyTooLargeError(requests.RequestException):
    """The answer was longer than the limit; what had come was thrown away."""


class HttpRefusedError(requests.RequestException):
    """The answer has another status than 200; in the server's own words where it has some."""

    def __init__(self, status: int, complaint: str) -> None:
        super().__init__(f"HTTP {status}{complaint}")
        self.status = status


class BoundedSession(requests.Session):
    """A session whose adapters are bounded and whose redirects stay unfollowed: another host must not see the credentials."""

    def __init__(self, max_body_bytes: int = MAX_BODY_BYTES, hide: Callable[[str], str] = lambda text: text) -> None:
        """hide: takes secrets out of what a server says before it becomes a message."""
        super().__init__()
        # Proxies and .netrc of the surroundings must not decide where metrics come from.
        self.trust_env = False
        self.headers["Accept-Encoding"] = "identity"
        self.adapter = BoundedAdapter(max_body_bytes, hide)
        self.mount("http://", self.adapter)
        self.mount("https://", self.adapter)

    def feed(self, sink: Sink, url: str, params: Mapping[str, str], headers: Mapping[str, str], timeout: float) -> None:
        """Ask for `url` within `timeout` seconds; `sink` gets the body of a 200 as it comes. What `sink` raises ends the request."""
        request = self.prepare_request(requests.Request("GET", url, params=params, headers=headers))
        settings = self.merge_environment_settings(request.url, {}, None, None, None)
        self.send(request, timeout=timeout, sink=sink, **settings)

    def get_redirect_target(self, resp: requests.Response) -> str | None:
        """None: a 3xx is an answer like any other that is not 200."""
        return None


class BoundedAdapter(HTTPAdapter):
    """Reads the body itself, up to a limit, and shuts the sockets when a request's whole time is over.

    requests' own timeout starts again with every byte received, so a server that drips would hold a thread for ever.
    """

    def __init__(self, max_body_bytes: int, hide: Callable[[str], str]) -> None:
        self._max_body_bytes = max_body_bytes
        self._hide = hide
        self._connections: list[HTTPConnection] = []
        super().__init__(pool_connections=1, pool_maxsize=1)

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - urllib3's own signature
        """Pools whose connections are known to this adapter, so that a timer can end them."""
        super().init_poolmanager(*args, **kwargs)
        self.poolmanager.pool_classes_by_scheme = _tracked_pools(self._connections)

    def send(  # type: ignore[override] # narrower on purpose: one caller
        self,
        request: requests.PreparedRequest,
        stream: bool = False,
        timeout: float = 5.0,
        verify: bool | str = True,
        cert: Any = None,  # noqa: ANN401 - as in requests
        proxies: Mapping[str, str] | None = None,
        sink: Sink | None = None,
    ) -> requests.Response:
        """Send, and read the whole body within `timeout` seconds; raises ReadTimeout or BodyTooLargeError.

        sink: gets the body of a 200 piece by piece, which is then not kept
        """
        expired = threading.Event()
        timer = threading.Timer(timeout, self._expire, (expired,))
        timer.daemon = True
        timer.start()
        try:
            response = super().send(request, stream=True, timeout=timeout, verify=verify, cert=cert, proxies=proxies)
            body = self._read(response, sink if response.status_code == 200 else None)
            if response.status_code != 200:
                raise HttpRefusedError(response.status_code, _complaint(body, self._hide))
        except (requests.RequestException, OSError, ValueError) as error:
            if expired.is_set() or "timed out" in str(error):
                raise requests.ReadTimeout(f"no whole answer within {timeout:g} s", request=request) from error
            raise
        finally:
            timer.cancel()
        if expired.is_set():
            raise requests.ReadTimeout(f"no whole answer within {timeout:g} s", request=request)
        return self.build_response(request, HTTPResponse(io.BytesIO(body), status=response.status_code, preload_content=False))

    def _read(self, response: requests.Response, sink: Sink | None) -> bytes:
        body = bytearray()
        size = 0
        try:
            for chunk in response.iter_content(CHUNK_BYTES):
                size += len(chunk)
                if size > self._max_body_bytes:
                    raise BodyTooLargeError(f"the answer is longer than {self._max_body_bytes // 1024} KiB")
                if sink is None:
                    body += chunk
                else:
                    sink(chunk)
        except BaseException:
            body.clear()  # who keeps the error keeps this frame: one body for each figure that failed
            raise
        finally:
            response.close()
        return bytes(body)

    def _expire(self, expired: threading.Event) -> None:
        expired.set()
        for connection in self._connections:
            if connection.sock is not None:
                with contextlib.suppress(OSError):  # gone already, which is what we want
                    connection.sock.shutdown(socket.SHUT_RDWR)


def _tracked_pools(connections: list[HTTPConnection]) -> dict[str, type[HTTPConnectionPool]]:
    """Pool classes whose connections enter themselves into `connections` before they connect."""

    class Plain(HTTPConnection):
        def connect(self) -> None:
            connections[:] = [self]
            super().connect()

    class Secure(HTTPSConnection):
        def connect(self) -> None:
            connections[:] = [self]
            super().connect()

    class PlainPool(HTTPConnectionPool):
        ConnectionCls = Plain

    class SecurePool(HTTPSConnectionPool):
        ConnectionCls = Secure

    return {"http": PlainPool, "https": SecurePool}


def _complaint(body: bytes, hide: Callable[[str], str]) -> str:
    """A colon and text from Prometheus' JSON error or from a short plain body; empty where there is neither."""
    try:
        text = str(json.loads(body)["error"])
    except (ValueError, KeyError, TypeError, RecursionError):
        text = body.decode("utf-8", "replace") if len(body) <= 200 else ""
    text = " ".join(hide(text).split())[:200]
    return f": {text}" if text else ""
