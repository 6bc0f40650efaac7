"""What it costs to see 5,000 nodes with 8 GPUs each: 280,000 GPU series and 120,000 link series, each with the time of its scrape.

readings  in this process: answers of a Prometheus into series, series into figures, figures into a snapshot; cold, and with a part changed.
          Peer in the same run: every answer decoded at once and everything judged anew, as `hyperscale snapshot` would without a memory
operator  the real operator against a real API server with that many nodes and a server that answers as Prometheus does: memory,
          readiness, CPU, how late its event loop answers, and what it writes. Beside it, for the noise of the machine, a process that
          does nothing else than answer the same probe
links     benchmarks/telemetry_links.py: estimates of links that nobody measured, probes and bytes by cluster size

Example: python benchmarks/telemetry.py --only readings --json rows.json
"""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")  # before numpy is imported

ROOT: Final = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks import common, telemetry_operator, telemetry_source  # noqa: E402 - a script's own folder, not the repository, is on the path
from hyperscale.model.cluster import ClusterSnapshot, MetricsState  # noqa: E402
from hyperscale.model.metrics import FIGURES, MetricsReading, Series  # noqa: E402
from hyperscale.model.policy import PolicySpec  # noqa: E402
from hyperscale.observe import vector  # noqa: E402
from hyperscale.observe.identity import NodeIndex  # noqa: E402
from hyperscale.observe.incremental import Judge  # noqa: E402
from hyperscale.observe.kube import is_gpu_node  # noqa: E402
from hyperscale.observe.prometheus import KEPT_LABELS  # noqa: E402
from hyperscale.observe.snapshot import build_snapshot, warm  # noqa: E402
from hyperscale.observe.steady import History, advance  # noqa: E402
from hyperscale.world import World  # noqa: E402

BENCHMARK: Final = "telemetry"
OURS: Final = "hyperscale"
PEER: Final = "all at once, all anew"
NODES: Final = 5000
QUICK_NODES: Final = 500
COLD_LIMIT_SECONDS: Final = 5.0
STEP_LIMIT_SECONDS: Final = 0.5
STEPS: Final = 4
POLICY: Final = PolicySpec()


class Reader:
    """What PrometheusReader does between two answers, without the network."""

    def __init__(self, source: telemetry_source.Source) -> None:
        self._source = source
        self._sets = vector.LabelSets(KEPT_LABELS)
        self._history: History = {}

    def bodies(self, moment: float) -> dict[str, tuple[bytes, bytes]]:
        """By figure the answers to Q and timestamp(Q)."""
        queries = {figure: getattr(POLICY.queries, figure) for figure in FIGURES}
        return {
            figure: (self._source.body(query, moment), self._source.body(f"timestamp({query})", moment))
            for figure, query in queries.items()
            if query in (*telemetry_source.GPU_FIGURES, telemetry_source.LATENCY, telemetry_source.BANDWIDTH)
        }

    def read(self, bodies: dict[str, tuple[bytes, bytes]], moment: float) -> MetricsReading:
        """The reading, with what the past of every series says of it."""
        series: dict[str, tuple[Series, ...]] = {}
        for figure, (values, stamps) in bodies.items():
            scraped = {one.identity: one.value for one in vector.elements(stamps)}
            series[figure] = tuple(
                Series(self._sets.labels(one.identity), one.value, scraped.get(one.identity, one.evaluated))
                for one in vector.elements(values)
            )
        self._sets.sweep()
        reading, self._history = advance(self._history, MetricsReading(moment, MetricsState(True), series), POLICY.limits)
        return reading


def main() -> int:
    """Run the chosen parts."""
    parser = common.parser(__doc__ or "")
    parser.add_argument("--only", choices=("readings", "operator", "links"), help="one part instead of all")
    parser.add_argument("--nodes", type=int, help=f"size of the cluster, {NODES} unless told, {QUICK_NODES} with --quick")
    arguments = parser.parse_args()
    nodes = arguments.nodes or (QUICK_NODES if arguments.quick else NODES)
    parts: dict[str, Callable[[], list[common.Row]]] = {
        "readings": lambda: readings(nodes),
        "operator": lambda: telemetry_operator.measure(nodes, arguments.quick),
        "links": lambda: _links(arguments.quick),
    }
    rows = [row for name, part in parts.items() if arguments.only in (None, name) for row in part()]
    common.report(rows, arguments.json)
    return 0 if all(row.holds is not False for row in rows) else 1


