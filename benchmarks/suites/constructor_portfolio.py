"""The portfolio with and without the learned constructor at equal processor time, 32 to 5,000 nodes.

Two rules. Complete: search runs to its end and the constructor after it, against search that spends the constructor's time on further
walks by segments from its best placement, with other seeds. Short: the constructor first and search in what is left of 50 ms, against
search alone for the same time. Processor time is counted, so that other programs of the machine decide nothing.
"""

from __future__ import annotations

import dataclasses
import gc
import math
import time
from collections.abc import Callable
from itertools import product
from typing import Final, NamedTuple

import numpy as np
from msgspec.structs import replace
from scipy.stats import wilcoxon

from benchmarks.common import Row, goal
from benchmarks.families import NAMES, POLICY, Instance, job_spec, label, placed, snapshot_of
from benchmarks.suites import Options
from hyperscale.learn.topologies import GPUS_PER_WORKER, Topology, generate
from hyperscale.model.api.job import Balance, PlannerChoice
from hyperscale.model.cluster import AbsentLink
from hyperscale.model.graph import ClusterGraph, MeasuredLinks
from hyperscale.model.plan import Infeasible
from hyperscale.planner.choice.portfolio import make_plan
from hyperscale.planner.graph.cluster_graph import build
from hyperscale.planner.learned.learned_network import ConstructorNetwork
from hyperscale.planner.learned.learned_planner import Learned
from hyperscale.planner.learned.learned_weights import shipped
from hyperscale.planner.problem.placement_problem import Problem
from hyperscale.planner.search.heuristic import Heuristic
from hyperscale.planner.search.improve import THOROUGH, walked
from hyperscale.planner.search.pools import Pools
from hyperscale.planner.search.search_result import Candidate

BENCHMARK: Final = "constructor_portfolio"
SHAPES: Final = ((32, 8), (128, 16), (1000, 16), (5000, 16))
"""Nodes and workers."""
CASES: Final = {32: 12, 128: 12, 1000: 6, 5000: 4}
"""Per family."""
QUICK_CASES: Final = {32: 2, 128: 1, 1000: 1, 5000: 0}
FIRST_SEED: Final = 41_000
SHORT_SECONDS: Final = 0.05
WITH: Final = "with the constructor"
ONE: Final = "constructor"
COMPLETE: Final = "complete search"
SHORT: Final = "50 ms of processor time"
EQUAL: Final = 1e-9
"""Costs nearer than this are one figure."""
SIGNIFICANT: Final = 0.01
"""Largest p of a one-sided paired Wilcoxon test that counts as a gain."""
MAX_WALKS: Final = 64


class Timed(NamedTuple):
    """Objective of the best placement, +inf without one, and processor seconds."""

    objective: float
    seconds: float
    best: Candidate | None = None


class Pair(NamedTuple):
    """One instance by one rule, with and without the constructor."""

    rule: str
    nodes: int
    family: str
    seed: int
    with_constructor: Timed
    without: Timed

    @property
    def ratio(self) -> float:
        """Objective with the constructor over that without; below 1 it helped."""
        return self.with_constructor.objective / self.without.objective


def run(options: Options) -> list[Row]:
    """Rows by rule, size and family, and the goal: no size in the default path at which the constructor brings nothing."""
    cases = QUICK_CASES if options.quick else CASES
    network = shipped()
    measured_pairs(learned_instance(NAMES[0], 32, 8, FIRST_SEED - 1), Learned(network), 32, NAMES[0])
    rows: list[Row] = []
    idle = 0
    for nodes, workers in SHAPES:
        pairs = _pairs(network, nodes, workers, cases[nodes])
        by_rule = {rule: [pair for pair in pairs if pair.rule == rule] for rule in (COMPLETE, SHORT)}
        rows += [row for rule, ours in by_rule.items() for row in _rows(rule, nodes, workers, ours)]
        idle += bool(pairs) and in_default_path(nodes, workers) and not any(helps(ours) for ours in by_rule.values())
    return [*rows, goal(BENCHMARK, "sizes at which the default runs the constructor and it brings nothing", ONE, float(idle), 0.0, "sizes")]


