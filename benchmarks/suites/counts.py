"""Worker count of one job alone: what the planner chooses against every count, each searched long."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from benchmarks.common import Row, goal
from benchmarks.dumps import dump
from benchmarks.families import NAMES, Instance, instance
from benchmarks.methods import OURS, planned
from benchmarks.peers.placement.search import GREEDY, long_search
from benchmarks.suites import Options
from hyperscale.model.graph import IntArray
from hyperscale.planner.cost.objective import Costs, objectives
from hyperscale.planner.search.ring import ring_order

BENCHMARK: Final = "counts"
NODES: Final = 32
MOST_WORKERS: Final = 12
DRAWN_FOR: Final = (2, 6, 12)
"""Worker counts for which the volumes are balanced: jobs that want few, some and many workers."""
"""Partitions a worker that are tried."""
LIMIT: Final = 1.01
LONG_SECONDS: Final = 0.5
QUICK_LONG_SECONDS: Final = 0.02


@dataclass(frozen=True)
class Sized:
    """An instance with one worker count."""

    whole: Instance
    costs: Costs
    workers: int

    @property
    def slots(self) -> IntArray:
        """(m,) workers that each candidate can take."""
        return self.whole.slots


def run(options: Options) -> list[Row]:
    """Rows by family; the goal is about the worst case."""
    seeds = range(1 if options.quick else 2 * len(options.seeds))
    rows: list[Row] = []
    for family in NAMES:
        for drawn in DRAWN_FOR[1:2] if options.quick else DRAWN_FOR:
            for seed in seeds:
                rows += _case(family, drawn, seed, options)
    worst = max(row.value for row in rows if row.metric == "ours / exhaustive choice")
    return [*rows, goal(BENCHMARK, "ours / exhaustive choice, worst case", OURS, worst, LIMIT, "ratio")]


def _case(family: str, drawn: int, seed: int, options: Options) -> list[Row]:
    case = instance(family, NODES, drawn, seed, counts=(1, MOST_WORKERS))
    answer = planned(case)
    dump(options, replace(case, case=f"counts {case.case}"), OURS, answer.order)
    seconds = QUICK_LONG_SECONDS if options.quick else LONG_SECONDS
    by_count = {workers: _best(case, workers, seed, seconds) for workers in range(1, MOST_WORKERS + 1)}
    workers, best = min(by_count.items(), key=lambda entry: (entry[1], entry[0]))
    chosen = len(answer.plan.workers)
    name = f"{family}, volumes for {drawn} workers"
    return [
        Row(BENCHMARK, name, OURS, "ours / exhaustive choice", answer.plan.objective / best, "ratio", seed),
        Row(BENCHMARK, name, OURS, "workers chosen", float(chosen), "workers", seed),
        Row(BENCHMARK, name, "exhaustive choice", "workers chosen", float(workers), "workers", seed),
        Row(BENCHMARK, name, OURS, "another count than the exhaustive choice", float(chosen != workers), "part", seed),
        Row(BENCHMARK, name, OURS, "worst count / ours", max(by_count.values()) / answer.plan.objective, "ratio", seed),
        Row(BENCHMARK, name, OURS, "plan", answer.seconds * 1e3, "ms", seed),
    ]


def _best(case: Instance, workers: int, seed: int, seconds: float) -> float:
    """Lowest objective of one count after a long search; +inf where it has none."""
    costs = case.costs
    if workers == 1:
        return float(objectives(costs, np.flatnonzero(case.slots > 0)[:, None]).min())
    sized = Sized(case, costs, workers)
    found = [peer(sized, seed) for peer in GREEDY.values()]
    order = long_search(sized, seed, seconds, found)
    repaired = ring_order(costs, order, np.zeros(workers, dtype=np.bool_))
    return float(objectives(costs, np.stack((order, repaired))).min())
