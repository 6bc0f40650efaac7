"""What Prometheus scrapes in the doctor's tests, and Prometheus itself."""

from __future__ import annotations

import json
import socket
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Final

import yaml

from e2e.cluster import prometheus
from e2e.cluster.control_plane import wait_until
from e2e.cluster.ports import LOOPBACK, free_ports
from e2e.cluster.processes import ProcessTable
from hyperscale.agent.exposition import render
from hyperscale.agent.gpus.exposition_gpus import families
from hyperscale.agent.gpus.gpu_reading import GpuPath, GpuReading, PathKind, Reading
from hyperscale.agent.state import AgentState, DriverCondition, worst
from tests.builders.answering import JSON, answering

Labels = dict[str, str]

NODES: Final = ("gpu-1", "gpu-2", "gpu-3")
GPUS: Final = 2


@dataclass
class Exporter:
    """What Prometheus scrapes; tests change the text."""

    dcgm: str = ""
    agent: str = ""
    port: int = 0
    _stack: ExitStack = field(default_factory=ExitStack, repr=False)

    def __enter__(self) -> Exporter:
        self.port = self._stack.enter_context(answering(self._page))
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _page(self, request: BaseHTTPRequestHandler) -> tuple[int, str, bytes]:
        return 200, "text/plain; version=0.0.4", {"/dcgm": self.dcgm, "/agent": self.agent}.get(request.path, "").encode()


def exposition(rows: dict[str, list[tuple[Labels, float]]]) -> str:
    """Prometheus' text format."""
    lines = []
    for name, series in rows.items():
        lines += [f"# TYPE {name} gauge", *(f"{name}{{{_text(labels)}}} {value}" for labels, value in series)]
    return "\n".join(lines) + "\n"


def _text(labels: Labels) -> str:
    return ",".join(f"{key}={json.dumps(value)}" for key, value in labels.items())


def dcgm(label: str = "Hostname", named: Callable[[str], str] = str, scale: float = 1.0, leave_out: tuple[str, ...] = ()) -> str:
    """dcgm-exporter's figures of all GPUs.

    label, named: what names the node, and how; scale: of memory; leave_out: metrics that the exporter's CSV lacks
    """
    figures = {
        "DCGM_FI_DEV_GPU_UTIL": 37.0,
        "DCGM_FI_DEV_FB_USED": 20000.0 * scale,
        "DCGM_FI_DEV_FB_FREE": 61000.0 * scale,
        "DCGM_FI_DEV_FB_RESERVED": 559.0 * scale,
        "DCGM_FI_DEV_GPU_TEMP": 51.0,
        "DCGM_FI_DEV_POWER_USAGE": 212.5,
        "DCGM_FI_DEV_XID_ERRORS": 0.0,
    }
    each = [
        {"gpu": str(gpu), "UUID": f"GPU-{node}-{gpu}", "device": f"nvidia{gpu}", "modelName": "NVIDIA H100 80GB HBM3", label: named(node)}
        for node in NODES
        for gpu in range(GPUS)
    ]
    return exposition({name: [(labels, value) for labels in each] for name, value in figures.items() if name not in leave_out})


def links(source: str = "source", destination: str = "destination", pairs: int = 6) -> str:
    """What the node agents tell."""
    every = [(one, other) for one in NODES for other in NODES if one != other][:pairs]
    labelled = [{source: one, destination: other} for one, other in every]
    return exposition(
        {
            "hyperscale_link_latency_seconds": [(labels, 0.000042) for labels in labelled],
            "hyperscale_link_bandwidth_bytes_per_second": [(labels, 1.2e9) for labels in labelled],
        }
    )


def gpu_states(node: str, *conditions: DriverCondition) -> str:
    """What the agent of a node tells of each GPU's state, beside the links of all."""
    gpus = tuple(GpuReading(index, AgentState(condition)) for index, condition in enumerate(conditions))
    return _told(node, Reading(0.0, worst(gpu.state for gpu in gpus), gpus=gpus))


def driver_state(node: str, condition: DriverCondition) -> str:
    """What the agent of a node without readable GPUs tells, beside the links of all."""
    return _told(node, Reading(0.0, AgentState(condition)))


def ways(node: str, kind: PathKind, links: int) -> str:
    """What the agents tell of the ways between GPUs, beside the links of all: NVLinks everywhere but on `node`."""
    texts = [_told(name, _joined(*((kind, links) if name == node else ("NVLink", 18)))) for name in NODES]
    return "\n".join(dict.fromkeys("".join(texts).splitlines())) + "\n"


def _joined(kind: PathKind, links: int) -> Reading:
    pairs = [(gpu, peer) for gpu in range(GPUS) for peer in range(GPUS) if gpu != peer]
    gpus = tuple(GpuReading(index, AgentState(DriverCondition.READY), f"GPU-{index}") for index in range(GPUS))
    return Reading(0.0, AgentState(DriverCondition.READY), gpus=gpus, paths=tuple(GpuPath(gpu, peer, kind, links) for gpu, peer in pairs))


def _told(node: str, reading: Reading) -> str:
    return links() + render(families(reading, node, reading.state, 0.1))


@contextmanager
def serving_prometheus(directory: Path, exporter: Exporter) -> Iterator[str]:
    """A real Prometheus that scrapes the exporter every other second; yields its URL."""
    (port,) = free_ports(1)
    jobs = [
        {"job_name": name, "honor_labels": True, "metrics_path": path, "static_configs": [{"targets": [f"{LOOPBACK}:{exporter.port}"]}]}
        for name, path in (("dcgm-exporter", "/dcgm"), ("hyperscale-agent", "/agent"))
    ]
    timing = {"scrape_interval": "2s", "scrape_timeout": "2s"}
    (directory / "prometheus.yml").write_text(yaml.safe_dump({"global": timing, "scrape_configs": jobs}))
    prometheus.start(directory, LOOPBACK, port)
    url = f"http://{LOOPBACK}:{port}"
    try:
        wait_until(lambda: prometheus.has_scraped(url), 60.0, "Prometheus has scraped nothing")
        wait_scraped(url, "hyperscale_link_bandwidth_bytes_per_second", 6)
        yield url
    finally:
        ProcessTable(directory).stop_all()


def wait_scraped(url: str, expression: str, count: int) -> None:
    """Until an expression has `count` series."""

    def reached() -> bool:
        try:
            return len(prometheus.query(url, expression)) == count
        except (OSError, urllib.error.URLError, ValueError, KeyError):
            return False

    wait_until(reached, 60.0, f"{expression} has not {count} series")


def own_address() -> str | None:
    """An address of this machine that is not loopback."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # sends nothing: only asks for the route
        except OSError:
            return None
        address = str(probe.getsockname()[0])
    return None if address.startswith("127.") else address


def forwarded(address: str, url: str) -> AbstractContextManager[int]:
    """A port at `address` behind which `url` answers."""

    def answer(request: BaseHTTPRequestHandler) -> tuple[int, str, bytes]:
        try:
            with urllib.request.urlopen(f"{url}{request.path}", timeout=10) as answered:  # noqa: S310 - a loopback address of ours
                return answered.status, JSON, answered.read()
        except urllib.error.HTTPError as error:
            return error.code, JSON, error.read()

    return answering(answer, address)
