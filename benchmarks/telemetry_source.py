"""A large cluster's API objects and Prometheus series, and a server that answers PromQL's instant queries with them.

Values follow from the name of the series and the number of the scrape, so that every process that asks gets the same ones.
Run alone it is the Prometheus of benchmarks/telemetry.py: python benchmarks/telemetry_source.py --nodes 5000 --port 9099
"""

from __future__ import annotations

import argparse
import re
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

from hyperscale.agent.probe.probe_schedule import ProbeSchedule
from hyperscale.observe.prometheus.known_series import target_query

GPUS_PER_NODE: Final = 8
RACK_NODES: Final = 16
RACKS_PER_ZONE: Final = 20
ZONES_PER_REGION: Final = 4
SCRAPE_SECONDS: Final = 15.0
CHANGING_PART: Final = 0.02
"""Of the GPUs whose figures differ from one scrape to the next; the others are idle or fully busy and steady."""
DRIVER: Final = "550.90.07"
MODEL: Final = "NVIDIA H100 80GB HBM3"
GPU_FIGURES: Final = {
    "DCGM_FI_DEV_GPU_UTIL": (0, 100),
    "DCGM_FI_DEV_FB_USED": (500, 70_000),
    "DCGM_FI_DEV_FB_FREE": (10_000, 80_000),
    "DCGM_FI_DEV_FB_RESERVED": (500, 700),
    "DCGM_FI_DEV_GPU_TEMP": (30, 85),
    "DCGM_FI_DEV_POWER_USAGE": (60, 700),
    "DCGM_FI_DEV_XID_ERRORS": (0, 0),
}
_FIGURE: Final = re.compile(r"^.*?timestamp\((\w+)\).*$")
LATENCY: Final = "hyperscale_link_latency_seconds"
BANDWIDTH: Final = "hyperscale_link_bandwidth_bytes_per_second"


def node_name(number: int) -> str:
    """As a provisioner names them."""
    return f"gpu-node-{number:05d}"


def api_node(number: int) -> dict[str, Any]:
    """A v1 Node with eight GPUs in its rack, zone and region."""
    rack = number // RACK_NODES
    zone = rack // RACKS_PER_ZONE
    resources = {"cpu": "192", "memory": "2048Gi", "pods": "250", "nvidia.com/gpu": str(GPUS_PER_NODE)}
    name = node_name(number)
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {
                "kubernetes.io/hostname": name,
                "topology.kubernetes.io/region": f"region-{zone // ZONES_PER_REGION}",
                "topology.kubernetes.io/zone": f"zone-{zone}",
                "fabric.topograph.run/tier-0": f"leaf-{rack}",
                "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3",
                "nvidia.com/gpu.memory": "81559",
                "nvidia.com/gpu.count": str(GPUS_PER_NODE),
                "nvidia.com/gpu.family": "hopper",
                "nvidia.com/gpu.present": "true",
                "nvidia.com/cuda.driver.major": "550",
                "node.kubernetes.io/instance-type": "hgx-8",
            },
        },
        "status": {"capacity": resources, "allocatable": resources, "conditions": [{"type": "Ready", "status": "True"}]},
    }


def api_pod(number: int) -> dict[str, Any]:
    """A pod of others that holds some GPUs of one node."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"namespace": "others", "name": f"trainer-{number:05d}", "uid": f"uid-{number}", "resourceVersion": "1", "labels": {}},
        "spec": {
            "nodeName": node_name(number),
            "containers": [{"name": "main", "resources": {"limits": {"nvidia.com/gpu": str(1 + number % 4)}}}],
        },
        "status": {"phase": "Running"},
    }


def link_pairs(nodes: int) -> list[tuple[int, int]]:
    """The directed pairs that the agents of such a cluster measure and serve."""
    index = {node_name(number): number for number in range(nodes)}
    racks = {name: number // RACK_NODES for name, number in index.items()}
    schedule = ProbeSchedule({name: f"zone-{rack // RACKS_PER_ZONE}/leaf-{rack}" for name, rack in racks.items()})
    found = ((number, schedule.targets(name, 0)) for name, number in index.items())
    return sorted((number, index[other]) for number, targets in found for other in (*targets.near, *targets.far))


def link_line(figure: str, pair: tuple[int, int], scrape: int, stamps: bool) -> str:
    """One series of the agents' PodMonitor in an answer."""
    source, destination = pair
    near = source // RACK_NODES == destination // RACK_NODES
    value = (2e-5 if near else 3e-4) if figure == LATENCY else (2.5e10 if near else 6e9)
    value *= 1.0 + (source * 31 + destination * 17) % 100 / 400
    name = "" if stamps else f'"__name__":"{figure}",'
    return (
        f'{{"metric":{{{name}"container":"agent","destination":"{node_name(destination)}","endpoint":"metrics",'
        f'"instance":"10.0.{source >> 8}.{source & 255}:9465","job":"hyperscale-system/hyperscale-agent","namespace":"hyperscale-system",'
        f'"pod":"hyperscale-agent-{source:05x}","source":"{node_name(source)}"}},"value":[{_stamp(source, scrape, stamps, value)}]}}'
    )


