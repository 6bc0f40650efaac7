"""The learned constructor, one pass, on clusters that no training has seen: against greedy, and against search in equal time."""

from __future__ import annotations

import time
from itertools import product
from typing import Final, NamedTuple

import numpy as np
from scipy.stats import wilcoxon

from benchmarks.common import Row, goal, percentile
from benchmarks.families import NAMES, Instance, instance
from benchmarks.peers.placement.search import annealing, greedy_every, greedy_fastest, greedy_near
from benchmarks.suites import Options
from hyperscale.model.graph import IntArray
from hyperscale.planner.learned.learned_features import View
from hyperscale.planner.learned.learned_network import ConstructorNetwork
from hyperscale.planner.learned.learned_state import ConstructorState, Surroundings
from hyperscale.planner.learned.learned_weights import shipped
from hyperscale.planner.search.kernels import kernel

BENCHMARK: Final = "constructor"
SHAPES: Final = ((32, 8), (47, 8), (64, 12), (128, 16))
"""Nodes and workers."""
DECIDING: Final = 64
"""Largest cluster that the goals are about."""
FIRST_SEED: Final = 40_000
CASES: Final = {32: 60, 47: 60, 64: 40, 128: 20}
"""Per family."""
QUICK_CASES: Final = 6
OURS: Final = "constructor, one pass"
FASTEST: Final = "greedy, fastest node"
NEAREST: Final = "greedy, best neighbourhood"
EVERY: Final = "greedy, every node"
PILOT: Final = "completed sets without a network"
SEARCH: Final = "greedy from every node, the best 16 polished"
ANNEALING: Final = "annealing, equal time"
PEERS: Final = (FASTEST, NEAREST, EVERY, PILOT, SEARCH, ANNEALING)
POLISHED: Final = 16
COMPLETED: Final = 16
"""Step feature: the objective when the cheapest workers follow."""


class Case(NamedTuple):
    """One instance answered by all."""

    nodes: int
    family: str
    seed: int
    cost: dict[str, float]
    """Objective by method."""
    seconds: dict[str, float]
    """Wall time of the constructor and of search."""


def run(options: Options) -> list[Row]:
    """Ratios of cost by size and family, the place against search, time, and the goals."""
    network = shipped()
    one_pass(network, instance(NAMES[0], 32, 8, FIRST_SEED - 1))
    cases = [
        _case(network, family, nodes, workers, FIRST_SEED + at, options)
        for (nodes, workers), family in product(SHAPES, NAMES)
        for at in range(QUICK_CASES if options.quick else CASES[nodes])
    ]
    rows = _stuck(cases)
    cases = [case for case in cases if np.isfinite(case.cost[OURS])]
    for nodes, _ in SHAPES:
        rows += _of_size(nodes, [case for case in cases if case.nodes == nodes])
    return rows + _goals([case for case in cases if case.nodes <= DECIDING])


def _of_size(nodes: int, cases: list[Case]) -> list[Row]:
    """Ratios of each family, of all families, and the times."""
    rows: list[Row] = []
    for family in NAMES:
        rows += _ratios(f"n={nodes}, {family}", [case for case in cases if case.family == family], (FASTEST, NEAREST, EVERY, SEARCH))
    return rows + _ratios(f"n={nodes}", cases, PEERS) + _times(f"n={nodes}", cases)


def one_pass(network: ConstructorNetwork, case: Instance) -> IntArray | None:
    """One decode, features included; (k,) candidates, None where it gets stuck."""
    return network.construct(View(Surroundings(case.costs, case.slots, case.workers)), np.zeros(0, dtype=np.int64))


def without_network(case: Instance) -> IntArray | None:
    """The strongest single feature as a rule: always the candidate whose completion by the cheapest workers costs least."""
    around = Surroundings(case.costs, case.slots, case.workers)
    view, state = View(around), ConstructorState(around, np.zeros((1, 0), dtype=np.int64))
    while state.size < case.workers:
        features, feasible = view.step(state)
        if not feasible.any():
            return None
        state.add(np.argmin(np.where(feasible, features[:, :, COMPLETED], np.inf), axis=1))
    found: IntArray = state.chosen[0]
    return found