def readings(nodes: int) -> list[common.Row]:
    """CPU seconds of every step, cold and then with 2 % of the GPUs changed at each scrape."""
    source = telemetry_source.Source(nodes)
    reader, judge, world = Reader(source), Judge(), World()
    world.replace("node", [telemetry_source.api_node(number) for number in range(nodes)])
    world.replace("pod", [telemetry_source.api_pod(number) for number in range(0, nodes, 2)])
    moment = 1_800_000_000.0 // 15 * 15 + 14.5
    rows: list[common.Row] = []
    for step in range(STEPS):
        bodies = reader.bodies(moment)
        rows += _step(reader, judge, world, bodies, moment, "cold" if step == 0 else f"{telemetry_source.CHANGING_PART:.0%} changed", step)
        if step == 0:
            size = sum(len(body) for pair in bodies.values() for body in pair)
            rows.append(common.Row(BENCHMARK, f"{nodes} nodes", OURS, "answers of one reading", size / 2**20, "MiB"))
        moment += telemetry_source.SCRAPE_SECONDS
    rows += _pod(world, moment)
    rows += _peer(bodies, world, moment)
    cold = sum(row.value for row in rows if row.case == "cold" and row.method == OURS)
    steps = [row for row in rows if row.case.endswith("changed") and row.method == OURS and row.metric in ("judge", "snapshot")]
    warm_seconds = common.median([sum(row.value for row in steps if row.seed == step) for step in range(1, STEPS)])
    case = f"{nodes} nodes x {telemetry_source.GPUS_PER_NODE} GPUs"
    rows.append(common.goal(BENCHMARK, f"{case}: cold, from answers to snapshot", OURS, cold, COLD_LIMIT_SECONDS, "CPU s"))
    rows.append(common.goal(BENCHMARK, f"{case}: judge and snapshot, 2 % changed", OURS, warm_seconds, STEP_LIMIT_SECONDS, "CPU s"))
    return rows


def _step(
    reader: Reader, judge: Judge, world: World, bodies: dict[str, tuple[bytes, bytes]], moment: float, case: str, step: int
) -> list[common.Row]:
    gc.collect()
    began = time.process_time()
    reading = reader.read(bodies, moment)
    read = time.process_time()
    nodes, pods = world.names()
    figures = judge.figures(reading, NodeIndex(filter(is_gpu_node, nodes), pods), POLICY.limits)
    judged = time.process_time()
    longest = 0.0
    ticking = time.perf_counter()
    for _ in warm(world.memory, POLICY, figures, {}):
        longest, ticking = max(longest, time.perf_counter() - ticking), time.perf_counter()
    world.memory.published, world.reading = figures, reading
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


def _pod(world: World, moment: float) -> list[common.Row]:
    """A snapshot after one pod came, in the event loop."""
    taken = []
    for number in range(1, 40, 2):
        world.see_pod(telemetry_source.api_pod(number))
        began = time.perf_counter()
        world.snapshot(POLICY, moment)
        taken.append((time.perf_counter() - began) * 1e3)
    return [common.Row(BENCHMARK, "one pod came", OURS, "snapshot", common.median(taken), "ms")]


def _peer(bodies: dict[str, tuple[bytes, bytes]], world: World, moment: float) -> list[common.Row]:
    """The same without pieces, shared label sets and memory."""
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
    nodes, pods = world.names()
    snapshot = build_snapshot(nodes, pods, MetricsReading(moment, MetricsState(True), series), POLICY, moment)
    done = time.process_time()
    _check(snapshot)
    return [
        common.Row(BENCHMARK, "every reading", PEER, "read", read - began, "CPU s"),
        common.Row(BENCHMARK, "every reading", PEER, "judge and snapshot", done - read, "CPU s"),
        common.Row(BENCHMARK, "every reading", PEER, "longest call that holds the interpreter", longest * 1e3, "ms"),
    ]


def _whole(entry: dict[str, Any]) -> frozenset[tuple[str, str]]:
    return frozenset((key, text) for key, text in entry["metric"].items() if key != "__name__")


def _links(quick: bool) -> list[common.Row]:
    """The part of its own file, in a process of its own: it asks for root, which this part does not use."""
    rows: list[common.Row] = []
    for part in ("estimates", "schedule"):
        with tempfile.TemporaryDirectory(prefix="hyperscale-bench-") as scratch:
            file = Path(scratch) / "rows.json"
            command = [
                sys.executable,
                "-m",
                "benchmarks.telemetry_links",
                "--only",
                part,
                "--json",
                str(file),
                *(["--quick"] if quick else []),
            ]
            subprocess.run(command, cwd=ROOT, check=False, stdout=subprocess.DEVNULL)
            if file.exists():
                rows += [common.Row(**row) for row in json.loads(file.read_text())]
    return rows


if __name__ == "__main__":
    sys.exit(main())