def _pairs(network: ConstructorNetwork, nodes: int, workers: int, cases: int) -> list[Pair]:
    """All instances of a size; clusters of 5,000 nodes take a gigabyte each, one after the other."""
    pairs: list[Pair] = []
    for family, seed in product(NAMES, range(FIRST_SEED, FIRST_SEED + cases)):
        pairs += measured_pairs(learned_instance(family, nodes, workers, seed), Learned(network), nodes, family)
        gc.collect()
    return pairs


def measured_pairs(case: Instance, learned: Learned, nodes: int, family: str) -> list[Pair]:
    """One instance by both rules."""
    problem, name = case.problem, label(family, nodes)
    _ = problem.identity, problem.names
    search = timed(lambda until: Heuristic().candidates(problem, until), math.inf)
    alone = timed(lambda until: learned.candidates(problem, until), math.inf)
    both = Timed(min(search.objective, alone.objective), search.seconds + alone.seconds)
    longer = walk_on(problem, search, alone.seconds)
    left = max(0.0, SHORT_SECONDS - alone.seconds)
    cut = timed(lambda until: Heuristic().candidates(problem, until), left)
    first = Timed(min(alone.objective, cut.objective), alone.seconds + cut.seconds)
    same = timed(lambda until: Heuristic().candidates(problem, until), max(SHORT_SECONDS, first.seconds))
    same = walk_on(problem, same, first.seconds - same.seconds)
    return [
        Pair(COMPLETE, nodes, name, case.seed, both, longer),
        Pair(SHORT, nodes, name, case.seed, first, same),
    ]


def timed(ask: Callable[[Callable[[], bool]], object], seconds: float) -> Timed:
    """The best of the candidates that `ask` returns, which learns that its time is up after `seconds` of processor time."""
    started = time.process_time()
    candidates = ask(lambda: time.process_time() - started > seconds)
    spent = time.process_time() - started
    listed: list[Candidate] = list(candidates)  # type: ignore[call-overload]
    best = min(listed, default=None)
    return Timed(math.inf if best is None else best.objective, spent, best)


def walk_on(problem: Problem, search: Timed, seconds: float) -> Timed:
    """`search` with further walks by segments from its best placement, other seeds, for so much more processor time."""
    if search.best is None:
        return search
    started = time.process_time()

    def over() -> bool:
        return time.process_time() - started > seconds

    order = np.array(search.best.order, dtype=np.int64)
    pool = np.union1d(Pools(problem, np.arange(len(problem.nodes))).pool(len(order)), order)
    costs, slots, fixed = problem.costs(pool), problem.slots[pool], np.zeros(len(order), dtype=np.bool_)
    best, places = search.objective, np.searchsorted(pool, order)[None, :]
    for seed in range(1, MAX_WALKS):
        if over():
            break
        found, value = walked(costs, slots, places, fixed, THOROUGH, problem.request.seed + seed, over)
        if len(value) and value[0] < best:
            best, places = float(value[0]), found
    return Timed(best, search.seconds + time.process_time() - started)


def learned_instance(family: str, nodes: int, workers: int, seed: int) -> Instance:
    """An instance of the five families at any size; every pair of nodes is measured, as arrays instead of link objects."""
    topology = generate(label(family, nodes + 1000), nodes, seed)
    balance = Balance.EQUAL if seed % 2 else Balance.CAPACITY
    return placed(
        f"{label(family, nodes)} n={nodes} k={workers}",
        graph_of(topology, f"{family} {nodes} {seed}"),
        workers,
        seed,
        GPUS_PER_WORKER,
        balance,
    )


