"""A real HTTP server that answers as Prometheus does, or as badly as a test wants."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

Answer = Callable[["Handler", str], None]
"""Writes the whole answer to one query."""


class Server(ThreadingHTTPServer):
    daemon_threads = True
    answer: Answer
    asked: list[str]

    def handle_error(self, request: object, client_address: object) -> None:
        """Clients that hang up are what the tests are about."""


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: Server

    def do_GET(self) -> None:
        query = parse_qs(urlsplit(self.path).query).get("query", [self.path])[0]
        self.server.asked.append(query)
        self.server.answer(self, query)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Silence."""

    def reply(self, body: bytes, status: int = 200, **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def vector(self, *entries: tuple[dict[str, str], float, str]) -> None:
        """An instant vector of (labels, evaluation time, value as text)."""
        result = [{"metric": labels, "value": [stamp, text]} for labels, stamp, text in entries]
        self.reply(json.dumps({"status": "success", "data": {"resultType": "vector", "result": result}}).encode())


@contextlib.contextmanager
def serving(answer: Answer) -> Iterator[tuple[str, list[str]]]:
    """A server on a free port of this machine: its URL, and the queries that came so far."""
    server = Server(("127.0.0.1", 0), Handler)
    server.answer, server.asked = answer, []
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", server.asked
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
