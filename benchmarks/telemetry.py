"""What it costs to see 5,000 nodes with 8 GPUs each. Series: 280,000 of GPUs and the agents' of links, each with the time of its scrape.

readings  in this process: answers of a Prometheus into series, series into figures, figures into a snapshot; cold, and with a part changed.
          Peer in the same run: every answer decoded at once and everything judged again, as `hyperscale snapshot` would without a memory
operator  the real operator against a real API server with that many nodes and a server that answers as Prometheus does: memory,
          readiness, CPU, how late its event loop answers, and what it writes. Beside it, for the noise of the machine, a process that
          does nothing else than answer the same probe
links     benchmarks/telemetry_links.py: estimates of links that were not measured, probes and bytes by cluster size
series    benchmarks/telemetry_series.py: series of agents, and estimates from just the links that they measure

Example: python benchmarks/telemetry.py --only readings --json rows.json
"""

from __future__ import annotations

import contextlib
import gc
import http.client
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode

for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")  # before numpy is imported

ROOT: Final = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks import common, telemetry_operator, telemetry_source  # noqa: E402 - a script's own folder, not the repository, is on the path
from e2e.cluster.control_plane import wait_until  # noqa: E402
from e2e.cluster.ports import free_ports  # noqa: E402
from hyperscale.control.cache.cluster_cache import ClusterCache  # noqa: E402
from hyperscale.model.api.policy import PolicySpec  # noqa: E402
from hyperscale.model.cluster import ClusterSnapshot, MetricsState  # noqa: E402
from hyperscale.model.metrics_reading import FIGURES, MetricsReading, Series  # noqa: E402
from hyperscale.observe.identity import NodeIndex  # noqa: E402
from hyperscale.observe.kube.fields import is_gpu_node  # noqa: E402
from hyperscale.observe.prometheus.incremental import IncrementalValidator  # noqa: E402
from hyperscale.observe.prometheus.reader import KEPT_LABELS, PrometheusReader  # noqa: E402
from hyperscale.observe.snapshot.build_snapshot import build_snapshot, warm  # noqa: E402

BENCHMARK: Final = "telemetry"
OURS: Final = "hyperscale"
PEER: Final = "all at once, all again"
NODES: Final = 5000
QUICK_NODES: Final = 500
COLD_LIMIT_SECONDS: Final = 5.0
STEP_LIMIT_SECONDS: Final = 0.5
STEPS: Final = 4
CHANGED: Final = f"{telemetry_source.CHANGING_PART:.0%} changed"
PATIENCE_SECONDS: Final = 60.0
POLICY: Final = PolicySpec(metrics_timeout_seconds=60)
"""The stand-in makes its answers while it is asked, which takes it longer than a Prometheus."""


def main() -> int:
    """Run the chosen parts."""
    parser = common.parser(__doc__ or "")
    parser.add_argument("--only", choices=("readings", "operator", "links", "series"), help="one part instead of all")
    parser.add_argument("--nodes", type=int, help=f"size of the cluster, {NODES} unless told, {QUICK_NODES} with --quick")
    arguments = parser.parse_args()
    nodes = arguments.nodes or (QUICK_NODES if arguments.quick else NODES)
    parts: dict[str, Callable[[], list[common.Row]]] = {
        "readings": lambda: readings(nodes),
        "operator": lambda: telemetry_operator.measure(nodes, arguments.quick),
        "links": lambda: _part("telemetry_links", ("estimates", "schedule"), arguments.quick),
        "series": lambda: _part("telemetry_series", ("series", "estimates"), arguments.quick),
    }
    rows = [row for name, part in parts.items() if arguments.only in (None, name) for row in part()]
    common.report(rows, arguments.json)
    return 0 if all(row.holds is not False for row in rows) else 1