def graph_of(topology: Topology, digest: str) -> ClusterGraph:
    """The graph that the product builds from the same cluster as a snapshot, 25 million links included."""
    nodes = len(topology.slots)
    empty = snapshot_of(dataclasses.replace(topology, blocked=np.broadcast_to(np.True_, (nodes, nodes))))
    absent = AbsentLink.UNREACHABLE if topology.blocked.any() else AbsentLink.ESTIMATE
    rows, columns = np.nonzero(~topology.blocked & ~np.eye(nodes, dtype=np.bool_))
    figures = topology.latency_seconds[rows, columns], 1.0 / topology.seconds_per_byte[rows, columns]
    links = MeasuredLinks(rows * nodes + columns, *figures, np.ones(len(rows)))
    plain = build(replace(empty, absent_links=absent), POLICY)
    return dataclasses.replace(plain, links=links, digest=digest)


def helps(pairs: list[Pair]) -> bool:
    """Whether the constructor makes the portfolio better: a lower mean, and significantly so."""
    ratios = np.array([pair.ratio for pair in pairs])
    return bool(np.exp(np.log(ratios).mean()) < 1.0 - EQUAL and p_value(ratios) <= SIGNIFICANT)


def p_value(ratios: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> float:
    """One-sided paired Wilcoxon signed-rank test on the logarithms: how likely so good a result is if it were no better."""
    logs = np.log(ratios)
    return 1.0 if not np.any(np.abs(logs) > EQUAL) else float(wilcoxon(logs, alternative="less").pvalue)


class _Counted:
    """Stands in for the constructor and counts how often it is asked."""

    name = PlannerChoice.LEARNED.value
    asked = 0

    def candidates(self, problem: Problem, expired: Callable[[], bool]) -> tuple[Candidate, ...]:
        """Return nothing."""
        self.asked += 1
        return ()


def in_default_path(nodes: int, workers: int) -> bool:
    """Whether a job that names no planner, under a policy that names none, is shown to the constructor at that size."""
    graph = graph_of(generate("zones", min(nodes, 1000), FIRST_SEED), "default path")
    instance = placed("default path", graph, workers, 0, GPUS_PER_WORKER)
    counted = _Counted()
    request = replace(instance.problem.request, job=job_spec((workers, workers), GPUS_PER_WORKER, Balance.CAPACITY))
    plan = make_plan(request, graph, instance.problem.workload, POLICY, planners=(Heuristic(), counted))
    if isinstance(plan, Infeasible):
        raise TypeError(plan.message)
    return counted.asked > 0


def _rows(rule: str, nodes: int, workers: int, pairs: list[Pair]) -> list[Row]:
    """Ratios by family, times, and over all families wins, losses and significance."""
    rows: list[Row] = []
    for pair in pairs:
        case = f"{rule}, n={nodes:,}, k={workers}"
        rows.append(Row(BENCHMARK, f"{case}, {pair.family}", WITH, "objective over that without", pair.ratio, "ratio", pair.seed))
        rows.append(Row(BENCHMARK, case, WITH, "processor time", pair.with_constructor.seconds * 1e3, "ms", pair.seed))
        rows.append(Row(BENCHMARK, case, "without", "processor time", pair.without.seconds * 1e3, "ms", pair.seed))
    if not pairs:
        return rows
    ratios = np.array([pair.ratio for pair in pairs])
    case = f"{rule}, n={nodes:,}, k={workers}"
    return [
        *rows,
        Row(BENCHMARK, case, WITH, "geometric mean of objective over that without", float(np.exp(np.log(ratios).mean())), "ratio"),
        Row(BENCHMARK, case, WITH, f"better, of {len(ratios)}", float((ratios < 1.0 - EQUAL).sum()), "cases"),
        Row(BENCHMARK, case, WITH, f"worse, of {len(ratios)}", float((ratios > 1.0 + EQUAL).sum()), "cases"),
        Row(BENCHMARK, case, WITH, "p that it is no better", p_value(ratios), ""),
    ]
