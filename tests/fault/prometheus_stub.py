"""Something that listens where Prometheus should, and behaves as configured."""

from __future__ import annotations

import json
import select
import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Final
from urllib.parse import parse_qs, urlsplit

LOOPBACK: Final = "127.0.0.1"
_CHUNK: Final = b'{"metric":{"Hostname":"x"},"value":[0,"1"]},' * 2000

_BEGINNING: Final = b'{"status":"success","data":{"resultType":"vector","result":['

Figures = Callable[[str, float], list[tuple[dict[str, str], str]]]
"""(PromQL, time) to the labels and value of each series."""


class PrometheusStub:
    """Refuses connections until told otherwise; use as a context manager."""

    def __init__(self) -> None:
        self._figures: Figures = lambda query, now: []
        self._behave: Callable[[_Handler], None] | None = None
        self._over = threading.Event()
        self._server: ThreadingHTTPServer | None = None
        self._thread: threading.Thread | None = None
        self.asked = 0
        self.stalled: set[socket.socket] = set()
        self._kept = socket.socket()
        """Bound and never listening: while the stub refuses, no other process can take its port."""
        self._kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._kept.bind((LOOPBACK, 0))
        self.port: int = self._kept.getsockname()[1]

    @property
    def url(self) -> str:
        return f"http://{LOOPBACK}:{self.port}"

    def __enter__(self) -> PrometheusStub:
        return self

    def __exit__(self, *_: object) -> None:
        self.refuse()
        self._kept.close()

    def waiting(self) -> set[socket.socket]:
        """Connections whose question gets no answer and whose client has not given up."""
        return {one for one in tuple(self.stalled) if not select.select([one], [], [], 0)[0]}

    def refuse(self) -> None:
        """Listen no more."""
        self._over.set()
        if self._server is not None and self._thread is not None:
            self._server.shutdown()
            self._server.server_close()
            self._thread.join()
        self._server = self._thread = None

    def stall(self) -> None:
        """Accept, and answer nothing until told otherwise."""
        self._serve(lambda handler: handler.stall())

    def drown(self) -> None:
        """Answer every query with a body that never ends."""
        self._serve(lambda handler: handler.drown())

    def reject(self, status: int, **headers: str) -> None:
        """Answer every query with this status; underscores in names of headers stand for hyphens."""
        self._serve(lambda handler: handler.reject(status, {name.replace("_", "-"): value for name, value in headers.items()}))

    def drip(self) -> None:
        """Begin an answer and send one byte of the answer now and then, so that no single wait is long."""
        self._serve(lambda handler: handler.drip())

    def flood(self, size_bytes: int) -> None:
        """Answer every query with a whole, well-formed answer of at least this size."""
        entries = size_bytes // (len(_CHUNK) - 1) + 1
        self._serve(lambda handler: handler.flood(entries))

    def encrypt(self, certificate: str) -> None:
        """Speak TLS with a certificate (a file with its key) that no client knows."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        self._serve(lambda handler: handler.answer(), context)

    def guard(self, certificate: Path, key: Path, wanted: Mapping[str, str], figures: Figures) -> None:
        """Speak TLS, and answer only who sends these headers; refuse others with 401, and repeat in the body what they sent."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        self._figures = figures
        self._serve(lambda handler: handler.admit(wanted), context)

    def redirect(self, certificate: Path, key: Path, url: str) -> None:
        """Speak TLS, and send every query elsewhere."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        self._serve(lambda handler: handler.reject(307, {"Location": url}), context)

    def answer(self, figures: Figures) -> None:
        """Answer queries as Prometheus does."""
        self._figures = figures
        self._serve(lambda handler: handler.answer())

    def _serve(self, behave: Callable[[_Handler], None], tls: ssl.SSLContext | None = None) -> None:
        self.refuse()
        self._over = threading.Event()
        stub, over = self, self._over

        class Handler(_Handler):
            def do_GET(self) -> None:
                stub.asked += 1
                self.stub, self.over, self.figures = stub, over, stub._figures
                behave(self)

        self._server = _Server((LOOPBACK, self.port), Handler)
        if tls is not None:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True, do_handshake_on_connect=False)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        self._thread.start()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    allow_reuse_address = True

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that gives up is what these tests are about."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    stub: PrometheusStub
    over: threading.Event
    figures: Figures

    def stall(self) -> None:
        self.stub.stalled.add(self.connection)
        self.over.wait()
        self.stub.stalled.discard(self.connection)
        self.close_connection = True

    def drown(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(_BEGINNING)
        while not self.over.is_set():
            self.wfile.write(_CHUNK)
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close_connection = True

    def reject(self, status: int, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": "0", **headers}.items():
            self.send_header(name, value)
        self.end_headers()

    def drip(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "1000000")
        self.end_headers()
        for letter in _BEGINNING:
            if self.over.wait(0.05):
                break
            self.wfile.write(bytes([letter]))
            self.wfile.flush()
        self.over.wait()
        self.close_connection = True

    def flood(self, chunks: int) -> None:
        ending = _CHUNK[:-1] + b"]}}"
        self.send_response(200)
        self.send_header("Content-Length", str(len(_BEGINNING) + len(_CHUNK) * (chunks - 1) + len(ending)))
        self.end_headers()
        self.wfile.write(_BEGINNING)
        for _ in range(chunks - 1):
            self.wfile.write(_CHUNK)
        self.wfile.write(ending)

    def admit(self, wanted: Mapping[str, str]) -> None:
        if all(self.headers.get(name) == value for name, value in wanted.items()):
            self.answer()
            return
        body = f"not allowed: {self.headers.get('Authorization')}".encode()
        self.send_response(401)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def answer(self) -> None:
        query = parse_qs(urlsplit(self.path).query)["query"][0]
        now = time.time()
        result = [{"metric": labels, "value": [now, value]} for labels, value in self.figures(query, now)]
        body = json.dumps({"status": "success", "data": {"resultType": "vector", "result": result}}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        pass