def readings(nodes: int) -> list[common.Row]:
    """CPU seconds of this process, cold and then with 2 % of the GPUs changed at each scrape; then two cases that cost more."""
    world = ClusterCache()
    world.replace("Node", [telemetry_source.api_node(number) for number in range(nodes)])
    world.replace("Pod", [telemetry_source.api_pod(number) for number in range(0, nodes, 2)])
    moment = 1_800_000_000.0 // 15 * 15 + 14.5
    rows: list[common.Row] = []
    sent = [0.0]
    with _prometheus(nodes) as port:
        reader, judge = PrometheusReader(f"http://127.0.0.1:{port}"), IncrementalValidator()
        for step in range(STEPS):
            sent.append(_set_moment(port, moment))
            rows += _step(reader, judge, world, moment, "cold" if step == 0 else CHANGED, step)
            moment += telemetry_source.SCRAPE_SECONDS
        for mode, name in (("own times", f"{CHANGED}, each series asked for its time"), ("all change", "all changed")):
            sent.append(_set_moment(port, moment, mode))
            rows += _step(reader, judge, world, moment, name, 0)
            moment += telemetry_source.SCRAPE_SECONDS
        sent.append(_set_moment(port, moment))
    for name, size in (("cold", sent[2] - sent[1]), (CHANGED, sent[3] - sent[2])):
        rows.append(common.Row(BENCHMARK, name, OURS, "bytes read", size / 2**20, "MiB"))
    rows += _pod(world, moment)
    rows += _peer(nodes, world, moment - telemetry_source.SCRAPE_SECONDS)
    return rows + _goals_of_readings(f"{nodes} nodes x {telemetry_source.GPUS_PER_NODE} GPUs", rows)


def _goals_of_readings(case: str, rows: list[common.Row]) -> list[common.Row]:
    """Seconds from reading to snapshot: of the cold step, and the median of the later ones."""
    seconds: dict[tuple[str, int], float] = defaultdict(float)
    for row in rows:
        if row.method == OURS and row.metric in ("read", "judge", "snapshot"):
            seconds[row.case, row.seed] += row.value
    cold = sum(taken for (name, _), taken in seconds.items() if name == "cold")
    again = common.median([seconds[CHANGED, step] for step in range(1, STEPS)])
    return [
        common.goal(BENCHMARK, f"{case}: cold, read, judged and made a snapshot", OURS, cold, COLD_LIMIT_SECONDS, "CPU s"),
        common.goal(BENCHMARK, f"{case}: 2 % changed, the same", OURS, again, STEP_LIMIT_SECONDS, "CPU s"),
    ]


