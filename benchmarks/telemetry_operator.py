"""The real operator on a real API server with thousands of nodes, beside a server that answers as Prometheus does; see telemetry.py."""

from __future__ import annotations

import contextlib
import http.client
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from benchmarks import common, telemetry_source
from e2e.cluster import audit, cluster, components
from e2e.cluster.api import Api
from e2e.cluster.binaries import ensure_all
from e2e.cluster.control_plane import wait_until
from e2e.cluster.ports import free_ports

ROOT: Final = Path(__file__).resolve().parent.parent
BENCHMARK: Final = "telemetry"
OURS: Final = "hyperscale"
IDLE: Final = "a process that only answers"
LIMIT_MB: Final = 600.0
"""Of 10^6 bytes."""
LOOP_LIMIT_MS: Final = 100.0
PATIENCE_SECONDS: Final = 300.0
WATCH_SECONDS: Final = 60.0
QUICK_WATCH_SECONDS: Final = 12.0
SETTLE_SECONDS: Final = 12.0
"""After the first figures: watches of all nodes have just begun, and the planner's process too."""
PROBE_SECONDS: Final = 0.02
TOPOLOGY: Final = "/apis/hyperscale.dev/v1alpha1/clustertopologies/default"
ANSWERER: Final = """
import asyncio, sys
from aiohttp import web
application = web.Application()
async def answer(_): return web.Response(text="ok")
application.router.add_get("/healthz", answer)
web.run_app(application, port=int(sys.argv[1]), print=None)
"""


@dataclass(frozen=True, slots=True)
class Bench:
    """What runs."""

    api: Api
    audit_log: Path
    operator: subprocess.Popen[bytes]
    log: Path
    began: float
    ports: dict[str, int]
    """Of /healthz by method."""
    steps: Path
    """What telemetry_watch.py writes."""


def measure(nodes: int, quick: bool) -> list[common.Row]:
    """Rows and goals."""
    with tempfile.TemporaryDirectory(prefix="hyperscale-bench-") as scratch, _bench(Path(scratch), nodes) as bench:
        return _rows(bench, nodes, QUICK_WATCH_SECONDS if quick else WATCH_SECONDS)


def _rows(bench: Bench, nodes: int, seconds: float) -> list[common.Row]:
    case = f"{nodes} nodes x {telemetry_source.GPUS_PER_NODE} GPUs"
    ready, seen = _started(bench)
    status = bench.api.get(TOPOLOGY)["status"]
    time.sleep(SETTLE_SECONDS)
    since = audit.position(bench.audit_log)
    watched_from = time.monotonic()
    before = _cpu_seconds(bench.operator.pid)
    late = {OURS: _Prober(bench.ports[OURS]), IDLE: _Prober(bench.ports[IDLE])}
    time.sleep(seconds)
    taken = {method: prober.stop() for method, prober in late.items()}
    cpu = (_cpu_seconds(bench.operator.pid) - before) / seconds
    asked = audit.settled(bench.api, bench.audit_log, since)
    writes = [e for e in asked if e.verb in audit.WRITES and e.user == "admin" and e.resource != "leases"]
    steps = _steps_of_the_loop(bench.steps, watched_from)
    memory = {name: _memory_mb(bench.operator.pid, name) for name in ("VmRSS", "VmHWM")}
    planner = sum(_memory_mb(child, "VmHWM") for child in _children(bench.operator.pid))
    rows = [
        common.Row(BENCHMARK, case, OURS, "start to ready", ready, "s"),
        common.Row(BENCHMARK, case, OURS, "start to first figures", seen, "s"),
        common.Row(BENCHMARK, case, OURS, "RSS", memory["VmRSS"], "MB"),
        common.Row(BENCHMARK, case, OURS, "highest RSS", memory["VmHWM"], "MB"),
        common.Row(BENCHMARK, case, OURS, "highest RSS of the planner's process beside it", planner, "MB"),
        common.Row(BENCHMARK, case, OURS, "CPU while it reads every 10 s", cpu, "cores"),
        common.Row(BENCHMARK, case, OURS, "links in ClusterTopology", float(status["linkCount"]), "links"),
        *_loop_rows(case, steps),
    ]
    for method, values in taken.items():
        for part, name in ((0.5, "p50"), (0.99, "p99"), (1.0, "longest")):
            rows.append(common.Row(BENCHMARK, f"{case}, /healthz", method, name, common.percentile(values, part) * 1e3, "ms"))
    longest = max(cpu_taken for found in steps.values() for cpu_taken, _ in found) * 1e3
    rows.append(common.goal(BENCHMARK, f"{case}: highest RSS", OURS, memory["VmHWM"], LIMIT_MB, "MB"))
    rows.append(common.goal(BENCHMARK, f"{case}: highest RSS, with the planner's process", OURS, memory["VmHWM"] + planner, LIMIT_MB, "MB"))
    rows.append(common.goal(BENCHMARK, f"{case}: longest step of the event loop, start included", OURS, longest, LOOP_LIMIT_MS, "CPU ms"))
    rows.append(common.goal(BENCHMARK, f"{case}: writes in {seconds:g} s of noise", OURS, float(len(writes)), 0, "writes"))
    return rows


