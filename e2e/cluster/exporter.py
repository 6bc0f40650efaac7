"""The exporter process: DCGM and link metrics of every simulated node at /metrics, and control over HTTP on loopback.

POST   /load    {"node": N, "utilization": percent}                              work of others on every GPU of N
POST   /links   {"source": A, "destination": B, "factor": F}                     F times slower: latency × F, bandwidth ÷ F
                {"source": A, "destination": B, "latency": seconds, "bandwidth": bytes a second}
                (one direction; with "bothWays": true the other as well)
POST   /faults  {"node": N, "fault": nan|infinite|negative|absent, "metric": one DCGM name, all without it}
                {"node": N, "xid": number}                                       last XID error of its GPU 0
DELETE /load /links /faults                                                      take back all wishes of a kind; DELETE / all
GET    /targets                                                                  pods on real nodes, for Prometheus' HTTP discovery
GET    /healthz                                                                  200 once the pods are known
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

from e2e.cluster.api import Api, ApiError, access_from
from e2e.cluster.ports import LOOPBACK
from e2e.cluster.simulation import FAULTS, METRICS, Simulation, Wishes
from e2e.cluster.targets import Targets
from e2e.cluster.topology import Figures, load

MAX_BODY_BYTES: Final = 65536
_WATCH_SECONDS: Final = 300.0
_RETRY_SECONDS: Final = 0.5


class RefusedError(Exception):
    """A control request that means nothing; the message says what to write."""


def _number(body: dict[str, Any], key: str, low: float, high: float) -> float:
    value = body.get(key)
    if not isinstance(value, int | float) or isinstance(value, bool) or not math.isfinite(value) or not low <= value <= high:
        raise RefusedError(f"{key}: write a number between {low:g} and {high:g}")
    return float(value)


def _node(simulation: Simulation, body: dict[str, Any], key: str) -> str:
    name = body.get(key)
    if not isinstance(name, str) or name not in simulation.nodes:
        raise RefusedError(f"{key}: {name!r} is not a node of this cluster")
    return name


def set_load(simulation: Simulation, body: dict[str, Any]) -> None:
    """POST /load."""
    simulation.wishes.load[_node(simulation, body, "node")] = _number(body, "utilization", 0, 100)


def set_link(simulation: Simulation, body: dict[str, Any]) -> None:
    """POST /links."""
    source, destination = _node(simulation, body, "source"), _node(simulation, body, "destination")
    both = ((source, destination), (destination, source)) if body.get("bothWays") else ((source, destination),)
    for pair in both:
        if "factor" in body:
            factor = _number(body, "factor", 1e-6, 1e6)
            simulation.wishes.links[pair] = simulation.natural_figures(*pair).scaled(factor, 1 / factor)
        else:
            latency, bandwidth = _number(body, "latency", 0, 3600), _number(body, "bandwidth", 0, 1e15)
            simulation.wishes.links[pair] = Figures(latency * 1e6, bandwidth * 8 / 1e9)


def set_fault(simulation: Simulation, body: dict[str, Any]) -> None:
    """POST /faults."""
    node = _node(simulation, body, "node")
    if "xid" in body:
        simulation.wishes.xids[node] = int(_number(body, "xid", 0, 1000))
        return
    kind, metric = body.get("fault"), body.get("metric", "*")
    if kind not in FAULTS:
        raise RefusedError(f"fault: write one of {', '.join(sorted(FAULTS))}")
    if metric != "*" and metric not in {name for name, _ in METRICS}:
        raise RefusedError(f"metric: {metric!r} is not exported; leave it out for all")
    simulation.wishes.faults.setdefault(node, {})[metric] = kind


def reset(simulation: Simulation, path: str) -> None:
    """DELETE of one kind of wish, or of all."""
    empty = Wishes()
    if path in ("/", "/load"):
        simulation.wishes.load = empty.load
    if path in ("/", "/links"):
        simulation.wishes.links = empty.links
    if path in ("/", "/faults"):
        simulation.wishes.faults, simulation.wishes.xids = empty.faults, empty.xids


CONTROLS: Final[dict[str, Callable[[Simulation, dict[str, Any]], None]]] = {"/load": set_load, "/links": set_link, "/faults": set_fault}


class Server(ThreadingHTTPServer):
    """The HTTP side; `lock` guards the simulation against the pod watch."""

    daemon_threads = True

    def __init__(self, port: int, simulation: Simulation, targets: Targets) -> None:
        super().__init__((LOOPBACK, port), _Handler)
        self.simulation = simulation
        self.targets = targets
        self.lock = threading.Lock()
        self.synced = threading.Event()


class _Handler(BaseHTTPRequestHandler):
    server: Server
    timeout = 10

    def do_GET(self) -> None:
        if self.path == "/metrics":
            with self.server.lock:
                text = self.server.simulation.render()
            self._answer(200, text, "text/plain; version=0.0.4; charset=utf-8")
        elif self.path == "/targets":
            with self.server.lock:
                text = self.server.targets.render()
            self._answer(200, text, "application/json")
        elif self.path == "/healthz":
            self._answer(200 if self.server.synced.is_set() else 503, "ok" if self.server.synced.is_set() else "waiting for the pods")
        else:
            self._answer(404, "see /metrics")

    def do_POST(self) -> None:
        control = CONTROLS.get(self.path)
        if control is None:
            self._answer(404, f"POST to one of {', '.join(sorted(CONTROLS))}")
            return
        try:
            body = self._body()
            with self.server.lock:
                control(self.server.simulation, body)
        except RefusedError as error:
            self._answer(400, str(error))
        else:
            self._answer(200, "ok")

    def do_DELETE(self) -> None:
        if self.path != "/" and self.path not in CONTROLS:
            self._answer(404, f"DELETE / or one of {', '.join(sorted(CONTROLS))}")
            return
        with self.server.lock:
            reset(self.server.simulation, self.path)
        self._answer(200, "ok")

    def _body(self) -> dict[str, Any]:
        try:
            length = int(self.headers.get("Content-Length", "0"))
            body = json.loads(self.rfile.read(length)) if 0 < length <= MAX_BODY_BYTES else None
        except ValueError as error:
            raise RefusedError(f"the body is not JSON: {error}") from error
        if not isinstance(body, dict):
            raise RefusedError(f"write a JSON object of at most {MAX_BODY_BYTES} bytes")
        return body

    def _answer(self, status: int, text: str, content_type: str = "text/plain") -> None:
        data = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 (the base class's name)
        """One line a scrape would only fill the log."""


def follow_pods(api: Api, server: Server) -> None:
    """List and watch pods for ever; any break leads to a new list."""
    while True:
        try:
            listed = api.get("/api/v1/pods", resourceVersion="0")
            with server.lock:
                server.simulation.replace_pods(listed["items"])
                server.targets.replace(listed["items"])
            server.synced.set()
            for event in api.watch("/api/v1/pods", _WATCH_SECONDS, resourceVersion=listed["metadata"]["resourceVersion"]):
                with server.lock:
                    if event["type"] == "DELETED":
                        server.simulation.pod_gone(event["object"]["metadata"]["uid"])
                        server.targets.gone(event["object"]["metadata"]["uid"])
                    else:
                        server.simulation.pod_changed(event["object"])
                        server.targets.changed(event["object"])
        except ApiError as error:
            print(f"pods: {error}", file=sys.stderr, flush=True)
            time.sleep(_RETRY_SECONDS)


def main() -> None:
    """Serve until killed."""
    parser = argparse.ArgumentParser(prog="python -m e2e.cluster.exporter", description="DCGM and link metrics of simulated nodes.")
    parser.add_argument("--topology", type=Path, required=True)
    parser.add_argument("--kubeconfig", type=Path, required=True)
    parser.add_argument("--port", type=int, required=True)
    arguments = parser.parse_args()
    topology = load(arguments.topology)
    server = Server(arguments.port, Simulation(topology), Targets(machine.name for machine in topology.real))
    api = Api(access_from(arguments.kubeconfig), "hyperscale-exporter")
    threading.Thread(target=follow_pods, args=(api, server), daemon=True).start()
    server.serve_forever()


if __name__ == "__main__":
    main()