def _case(network: ConstructorNetwork, family: str, nodes: int, workers: int, seed: int, options: Options) -> Case:
    """All methods on one instance; every placement gets the same ring repair and the same score."""
    case = instance(family, nodes, workers, seed)
    started = time.perf_counter()
    ours = one_pass(network, case)
    spent = time.perf_counter() - started
    started = time.perf_counter()
    grown = kernel.greedy_all(case.costs, case.slots, case.workers)
    best = np.argsort(kernel.objectives(case.costs, kernel.rings(case.costs, grown)), kind="stable")[:POLISHED]
    searched, objective = kernel.local_search(case.costs, case.slots, grown[best])
    search_spent = time.perf_counter() - started
    answers = {
        OURS: ours,
        FASTEST: greedy_fastest(case, seed),
        NEAREST: greedy_near(case, seed),
        EVERY: greedy_every(case, seed),
        PILOT: without_network(case),
        SEARCH: searched[int(np.argmin(objective))] if len(searched) else None,
        ANNEALING: annealing(case, seed, spent),
    }
    for method, order in answers.items():
        if order is not None:
            options.dump_assignment(f"{case.case} seed {seed}", method, {"job": case.names(order)})
    cost = {method: float("inf") if order is None else case.score(order)[0] for method, order in answers.items()}
    return Case(nodes, family, seed, cost, {OURS: spent, SEARCH: search_spent})


def _ratios(name: str, cases: list[Case], peers: tuple[str, ...]) -> list[Row]:
    """Cost of the constructor over that of each peer, case by case, and the part of the cases that it wins or loses."""
    rows: list[Row] = []
    for peer in peers:
        pairs = [(case.cost[OURS] / case.cost[peer], case.seed) for case in cases if np.isfinite(case.cost[peer])]
        rows += [Row(BENCHMARK, name, peer, "constructor's cost over it", ratio, "", seed) for ratio, seed in pairs]
        ratios = np.array([ratio for ratio, _ in pairs])
        if len(ratios) and "," not in name:
            rows.append(Row(BENCHMARK, name, peer, "constructor wins", 100.0 * float((ratios < 1.0 - 1e-9).mean()), "%"))
            rows.append(Row(BENCHMARK, name, peer, "constructor loses", 100.0 * float((ratios > 1.0 + 1e-9).mean()), "%"))
            rows.append(Row(BENCHMARK, name, peer, "p that it is no better", _p(ratios), ""))
    return rows


def _stuck(cases: list[Case]) -> list[Row]:
    """Cases in which a method ends among nodes that cannot talk to each other; the ratios leave them out."""
    rows: list[Row] = []
    for nodes, _ in SHAPES:
        same = [case for case in cases if case.nodes == nodes]
        for method in (OURS, *PEERS):
            lost = sum(not np.isfinite(case.cost[method]) for case in same)
            rows.append(Row(BENCHMARK, f"n={nodes}", method, f"found nothing, of {len(same)}", float(lost), "cases"))
    return rows


def _times(name: str, cases: list[Case]) -> list[Row]:
    return [
        Row(BENCHMARK, name, method, "time", case.seconds[method] * 1e3, "ms", case.seed) for method in (OURS, SEARCH) for case in cases
    ]


def _goals(cases: list[Case]) -> list[Row]:
    """Arithmetic means of the ratios, which one bad case moves more than a geometric mean."""
    rows: list[Row] = []
    for peer, limit in ((FASTEST, 0.93), (NEAREST, 0.99)):
        ratios = np.array([case.cost[OURS] / case.cost[peer] for case in cases if np.isfinite(case.cost[peer])])
        rows.append(goal(BENCHMARK, f"mean cost over {peer}, n ≤ {DECIDING}", OURS, float(ratios.mean()), limit, ""))
        rows.append(goal(BENCHMARK, f"p (paired Wilcoxon) against {peer}, n ≤ {DECIDING}", OURS, _p(ratios), 0.001, ""))
    seconds = [case.seconds[OURS] for case in cases]
    rows.append(goal(BENCHMARK, f"p95 of a pass, n ≤ {DECIDING}", OURS, percentile(seconds, 0.95) * 1e3, 20.0, "ms"))
    return rows


def _p(ratios: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> float:
    """One-sided paired Wilcoxon signed-rank test on the logarithms: how likely so good a result is if it were no better."""
    logs = np.log(ratios)
    return 1.0 if not np.any(np.abs(logs) > 1e-12) else float(wilcoxon(logs, alternative="less").pvalue)
