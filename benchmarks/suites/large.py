"""Clusters of production size: seconds a plan, against label tiers, against a long search, and how time grows with nodes."""

from __future__ import annotations

import math
import time
from itertools import pairwise
from typing import Final

from benchmarks.clusters import Cluster, generated, lingjun, openb
from benchmarks.common import Row, goal, median
from benchmarks.dumps import dump
from benchmarks.families import POLICY, placed
from benchmarks.methods import OURS, planned
from benchmarks.peers.placement.schedulers import LABEL_TIERS, SCHEDULERS
from benchmarks.peers.placement.wide import wide_search
from benchmarks.suites import Options
from hyperscale.model.api.job import Balance
from hyperscale.model.graph import ClusterGraph
from hyperscale.planner.graph.cluster_graph import build

BENCHMARK: Final = "large"
WORKERS: Final = (8, 32)
SIZES: Final = (50, 100, 200, 500, 1000, 2000, 5000)
LONG_SECONDS: Final = 60.0
QUICK_LONG_SECONDS: Final = 1.0
ABOVE_LIMIT_PERCENT: Final = 1.0
LONG: Final = "long search"


def run(options: Options) -> list[Row]:
    """Rows by cluster and worker count, goals by cluster, growth."""
    seeds = options.seeds[:1] if options.quick else options.seeds[:2]
    rows: list[Row] = []
    for seed in seeds:
        clusters = [cluster for cluster in (openb(seed), lingjun(seed), generated(SIZES[-1], seed)) if cluster is not None]
        for cluster in clusters:
            graph, building, processing = _built(cluster)
            for workers in WORKERS[:1] if options.quick and len(cluster.snapshot.nodes) == SIZES[-1] else WORKERS:
                rows += _case(cluster, graph, (building, processing), workers, seed, options)
    if openb(0) is None or lingjun(0) is None:
        rows.append(Row(BENCHMARK, "openb, lingjun", OURS, "skipped: ../shared/data lacks them", 1.0, ""))
    return rows + _goals(rows) + _growth(options)


def _built(cluster: Cluster) -> tuple[ClusterGraph, float, float]:
    """The graph of the snapshot, and the seconds that it takes: of the clock, and of the processor."""
    started, processor = time.perf_counter(), time.process_time()
    return build(cluster.snapshot, POLICY), time.perf_counter() - started, time.process_time() - processor


def _case(cluster: Cluster, graph: ClusterGraph, building: tuple[float, float], workers: int, seed: int, options: Options) -> list[Row]:
    balance = Balance.EQUAL if seed % 2 else Balance.CAPACITY
    case = placed(f"{cluster.name}, k={workers}", graph, workers, seed, cluster.gpus_per_worker, balance)
    answer = planned(case)
    name = case.case
    rows = [
        Row(BENCHMARK, name, OURS, "graph of the snapshot", building[0], "s", seed),
        Row(BENCHMARK, name, OURS, "plan", answer.seconds, "s", seed),
        Row(BENCHMARK, name, OURS, "plan, processor time", answer.cpu_seconds, "s", seed),
        Row(BENCHMARK, name, OURS, "snapshot to plan", building[0] + answer.seconds, "s", seed, limit=cluster.limit_seconds),
        Row(BENCHMARK, name, OURS, "snapshot to plan, processor time", building[1] + answer.cpu_seconds, "s", seed),
    ]
    ours, repaired = case.score(answer.order)
    dump(options, case, OURS, repaired)
    known = [repaired]
    for method, peer in SCHEDULERS.items():
        cost, order = case.score(peer(case, seed))
        dump(options, case, method, order)
        if math.isfinite(cost):
            known.append(order)
            rows.append(Row(BENCHMARK, name, method, "ours / peer", ours / cost, "ratio", seed))
        else:
            rows.append(Row(BENCHMARK, name, method, "found nothing workable", 1.0, "cases", seed))
    seconds = QUICK_LONG_SECONDS if options.quick else LONG_SECONDS
    best, order = case.score(wide_search(case, seed, seconds, known))
    dump(options, case, LONG, order)
    rows.append(Row(BENCHMARK, name, f"{LONG}, {seconds:.0f} s", "ours above it", 100.0 * (ours / best - 1.0), "%", seed))
    return rows


def _goals(rows: list[Row]) -> list[Row]:
    found: list[Row] = []
    for cluster in dict.fromkeys(row.case.rpartition(",")[0] for row in rows if row.metric == "snapshot to plan"):
        here = [row for row in rows if row.case.startswith(cluster)]
        limit = next(row.limit for row in here if row.metric == "snapshot to plan") or 0.0
        ratio = _largest("ours / peer", [row for row in here if row.method in LABEL_TIERS])
        found += [
            goal(BENCHMARK, f"{cluster}: slowest plan, graph included", OURS, _largest("snapshot to plan", here), limit, "s"),
            goal(BENCHMARK, f"{cluster}: ours / best label tiers, worst case", OURS, ratio, 1.0, "ratio"),
            goal(BENCHMARK, f"{cluster}: above a long search, worst case", OURS, _largest("ours above it", here), ABOVE_LIMIT_PERCENT, "%"),
        ]
    return found


def _largest(metric: str, rows: list[Row]) -> float:
    return max(row.value for row in rows if row.metric == metric)


def _growth(options: Options) -> list[Row]:
    """Medians over seeds of 8 workers, and the exponent between neighbouring sizes."""
    medians: dict[int, float] = {}
    rows: list[Row] = []
    sizes = SIZES[:-1] if options.quick else SIZES
    for size in sizes:
        times = []
        for seed in options.seeds[:1] if options.quick else options.seeds:
            cluster = generated(size, seed + 10)
            graph, building, _ = _built(cluster)
            times.append(building + planned(placed(cluster.name, graph, WORKERS[0], seed, cluster.gpus_per_worker)).seconds)
            rows.append(Row(BENCHMARK, f"growth, {size:,} nodes", OURS, "snapshot to plan", times[-1], "s", seed))
        medians[size] = median(times)
    for low, high in [*pairwise(sizes), (sizes[0], sizes[-1])]:
        exponent = math.log(medians[high] / medians[low]) / math.log(high / low)
        rows.append(Row(BENCHMARK, f"growth, {low:,} to {high:,} nodes", OURS, "exponent of n", exponent, ""))
    return rows
