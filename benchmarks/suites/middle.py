"""64 and 128 nodes: how far a plan of 50 ms is from the best known, and what other searches do with the same time."""

from __future__ import annotations

import math
from typing import Final

from benchmarks.common import Row, goal, median
from benchmarks.dumps import dump
from benchmarks.families import NAMES, Instance, instance, label
from benchmarks.methods import OURS, planned
from benchmarks.peers.placement.schedulers import SCHEDULERS
from benchmarks.peers.placement.search import GREEDY, TIMED, long_search
from benchmarks.suites import Options
from hyperscale.model.graph import IntArray

BENCHMARK: Final = "middle"
SIZES: Final = ((64, 12), (128, 16))
DEADLINE_SECONDS: Final = 0.05
SEARCH_PART: Final = 0.8
"""Part of the deadline for the search itself, as in the planner process; the rest is for check and reasons."""
GAP_LIMIT_PERCENT: Final = 0.3
RATIO_LIMIT: Final = 1.0
LOSS: Final = 1e-6
"""A smaller difference is the rounding of a plan's figures."""
LONG_SECONDS: Final = 5.0
QUICK_LONG_SECONDS: Final = 0.3
SEEDS_EACH: Final = 4
"""Cases of a family and size for every seed asked for; odd ones balance Equal."""


def run(options: Options) -> list[Row]:
    """Rows by size and family, goals over all families of a size."""
    planned(instance(NAMES[0], 12, 3, 10_000))
    count = 1 if options.quick else SEEDS_EACH * len(options.seeds)
    return [row for nodes, workers in SIZES for row in _size(nodes, workers, count, options)]


def _size(nodes: int, workers: int, count: int, options: Options) -> list[Row]:
    rows: list[Row] = []
    for family in NAMES:
        for seed in range(count):
            rows += compare(instance(family, nodes, workers, seed), f"n={nodes}", label(family, nodes), options, BENCHMARK)
    return rows + losses(rows, f"n={nodes}", BENCHMARK) + _goals(f"n={nodes}", rows)


def compare(case: Instance, size: str, family: str, options: Options, benchmark: str) -> list[Row]:
    """One case: our plan, every peer, the long search; gaps to the best of all by family, our ratio to every peer over all families."""
    answer = planned(case, SEARCH_PART * DEADLINE_SECONDS)
    orders: dict[str, IntArray] = {OURS: answer.order}
    orders |= {method: peer(case, case.seed) for method, peer in {**SCHEDULERS, **GREEDY}.items()}
    orders |= {method: search(case, case.seed, DEADLINE_SECONDS) for method, search in TIMED.items()}
    costs = scored(case, orders, options)
    workable = [orders[method] for method, cost in costs.items() if math.isfinite(cost)]
    searched = long_search(case, case.seed, QUICK_LONG_SECONDS if options.quick else LONG_SECONDS, workable)
    best = min(*costs.values(), case.score(searched)[0])
    name = f"{size}, {family}"
    rows = [
        Row(benchmark, name, OURS, "plan", answer.seconds * 1e3, "ms", case.seed),
        Row(benchmark, name, OURS, "plan, processor time", answer.cpu_seconds * 1e3, "ms", case.seed),
    ]
    above = {method: 100.0 * (costs[method] / best - 1.0) for method in (OURS, *TIMED)}
    rows += [Row(benchmark, name, method, "above best known", percent, "%", case.seed) for method, percent in above.items()]
    if answer.plan.optimality_gap is not None:
        rows.append(Row(benchmark, name, OURS, "proven gap", 100.0 * answer.gap, "%", case.seed))
    return rows + to_peers(f"{size}, all families", costs, case.seed, benchmark)


def scored(case: Instance, orders: dict[str, IntArray], options: Options) -> dict[str, float]:
    """The cost of every method's order; the assignments are dumped where that is asked for."""
    costs = {}
    for method, order in orders.items():
        costs[method], repaired = case.score(order)
        dump(options, case, method, repaired)
    return costs


def to_peers(case: str, costs: dict[str, float], seed: int, benchmark: str) -> list[Row]:
    """Our cost over every peer's; the ratio is 0 where the peer found nothing that fits."""
    ratios = {method: costs[OURS] / cost for method, cost in costs.items() if method != OURS}
    rows = [Row(benchmark, case, method, "ours / peer", ratio, "ratio", seed) for method, ratio in ratios.items() if ratio > 0]
    nothing = [method for method, ratio in ratios.items() if not ratio]
    return rows + [Row(benchmark, case, method, "found nothing workable", 1.0, "cases", seed) for method in nothing]


def losses(rows: list[Row], name: str, benchmark: str) -> list[Row]:
    """How often each peer was better, and by how much at most; peers that never were are left out."""
    found: list[Row] = []
    for method in dict.fromkeys(row.method for row in rows if row.metric == "ours / peer"):
        ratios = [row.value for row in rows if row.metric == "ours / peer" and row.method == method]
        lost = [ratio for ratio in ratios if ratio > 1.0 + LOSS]
        if lost:
            found.append(Row(benchmark, f"{name}, losses", method, f"it was better, of {len(ratios)}", float(len(lost)), "cases"))
            found.append(Row(benchmark, f"{name}, losses", method, "worst loss", 100.0 * (max(lost) - 1.0), "%"))
    return found


def _goals(name: str, rows: list[Row]) -> list[Row]:
    gaps = [row.value for row in rows if row.metric == "above best known" and row.method == OURS]
    times = [row.value for row in rows if row.metric == "plan"]
    found = [
        goal(BENCHMARK, f"{name}: mean gap to the best known", OURS, sum(gaps) / len(gaps), GAP_LIMIT_PERCENT, "%"),
        goal(BENCHMARK, f"{name}: median time of these plans", OURS, median(times), DEADLINE_SECONDS * 1e3, "ms"),
    ]
    for method in TIMED:
        ratios = [row.value for row in rows if row.metric == "ours / peer" and row.method == method]
        found.append(goal(BENCHMARK, f"{name}: ours / {method} in equal time, mean", OURS, sum(ratios) / len(ratios), RATIO_LIMIT, "ratio"))
    return found
