"""Every method on a cluster given by --topology: a snapshot JSON, a folder with Hulk's two files, or a matrix file."""

from __future__ import annotations

import math
from typing import Final

from benchmarks.common import Row
from benchmarks.dumps import dump
from benchmarks.families import Instance, placed
from benchmarks.methods import OURS, planned
from benchmarks.peers.placement.schedulers import SCHEDULERS
from benchmarks.peers.placement.search import GREEDY, TIMED, long_search
from benchmarks.peers.placement.wide import wide_search
from benchmarks.suites import Options
from hyperscale.model.api.job import Balance
from hyperscale.model.cluster import ClusterSnapshot
from hyperscale.model.graph import IntArray
from hyperscale.observe.files.snapshot_files import read_snapshot

BENCHMARK: Final = "topology"
WORKERS: Final = (2, 4, 8, 16, 32)
DEADLINE_SECONDS: Final = 0.05
CLOSE_NODES: Final = 512
"""Larger clusters get the schedulers and a wide search only."""
LONG_SECONDS: Final = 10.0
QUICK_LONG_SECONDS: Final = 1.0


def run(options: Options) -> list[Row]:
    """Objective of every method and its ratio to the best of all, for the worker counts that the cluster can host."""
    if options.topology is None:
        return [Row(BENCHMARK, "whole suite", OURS, "skipped: give --topology FILE", 1.0, "")]
    snapshot = read_snapshot(options.topology)
    rows: list[Row] = []
    for workers in WORKERS:
        for seed in options.seeds[:1] if options.quick else options.seeds:
            rows += _rows(options, snapshot, workers, seed)
    return rows or [Row(BENCHMARK, options.topology.name, OURS, f"skipped: no room for {WORKERS[0]} workers", 1.0, "")]


def _rows(options: Options, snapshot: ClusterSnapshot, workers: int, seed: int) -> list[Row]:
    name = options.topology.name if options.topology else ""
    balance = Balance.EQUAL if seed % 2 else Balance.CAPACITY
    if sum(node.free_gpus for node in snapshot.nodes) < workers or len(snapshot.nodes) < 2:
        return []
    case = placed(f"{name}, {len(snapshot.nodes)} nodes, {workers} workers", snapshot, workers, seed, 1, balance, memory_free=True)
    try:
        answer = planned(case)
    except ValueError as error:
        return [Row(BENCHMARK, case.case, OURS, f"no plan: {error.args[-1]}", 1.0, "", seed)]
    costs, orders = _answers(case, answer.order, seed, options)
    best = min(costs.values())
    rows = [
        Row(BENCHMARK, case.case, OURS, "plan", answer.seconds * 1e3, "ms", seed),
        Row(BENCHMARK, case.case, OURS, "plan, processor time", answer.cpu_seconds * 1e3, "ms", seed),
    ]
    if math.isfinite(answer.gap):
        rows.append(Row(BENCHMARK, case.case, OURS, "proven gap", 100.0 * answer.gap, "%", seed))
    for method, cost in costs.items():
        dump(options, case, method, orders[method])
        if math.isfinite(cost):
            rows.append(Row(BENCHMARK, case.case, method, "objective", cost, "s", seed))
            rows.append(Row(BENCHMARK, case.case, method, "above best known", 100.0 * (cost / best - 1.0), "%", seed))
        else:
            rows.append(Row(BENCHMARK, case.case, method, "found nothing workable", 1.0, "cases", seed))
    return rows


def _answers(case: Instance, ours: IntArray, seed: int, options: Options) -> tuple[dict[str, float], dict[str, IntArray]]:
    """Objective and repaired order by method; the long search starts from all of them."""
    found = {OURS: ours} | {method: peer(case, seed) for method, peer in SCHEDULERS.items()}
    close = len(case.slots) <= CLOSE_NODES
    if close:
        found |= {method: peer(case, seed) for method, peer in GREEDY.items()}
        found |= {method: search(case, seed, DEADLINE_SECONDS) for method, search in TIMED.items()}
    scored = {method: case.score(order) for method, order in found.items()}
    known = [order for cost, order in scored.values() if math.isfinite(cost)]
    seconds = QUICK_LONG_SECONDS if options.quick else LONG_SECONDS
    search = long_search if close else wide_search
    scored[f"long search, {seconds:.0f} s"] = case.score(search(case, seed, seconds, known))
    return {method: cost for method, (cost, _) in scored.items()}, {method: order for method, (_, order) in scored.items()}