class Source:
    """Bodies of answers by query and scrape."""

    def __init__(self, nodes: int) -> None:
        self._nodes = nodes
        self._pairs = link_pairs(nodes)
        self._bodies: dict[tuple[str, int], bytes] = {}
        self._lock = threading.Lock()
        self.own_times = False
        """Exporters set times of their own: no target has one that is that of all its series."""
        self.all_change = False
        """At every scrape, as where all GPUs work."""

    def body(self, query: str, evaluated: float) -> bytes:
        """The answer to one instant query at a moment."""
        scrape = int(evaluated // SCRAPE_SECONDS)
        with self._lock:
            for key in [key for key in self._bodies if key[1] < scrape - 1]:
                del self._bodies[key]
            if (query, scrape) not in self._bodies:
                self._bodies[query, scrape] = self._made(query, scrape)
            return self._bodies[query, scrape]

    def _made(self, query: str, scrape: int) -> bytes:
        figure = _FIGURE.sub(r"\1", query)
        stamps = query != figure
        if stamps and query == target_query(figure) and figure in (*GPU_FIGURES, LATENCY, BANDWIDTH):
            entries = [self._target(figure, node, scrape) for node in range(0 if self.own_times else self._nodes)]
        elif figure in GPU_FIGURES:
            entries = [self._gpu(figure, node, gpu, scrape, stamps) for node in range(self._nodes) for gpu in range(GPUS_PER_NODE)]
        elif figure in (LATENCY, BANDWIDTH):
            entries = [link_line(figure, pair, scrape, stamps) for pair in self._pairs]
        else:
            entries = []
        return ('{"status":"success","data":{"resultType":"vector","result":[' + ",".join(entries) + "]}}").encode()

    def _gpu(self, figure: str, node: int, gpu: int, scrape: int, stamps: bool) -> str:
        low, high = GPU_FIGURES[figure]
        number = node * GPUS_PER_NODE + gpu
        moment = scrape if self.all_change or number % round(1 / CHANGING_PART) == scrape % round(1 / CHANGING_PART) else 0
        value = low + (number * 7919 + moment * 104_729) % (high - low + 1)
        name = "" if stamps else f'"__name__":"{figure}",'  # sorted by bytes, and so behind capitals
        host = node_name(node)
        return (
            f'{{"metric":{{"DCGM_FI_DRIVER_VERSION":"{DRIVER}","Hostname":"{host}","UUID":"GPU-{number:08x}-5d3c-0b7e-9c54-{number:012x}",{name}'
            f'"container":"exporter","device":"nvidia{gpu}","endpoint":"metrics","gpu":"{gpu}",'
            f'"instance":"10.{node >> 16}.{node >> 8 & 255}.{node & 255}:9400",'
            f'"job":"dcgm-exporter","modelName":"{MODEL}","namespace":"gpu-operator","pci_bus_id":"00000000:{gpu + 1:02X}:00.0",'
            f'"pod":"dcgm-exporter-{node:05x}","service":"dcgm-exporter"}},"value":[{_stamp(node, scrape, stamps, value)}]}}'
        )

    def _target(self, figure: str, node: int, scrape: int) -> str:
        if figure in GPU_FIGURES:
            labels = f'"instance":"10.{node >> 16}.{node >> 8 & 255}.{node & 255}:9400","job":"dcgm-exporter"'
        else:
            labels = f'"instance":"10.0.{node >> 8}.{node & 255}:9465","job":"hyperscale-system/hyperscale-agent"'
        return f'{{"metric":{{{labels}}},"value":[{_stamp(node, scrape, True, 0.0)}]}}'


def _stamp(node: int, scrape: int, stamps: bool, value: float) -> str:
    """Moment and value; each target has its own offset within the interval of scrapes."""
    evaluated = (scrape + 1) * SCRAPE_SECONDS
    scraped = scrape * SCRAPE_SECONDS + node % 14
    return f'{evaluated:.3f},"{scraped:.3f}"' if stamps else f'{evaluated:.3f},"{value:g}"'


def serve(nodes: int, port: int) -> None:
    """Answer for ever. Time is the clock's, or the last set with /moment?time=…&case=…, which answers the bytes sent so far."""
    source = Source(nodes)
    told = {"moment": 0.0, "bytes": 0.0}

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            address = urlsplit(self.path)
            asked = parse_qs(address.query)
            if address.path == "/moment":
                told["moment"] = float(asked["time"][0])
                source.own_times, source.all_change = (asked.get("case") == [case] for case in ("own times", "all change"))
                return self._send(str(int(told["bytes"])).encode())
            moment = float(asked["time"][0]) - 0.5 if "time" in asked else told["moment"] or time.time()
            body = source.body(asked["query"][0], moment)
            told["bytes"] += len(body)
            return self._send(body)

        def _send(self, body: bytes) -> None:
            """In one chunk, as Prometheus sends long answers."""
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            self.wfile.write(b"%x\r\n" % len(body) + body + b"\r\n0\r\n\r\n")

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
            pass

    ThreadingHTTPServer(("127.0.0.1", port), Handler).serve_forever()


def main() -> int:
    """Serve until killed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--port", type=int, required=True)
    arguments = parser.parse_args()
    serve(arguments.nodes, arguments.port)
    return 0


if __name__ == "__main__":
    sys.exit(main())