def _started(bench: Bench) -> tuple[float, float]:
    """Waits until a whole reading is in the ClusterTopology; seconds from the start to ready, and to the first figures."""
    wait_until(lambda: _status(bench.ports[OURS], "/readyz") == 200, PATIENCE_SECONDS, f"the operator is not ready:\n{_tail(bench.log)}")
    ready = time.monotonic() - bench.began
    wait_until(lambda: "metrics: MetricsAvailable" in bench.log.read_text(), PATIENCE_SECONDS, f"no metrics:\n{_tail(bench.log)}")
    seen = time.monotonic() - bench.began
    wait_until(lambda: bool((bench.api.find(TOPOLOGY) or {}).get("status")), PATIENCE_SECONDS, "no ClusterTopology")
    # The first reading begins before the nodes are known and ends when the built-in deadline says so: with this slow stand-in it is a part.
    wait_until(lambda: _is_whole(bench.api.get(TOPOLOGY)["status"]), PATIENCE_SECONDS, "no whole reading in the ClusterTopology")
    return ready, seen


def _steps_of_the_loop(file: Path, watched_from: float) -> dict[str, list[tuple[float, float]]]:
    """CPU and wall seconds of the steps of the event loop, before the moment from which they were watched and after it."""
    steps = [tuple(map(float, line.split())) for line in file.read_text().splitlines()]
    starting = [(cpu_taken, wall) for began, cpu_taken, wall in steps if began < watched_from]
    steady = [(cpu_taken, wall) for began, cpu_taken, wall in steps if began >= watched_from]
    return {"from start to first figures": starting or [(0.0, 0.0)], "afterwards": steady or [(0.0, 0.0)]}


def _loop_rows(case: str, steps: dict[str, list[tuple[float, float]]]) -> Iterator[common.Row]:
    """The longest step by CPU and by wall time."""
    for name, found in steps.items():
        of_loop = f"{case}, steps of the event loop {name}"
        yield common.Row(BENCHMARK, of_loop, OURS, "longest, CPU", max(found)[0] * 1e3, "ms")
        yield common.Row(BENCHMARK, of_loop, OURS, "longest, wall", max(wall for _, wall in found) * 1e3, "ms")


def _is_whole(status: dict[str, Any]) -> bool:
    return bool(status["linkCount"]) and not status.get("failedQueries")


