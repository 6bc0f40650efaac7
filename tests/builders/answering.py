"""A real HTTP server on loopback whose answers a test gives as a function."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from e2e.cluster.ports import LOOPBACK

JSON = "application/json"
Answer = Callable[[BaseHTTPRequestHandler], tuple[int, str, bytes]]
"""Status, media type and body of a GET request."""


@contextmanager
def answering(answer: Answer, address: str = LOOPBACK) -> Iterator[int]:
    """Its port."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, media, body = answer(self)
            self.send_response(status)
            self.send_header("Content-Type", media)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer((address, 0), Handler) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
