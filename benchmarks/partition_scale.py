"""10 M vertices and 100 M edges generated, cut into 8 parts and written to the store within 16 GiB. Time and memory: from 1 M edges up.

Run: nice python benchmarks/partition_scale.py [--quick] [--json FILE]     (--quick: up to 1 M edges)

Ours is the partition Job's own program, `python -m hyperscale.training.worker.prepare`, on R-MAT graphs (10 edges a vertex, as Graph500
draws them) with method Auto, in a process whose address space is limited to 16 GiB: it takes METIS where its estimate fits that, else
Fennel. The named phases are read (here: generate), cut and write. Peers, without a limit and without writing, up to 10 M edges:   METIS
pymetis as method METIS calls it: equal vertices   METIS, edges    pymetis with degrees as weights: equal edges, not equal vertices   Fennel
our streaming partitioner, where the program itself took METIS Edge imbalance is the largest part's edges over its share: what a GNN
computes on. Growth is the exponent b of a × edges^b in memory and CPU seconds of generating and cutting, by method; where the program took
another method at a size, the peer of that name stands for it.
"""

from __future__ import annotations

import json
import math
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")

ROOT: Final = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks import common  # noqa: E402 - a script's own folder, not the repository, is on the path

BENCHMARK: Final = "partition_scale"
OURS: Final = "hyperscale"
MILLION: Final = 1_000_000
SIZES: Final = (MILLION, 3 * MILLION, 10 * MILLION, 100 * MILLION)
QUICK: Final = (300_000, MILLION)
PEERS: Final = ("METIS", "METIS, edges", "Fennel")
PEER_EDGES: Final = 10 * MILLION
EDGES_A_VERTEX: Final = 10
PARTS: Final = 8
FEATURES: Final = 4
LIMIT_BYTES: Final = 16 * 2**30
CHILD_SECONDS: Final = 7200
PEER: Final = """
import json, resource, sys, time
import numpy as np
from hyperscale.training.data import edges_to_csr, generate
from hyperscale.training.partition import FENNEL, measure, split
from hyperscale.model.adjacency import Adjacency
name, edges, vertices, parts = sys.argv[1], *map(int, sys.argv[2:])
graph = Adjacency(*edges_to_csr.in_neighbours(vertices, *generate.rmat_edges(vertices, edges, 0), both_directions=True))
started, before = time.perf_counter(), time.process_time()
degrees = np.diff(graph.indptr)
shares = (1 / parts,) * parts
if name == FENNEL:
    found = split(graph, shares, FENNEL).assignment
else:
    from hyperscale.training.partition.metis import metis
    weighed = Adjacency(graph.indptr, graph.indices, degrees + 1) if name == "METIS, edges" else graph
    found = metis(weighed, np.full(parts, 1 / parts), seed=0)
wall, cpu = time.perf_counter() - started, time.process_time() - before
measures = measure(graph, found, shares)
print(json.dumps({
    "cutSeconds": wall, "cutCpuSeconds": cpu, "cpuSeconds": time.process_time(),
    "cutFraction": measures.cut_fraction, "largestHalo": measures.largest_halo,
    "imbalance": float(np.bincount(found, minlength=parts).max() * parts / vertices),
    "edgeImbalance": float(np.bincount(found, weights=degrees, minlength=parts).max() * parts / degrees.sum()),
    "peakBytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}))
"""


def main() -> int:
    """Measure, print, and fail where a goal is missed."""
    made = common.parser(__doc__ or "")
    made.add_argument("--largest", type=int, default=max(SIZES), metavar="EDGES", help="no graphs beyond (default: %(default)s)")
    arguments = made.parse_args()
    sizes = [size for size in (QUICK if arguments.quick else SIZES) if size <= arguments.largest]
    rows: list[common.Row] = []
    growth: Growth = {}
    peaks: dict[int, float] = {}
    for size in sizes:
        answer = prepared(size)
        if answer is None:
            rows.append(common.goal(BENCHMARK, _case(size), OURS, math.inf, LIMIT_BYTES / 2**30, "GiB"))
            continue
        peaks[size] = answer["peakBytes"]
        rows += size_rows(size, answer, growth)
    for name in sorted(growth):
        rows += growth_rows(name, growth[name])
    if peaks:
        largest = max(peaks)
        case = f"{_case(largest)}, peak memory"
        rows.append(common.goal(BENCHMARK, case, OURS, peaks[largest] / 2**30, LIMIT_BYTES / 2**30, "GiB"))
    common.report(rows, arguments.json)
    return 0 if all(row.holds is not False for row in rows) else 1


Growth = dict[str, dict[int, tuple[float, float]]]
"""CPU seconds and peak bytes by method and size."""