class _Prober:
    """Asks /healthz over and over from a thread."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._over = threading.Event()
        self._taken: list[float] = []
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> list[float]:
        """Seconds that each answer took."""
        self._over.set()
        self._thread.join()
        return self._taken

    def _run(self) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=30)
        while not self._over.wait(PROBE_SECONDS):
            began = time.perf_counter()
            connection.request("GET", "/healthz")
            connection.getresponse().read()
            self._taken.append(time.perf_counter() - began)


@contextlib.contextmanager
def _bench(directory: Path, nodes: int) -> Iterator[Bench]:
    """API server with nodes, the stand-in for Prometheus, the idle answerer and the operator."""
    running = cluster.up(directory / "cluster", parts="control-plane")
    children: list[subprocess.Popen[bytes]] = []
    try:
        api = running.api("hyperscale-bench")
        _prepare(running, api, nodes)
        prometheus, health, metrics, idle = free_ports(4)
        source = [sys.executable, str(ROOT / "benchmarks" / "telemetry_source.py"), "--nodes", str(nodes), "--port", str(prometheus)]
        children.append(subprocess.Popen(source, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
        children.append(subprocess.Popen([sys.executable, "-c", ANSWERER, str(idle)]))
        wait_until(lambda: _status(prometheus, "/api/v1/query?query=vector(1)") == 200, PATIENCE_SECONDS, "no Prometheus")
        environment = {
            **os.environ,
            "MALLOC_ARENA_MAX": "2",  # as in the image
            "KUBECONFIG": str(running.kubeconfig),
            "HYPERSCALE_PROMETHEUS_URL": f"http://127.0.0.1:{prometheus}",
            "HYPERSCALE_HEALTH_PORT": str(health),
            "HYPERSCALE_METRICS_PORT": str(metrics),
            "HYPERSCALE_RESYNC_SECONDS": "30",
            "HYPERSCALE_TOPOLOGY_SECONDS": "10",
            "WATCH_FILE": str(directory / "steps.txt"),
        }
        log = directory / "operator.log"
        began = time.monotonic()
        operator = subprocess.Popen(
            [sys.executable, str(ROOT / "benchmarks" / "telemetry_watch.py")],
            env=environment,
            stdout=log.open("wb"),
            stderr=subprocess.STDOUT,
        )
        children.append(operator)
        yield Bench(api, running.audit_log, operator, log, began, {OURS: health, IDLE: idle}, directory / "steps.txt")
    finally:
        for child in children:
            child.terminate()
        for child in children:
            child.wait(30)
        cluster.down(directory / "cluster")


def _prepare(running: cluster.Cluster, api: Api, nodes: int) -> None:
    kubectl = str(ensure_all()["kubectl"])
    for definition in [*sorted((ROOT / "crds").glob("*.yaml")), ensure_all()["kubeflow.org_mpijobs.yaml"]]:
        command = [kubectl, "--kubeconfig", str(running.kubeconfig), "apply", "--server-side", "-f", str(definition)]
        subprocess.run(command, check=True, capture_output=True)
    components.ensure_namespace(api, "hyperscale-system")
    policy = {"apiVersion": "hyperscale.dev/v1alpha1", "kind": "PlannerPolicy", "metadata": {"name": "default"}}
    # The stand-in makes its answers while it is asked, which takes it longer than a Prometheus.
    limits = {"spec": {"metricsTimeoutSeconds": 60}}
    wait_until(lambda: _created(api, {**policy, **limits}), PATIENCE_SECONDS, "PlannerPolicy cannot be created")

    def create(number: int) -> None:
        made = telemetry_source.api_node(number)
        api.create("/api/v1/nodes", made)
        api.patch(f"/api/v1/nodes/{made['metadata']['name']}", {"spec": {"taints": None}})

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(create, range(nodes)))


def _created(api: Api, policy: dict[str, object]) -> bool:
    try:
        api.apply("/apis/hyperscale.dev/v1alpha1/plannerpolicies/default", policy)
    except Exception:  # the CRD is not served yet; what is wrong else shows when patience ends
        return False
    return True


def _status(port: int, path: str) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request("GET", path)
        return connection.getresponse().status
    except OSError:
        return 0
    finally:
        connection.close()


def _memory_mb(pid: int, field: str) -> float:
    found = re.search(rf"^{field}:\s+(\d+) kB$", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    return int(found.group(1)) * 1024 / 1e6 if found else 0.0


def _children(pid: int) -> list[int]:
    """Processes that this one has started."""
    return [int(child) for task in Path(f"/proc/{pid}/task").glob("*/children") for child in task.read_text().split()]


def _cpu_seconds(pid: int) -> float:
    parts = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(parts[11]) + int(parts[12])) / os.sysconf("SC_CLK_TCK")


def _tail(log: Path) -> str:
    return log.read_text(errors="replace")[-2000:]