@contextlib.contextmanager
def _prometheus(nodes: int) -> Iterator[int]:
    """The stand-in in a process of its own: what it costs is not ours."""
    (port,) = free_ports(1)
    command = [sys.executable, str(ROOT / "benchmarks" / "telemetry_source.py"), "--nodes", str(nodes), "--port", str(port)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            wait_until(lambda: _answers(port), PATIENCE_SECONDS, "no Prometheus")
            yield port
        finally:
            process.terminate()


def _answers(port: int) -> bool:
    try:
        return _set_moment(port, 0.0) >= 0
    except OSError:
        return False


def _set_moment(port: int, moment: float, mode: str = "") -> float:
    """Bytes that the stand-in has sent so far. mode: see telemetry_source.Source."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request("GET", f"/moment?{urlencode({'time': moment, 'case': mode})}")
        return float(connection.getresponse().read())
    finally:
        connection.close()


def _step(
    reader: PrometheusReader, judge: IncrementalValidator, world: ClusterCache, moment: float, case: str, step: int
) -> list[common.Row]:
    gc.collect()
    began = time.process_time()
    reading = reader.read(POLICY, moment)
    read = time.process_time()
    nodes, pods = world.snapshots.names()
    figures = judge.figures(reading, NodeIndex(filter(is_gpu_node, nodes), pods), POLICY.limits)
    judged = time.process_time()
    world.snapshots.memory.see(nodes, pods)
    longest = 0.0
    ticking = time.perf_counter()
    for _ in warm(world.snapshots.memory, POLICY, figures, {}):
        longest, ticking = max(longest, time.perf_counter() - ticking), time.perf_counter()
    world.snapshots.memory.published, world.snapshots.reading = figures, reading
    snapshot = world.snapshot(POLICY, moment)
    done = time.process_time()
    _check(snapshot)
    named = {"read": read - began, "judge": judged - read, "snapshot": done - judged}
    rows = [common.Row(BENCHMARK, case, OURS, name, value, "CPU s", step) for name, value in named.items()]
    return [*rows, common.Row(BENCHMARK, f"{case}, event loop", OURS, "longest step", longest * 1e3, "ms", step)]


def _check(snapshot: ClusterSnapshot) -> None:
    """A figure of a snapshot that lacks something is worth nothing."""
    missing = [node.name for node in snapshot.nodes if len(node.gpus) != telemetry_source.GPUS_PER_NODE]
    if missing or not snapshot.metrics.available or not snapshot.links:
        raise AssertionError(f"{len(missing)} nodes lack GPUs: {snapshot.metrics}")


def _pod(world: ClusterCache, moment: float) -> list[common.Row]:
    """A snapshot after one pod came, in the event loop."""
    taken = []
    for number in range(1, 40, 2):
        world.see_pod(telemetry_source.api_pod(number))
        began = time.perf_counter()
        world.snapshot(POLICY, moment)
        taken.append((time.perf_counter() - began) * 1e3)
    return [common.Row(BENCHMARK, "one pod came", OURS, "snapshot", common.median(taken), "ms")]


def _peer(nodes: int, world: ClusterCache, moment: float) -> list[common.Row]:
    """The same without pieces, shared label sets and memory, and with the time of every series; what came over the network is a gift."""
    source = telemetry_source.Source(nodes)
    queries = {figure: getattr(POLICY.queries, figure) for figure in FIGURES}
    bodies = {
        figure: (source.body(query, moment), source.body(f"timestamp({query})", moment))
        for figure, query in queries.items()
        if query in (*telemetry_source.GPU_FIGURES, telemetry_source.LATENCY, telemetry_source.BANDWIDTH)
    }
    began = time.process_time()
    series: dict[str, tuple[Series, ...]] = {}
    longest = 0.0
    for figure, (values, stamps) in bodies.items():
        ticking = time.perf_counter()
        decoded = [json.loads(body)["data"]["result"] for body in (values, stamps)]
        longest = max(longest, time.perf_counter() - ticking)
        scraped = {_whole(entry): float(entry["value"][1]) for entry in decoded[1]}
        series[figure] = tuple(
            Series(
                {key: text for key, text in entry["metric"].items() if key in KEPT_LABELS}, float(entry["value"][1]), scraped[_whole(entry)]
            )
            for entry in decoded[0]
        )
    read = time.process_time()
    listed, pods = world.snapshots.names()
    snapshot = build_snapshot(listed, pods, MetricsReading(moment, MetricsState(True), series), POLICY, moment)
    done = time.process_time()
    _check(snapshot)
    return [
        common.Row(BENCHMARK, "every reading", PEER, "read", read - began, "CPU s"),
        common.Row(BENCHMARK, "every reading", PEER, "judge and snapshot", done - read, "CPU s"),
        common.Row(BENCHMARK, "every reading", PEER, "longest call that holds the interpreter", longest * 1e3, "ms"),
    ]


def _whole(entry: dict[str, Any]) -> frozenset[tuple[str, str]]:
    return frozenset((key, text) for key, text in entry["metric"].items() if key != "__name__")


def _part(module: str, parts: tuple[str, ...], quick: bool) -> list[common.Row]:
    """Parts of a file of its own, each in a process of its own."""
    rows: list[common.Row] = []
    for part in parts:
        with tempfile.TemporaryDirectory(prefix="hyperscale-bench-") as scratch:
            file = Path(scratch) / "rows.json"
            command = [sys.executable, "-m", f"benchmarks.{module}", "--only", part, "--json", str(file), *(["--quick"] if quick else [])]
            subprocess.run(command, cwd=ROOT, check=False, stdout=subprocess.DEVNULL)
            if file.exists():
                rows += [common.Row(**row) for row in json.loads(file.read_text())]
    return rows


if __name__ == "__main__":
    sys.exit(main())