def size_rows(size: int, answer: dict[str, Any], growth: Growth) -> list[common.Row]:
    """Ours, then the peers where they can do the size; each adds its point to `growth`."""
    rows = list(_our_rows(size, answer))
    cpu = sum(answer["phaseCpuSeconds"][name] for name in ("read", "cut"))
    growth.setdefault(answer["method"], {})[size] = (cpu, answer["peakBytes"])
    if size > PEER_EDGES:
        return rows
    for name in PEERS:
        if name != answer["method"]:
            found = peer(name, size)
            rows += _peer_rows(size, name, found)
            growth.setdefault(name, {})[size] = (found["cpuSeconds"], found["peakBytes"])
    return rows


def prepared(edges: int) -> dict[str, Any] | None:
    """What the partition Job's program says of itself; None where it refuses or dies under the limit."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("HYPERSCALE_")},
            "HYPERSCALE_PARTITION_DIR": folder,
            "HYPERSCALE_MODEL": '{"architecture": "GraphSAGE"}',
            "HYPERSCALE_DATASET_SOURCE": "generated",
            "HYPERSCALE_DATASET_PATH": f"RMAT?vertices={edges // EDGES_A_VERTEX}&edges={2 * edges}&featureSize={FEATURES}&classes={PARTS}",
            "HYPERSCALE_WORKERS": str(PARTS),
            "HYPERSCALE_PARTITIONS": str(PARTS),
            "HYPERSCALE_SHARES": ",".join([str(1 / PARTS)] * PARTS),
            "HYPERSCALE_PARTITIONING_METHOD": "Auto",
            "HYPERSCALE_SEED": "0",
        }
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run(
            [sys.executable, "-m", "hyperscale.training.worker.prepare"],
            env=environment,
            stdout=subprocess.PIPE,
            timeout=CHILD_SECONDS,
            check=False,
            preexec_fn=_limit,
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        return None
    answer: dict[str, Any] = json.loads(done.stdout)
    answer["cpuSeconds"] = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return answer


def _limit() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (LIMIT_BYTES, LIMIT_BYTES))


def peer(name: str, edges: int) -> dict[str, Any]:
    """The same graph cut by a peer in a process of its own."""
    command = [sys.executable, "-c", PEER, name, str(edges), str(edges // EDGES_A_VERTEX), str(PARTS)]
    done = subprocess.run(command, stdout=subprocess.PIPE, timeout=CHILD_SECONDS, check=True)
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def _case(edges: int) -> str:
    return f"R-MAT {edges // EDGES_A_VERTEX / MILLION:g} M vertices, {edges / MILLION:g} M edges"


def _our_rows(size: int, answer: dict[str, Any]) -> list[common.Row]:
    method = f"{OURS}, {answer['method']}"
    figures = [
        ("distinct edges", answer["edges"] / 2, ""),
        *((f"{name}, wall", seconds, "s") for name, seconds in answer["phaseSeconds"].items()),
        *((f"{name}, CPU", seconds, "s") for name, seconds in answer["phaseCpuSeconds"].items()),
        ("whole program, wall", answer["seconds"], "s"),
        ("whole program, CPU", answer["cpuSeconds"], "s"),
        ("peak memory", answer["peakBytes"] / 2**30, "GiB"),
        ("files", answer["bytes"] / 2**30, "GiB"),
        *((name, value, "") for name, value in answer["measures"].items()),
    ]
    return [common.Row(BENCHMARK, _case(size), method, metric, float(value), unit) for metric, value, unit in figures]


def _peer_rows(size: int, name: str, answer: dict[str, Any]) -> list[common.Row]:
    figures = [
        ("cut, wall", answer["cutSeconds"], "s"),
        ("cut, CPU", answer["cutCpuSeconds"], "s"),
        ("peak memory, generating and cutting", answer["peakBytes"] / 2**30, "GiB"),
        *((metric, answer[metric], "") for metric in ("cutFraction", "imbalance", "edgeImbalance", "largestHalo")),
    ]
    return [common.Row(BENCHMARK, _case(size), f"peer: {name}", metric, float(value), unit) for metric, value, unit in figures]


def growth_rows(method: str, found: dict[int, tuple[float, float]]) -> list[common.Row]:
    """Least-squares exponents of CPU seconds and memory, (seconds, bytes) by edges, in logarithms."""
    if len(found) < 2:
        return []
    import numpy as np

    sizes = sorted(found)
    case = f"R-MAT, {sizes[0] / MILLION:g} M to {sizes[-1] / MILLION:g} M edges"
    made = []
    for at, figure in enumerate(("CPU", "peak memory")):
        slope = float(np.polyfit(np.log(sizes), np.log([found[size][at] for size in sizes]), 1)[0])
        made.append(common.Row(BENCHMARK, case, method, f"growth of {figure}, exponent of edges", slope, ""))
    return made


if __name__ == "__main__":
    sys.exit(main())
