"""Hulk's 47 machines, four and six tasks at once: sum of latency inside tasks against the published assignment and plain searches.

How the data's faults are read, and what Algorithm 1 leaves open, is said in `benchmarks.peers.hulk`. Ours runs with its defaults. Pairs
without a link cannot be avoided, which is proven twice: by listing the largest sets of machines that can all talk, and by CP-SAT, which
packs disjoint such sets: what does not fit into them costs at least one pair without a link each. The bound of the cost is a linear
programme with cuts (`hyperscale.planner.assign`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import networkx as nx
import numpy as np

from benchmarks.common import Row, goal
from benchmarks.peers import hulk as peer
from benchmarks.peers.hulk import Ints, Machines
from benchmarks.suites import Options
from hyperscale.planner.assign.assign_bounds import linear_bound, row_bound, seat_bound
from hyperscale.planner.assign.assign_problem import Tasks, link_cost, pairs_at, short_of_memory, sized
from hyperscale.planner.assign.change import add_machine, remove_machine
from hyperscale.planner.assign.search import assign

BENCHMARK: Final = "hulk"
OURS: Final = "hyperscale"
DATA: Final = Path(__file__).resolve().parents[2] / "../shared/data/hulk"
PUBLISHED_COST: Final = 73_474.3
LIMIT: Final = 0.54
FOUR: Final = "four tasks (15, 10, 10, 4)"
SIX: Final = "six tasks (15, 10, 6, 4, 4, 4)"
SIX_ALL: Final = "six tasks, every machine (15, 10, 10, 4, 4, 4)"
MEMORY: Final = "four tasks, the published memory of each kept"
ADDED: Final = 45
"""The machine that section 5.2 adds."""
CP_SAT_SECONDS: Final = 60.0
CUT_ROUNDS: Final = 9
QUICK_CUT_ROUNDS: Final = 1


def run(options: Options) -> list[Row]:
    """All rows; one that says so where the data are absent."""
    if not DATA.is_dir():
        return [Row(BENCHMARK, FOUR, OURS, "skipped: ../shared/data/hulk is absent", 0.0, "")]
    machines = peer.read(DATA)
    rows = [Row(BENCHMARK, "data", "reading", fault, 0.0, "") for fault in machines.faults]
    four, six, every = (sized(machines.cost, sizes) for sizes in (peer.SIZES, peer.SIX_SIZES, peer.SIX_SIZES_ALL))
    table = peer.published(machines)
    rows += _published(machines, four, table, options)
    for case, tasks in ((FOUR, four), (SIX, six), (SIX_ALL, every)):
        rows += _compared(case, tasks, machines, options)
        rows += _unavoidable(case, tasks, machines, options)
        if tasks is four or not options.quick:
            rows += _bounds(case, tasks, options)
    rows += _extended(every, table)
    rows += _with_memory(machines, table, options)
    return rows + _added(machines) + _lost(machines, options)


def _published(machines: Machines, four: Tasks, table: Ints, options: Options) -> list[Row]:
    cost = link_cost(four, table)
    options.dump_assignment(FOUR, "published (Table 2)", _names(table, 4))
    return [
        Row(BENCHMARK, FOUR, "published (Table 2)", "sum of latency", cost, "ms"),
        Row(BENCHMARK, FOUR, "published (Table 2)", "pairs without a link", pairs_at(four, table, peer.MISSING_MS), "pairs"),
        goal(BENCHMARK, "the scorer finds the published cost: difference", "published (Table 2)", abs(cost - PUBLISHED_COST), 0.5, "ms"),
    ]


def _names(group: Ints, tasks: int) -> dict[str, list[str]]:
    return {peer.MODELS[task]: [str(machine) for machine in np.flatnonzero(group == task)] for task in range(tasks)}


def _compared(case: str, tasks: Tasks, machines: Machines, options: Options) -> list[Row]:
    """Ours and every peer with sizes given, every seed."""
    rows: list[Row] = []
    ours: list[float] = []
    for seed in options.seeds:
        for name, method in _methods(machines).items():
            if options.quick and name != OURS and seed != options.seeds[0]:
                continue
            started = time.perf_counter()
            group = method(tasks, seed)
            took = time.perf_counter() - started
            rows += [
                Row(BENCHMARK, case, name, "sum of latency", link_cost(tasks, group), "ms", seed),
                Row(BENCHMARK, case, name, "pairs without a link", pairs_at(tasks, group, peer.MISSING_MS), "pairs", seed),
                Row(BENCHMARK, case, name, "time", took, "s", seed),
            ]
            options.dump_assignment(f"{case} seed {seed}", name, _names(group, tasks.idle))
            if name == OURS:
                ours.append(link_cost(tasks, group))
    worst = max(ours)
    rows.append(Row(BENCHMARK, case, OURS, "worst seed over published four", worst / PUBLISHED_COST, "ratio"))
    if case != SIX_ALL:
        rows.append(goal(BENCHMARK, f"{case}: worst seed", OURS, worst, LIMIT * PUBLISHED_COST, "ms"))
    return rows


def _methods(machines: Machines) -> dict[str, Callable[[Tasks, int], Ints]]:
    """All get the same sizes; random starts come from the seed."""

    def start(tasks: Tasks, seed: int) -> Ints:
        rest = len(tasks.memory) - sum(tasks.low)
        return np.random.default_rng(seed).permutation(np.repeat(np.arange(tasks.idle + 1), [*tasks.low, rest]))

    def algorithm_1(tasks: Tasks, _: int) -> Ints:
        return peer.algorithm_1(machines, [_has(size) for size in tasks.low])

    return {
        OURS: lambda tasks, seed: assign(tasks, seed).group,
        "Algorithm 1, spectral": algorithm_1,
        "2-swap from random": lambda tasks, seed: peer.two_swap(tasks.cost, start(tasks, seed), tasks.idle),
        "annealing, plain": lambda tasks, seed: peer.two_swap(
            tasks.cost, peer.annealing(tasks.cost, start(tasks, seed), tasks.idle, seed), tasks.idle
        ),
        "random": start,
    }


def _has(size: int) -> Callable[[Ints], bool]:
    return lambda members: len(members) >= size


def _unavoidable(case: str, tasks: Tasks, machines: Machines, options: Options) -> list[Row]:
    """Whether sets without an unreachable pair exist, and how many such pairs there are at least and at most."""
    sizes = sorted(tasks.low, reverse=True)
    linked = nx.from_numpy_array(machines.linked)
    largest = [set(clique) for clique in nx.find_cliques(linked) if len(clique) >= sizes[0]]
    rest = [max(len(clique) for clique in nx.find_cliques(linked.subgraph(set(linked) - found))) for found in largest]
    rows = [
        Row(BENCHMARK, case, "cliques", f"sets of {sizes[0]} machines that can all talk", float(len(largest)), "sets"),
        Row(BENCHMARK, case, "cliques", "largest such set beside the best of them", float(max(rest, default=0)), "machines"),
    ]
    exact = all(len(found) == sizes[0] for found in largest)
    least = sum(sizes) - _packed(machines, tasks.low)
    rows.append(Row(BENCHMARK, case, "CP-SAT", "pairs without a link: at least", float(least), "pairs"))
    missing = sized(np.where(machines.linked | np.eye(len(machines.linked), dtype=np.bool_), 0.0, 1.0), tasks.low)
    fewest = min((assign(missing, seed) for seed in options.seeds[: 1 if options.quick else None]), key=lambda found: found.rank)
    rows.append(Row(BENCHMARK, case, f"{OURS}, fewest such pairs instead", "pairs without a link", fewest.cost, "pairs"))
    rows.append(Row(BENCHMARK, case, f"{OURS}, fewest such pairs instead", "sum of latency", link_cost(tasks, fewest.group), "ms"))
    proven = exact and max(rest, default=0) < sizes[1] and least > 0
    rows.append(goal(BENCHMARK, f"{case}: unreachable pairs that are not proven unavoidable", OURS, float(not proven), 0.0, ""))
    return rows


def _packed(machines: Machines, sizes: Sequence[int]) -> int:
    """Most machines in disjoint sets that can all talk, none larger than its task (an upper bound where CP-SAT's time is too short)."""
    from ortools.sat.python import cp_model

    model = cp_model.CpModel()
    nodes = range(len(machines.linked))
    chosen = [[model.new_bool_var("") for _ in sizes] for _ in nodes]
    apart = ~machines.linked & ~np.eye(len(machines.linked), dtype=np.bool_)
    strangers = sorted(sorted(clique) for clique in nx.find_cliques(nx.from_numpy_array(apart)) if len(clique) > 1)
    for node in nodes:
        model.add_at_most_one(chosen[node])
    for task, size in enumerate(sizes):
        model.add(sum(chosen[node][task] for node in nodes) <= size)
        for clique in strangers:
            model.add_at_most_one(chosen[node][task] for node in clique)
    model.maximize(sum(sum(row) for row in chosen))
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.max_time_in_seconds = CP_SAT_SECONDS
    solver.solve(model)
    return round(solver.best_objective_bound)


def _bounds(case: str, tasks: Tasks, options: Options) -> list[Row]:
    """Lower bounds of the cost and what is left between."""
    best = min(assign(tasks, seed).cost for seed in options.seeds)
    rounds = QUICK_CUT_ROUNDS if options.quick else CUT_ROUNDS
    figures = {
        "cheapest rows": row_bound(tasks),
        "assignment of rows": seat_bound(tasks),
        f"linear programme, {rounds} rounds of cuts": linear_bound(tasks, rounds),
    }
    if not options.quick:
        figures["linear programme"] = linear_bound(tasks)
    rows = [Row(BENCHMARK, case, f"bound: {name}", "sum of latency, at least", value, "ms") for name, value in figures.items()]
    return [*rows, Row(BENCHMARK, case, OURS, "gap to the best bound", 100.0 * (1.0 - max(figures.values()) / best), "%")]


def _extended(every: Tasks, table: Ints) -> list[Row]:
    """The published four tasks and the best halves of the eight machines they leave, against ours for six tasks on all machines."""
    left = np.flatnonzero(table == len(peer.TABLE_2))
    halves = assign(sized(every.cost[np.ix_(left, left)], (4, 4))).group
    group = table.copy()
    group[left] = halves + len(peer.TABLE_2)
    cost = link_cost(every, group)
    ours = assign(every).cost
    return [
        Row(BENCHMARK, SIX_ALL, "published, the rest divided best", "sum of latency", cost, "ms"),
        Row(BENCHMARK, SIX_ALL, OURS, "over published, the rest divided best", ours / cost, "ratio"),
    ]


def _with_memory(machines: Machines, table: Ints, options: Options) -> list[Row]:
    """No task gets less memory than the published assignment gives it."""
    need = [float(machines.memory[table == task].sum()) for task in range(len(peer.SIZES))]
    tasks = sized(machines.cost, peer.SIZES, machines.memory, need)
    rows: list[Row] = []
    found = [assign(tasks, seed) for seed in options.seeds]
    for seed, answer in zip(options.seeds, found, strict=True):
        rows += [
            Row(BENCHMARK, MEMORY, OURS, "sum of latency", answer.cost, "ms", seed),
            Row(BENCHMARK, MEMORY, OURS, "memory short", answer.short, "GB", seed),
        ]
        options.dump_assignment(f"{MEMORY} seed {seed}", OURS, _names(answer.group, tasks.idle))
    free = assign(sized(machines.cost, peer.SIZES)).group
    rows.append(Row(BENCHMARK, MEMORY, f"{OURS}, memory ignored", "memory short", short_of_memory(tasks, free), "GB"))
    rows.append(goal(BENCHMARK, f"{MEMORY}: memory short, worst seed", OURS, max(answer.short for answer in found), 0.0, "GB"))
    worst = max(answer.cost for answer in found)
    rows.append(Row(BENCHMARK, MEMORY, OURS, "worst seed over published", worst / PUBLISHED_COST, "ratio"))
    return rows


def _added(machines: Machines) -> list[Row]:
    """Machine 45 arrives, as in section 5.2."""
    case = "machine 45 added"
    before = np.delete(np.arange(len(machines.memory)), ADDED)
    cost = machines.cost[np.ix_(before, before)]
    fixed = sized(cost, peer.SIZES)
    found = assign(fixed)
    roomy = Tasks(cost, fixed.low, tuple(size + 1 for size in peer.SIZES), machines.memory[before], (0.0,) * 4)
    started = time.perf_counter()
    larger, grown = add_machine(roomy, found.group, machines.cost[ADDED, before], float(machines.memory[ADDED]))
    took = time.perf_counter() - started
    home = int(grown.group[-1])
    return [
        Row(BENCHMARK, case, OURS, f"goes to {peer.MODELS[home] if home < 4 else 'no task: idle'}", 1.0, "machines"),
        Row(BENCHMARK, case, OURS, "other machines that change", float((grown.group[:-1] != found.group).sum()), "machines"),
        Row(BENCHMARK, case, OURS, "sum of latency before", found.cost, "ms"),
        Row(BENCHMARK, case, OURS, "sum of latency after", grown.cost, "ms"),
        Row(BENCHMARK, case, OURS, "time", took, "s"),
        Row(BENCHMARK, case, OURS, "sum of latency, sizes of Table 2 searched again", assign(sized(larger.cost, peer.SIZES)).cost, "ms"),
    ]


def _lost(machines: Machines, options: Options) -> list[Row]:
    """Every machine in use is lost in turn."""
    tasks = sized(machines.cost, peer.SIZES)
    now = assign(tasks)
    ratios: list[float] = []
    moved: list[int] = []
    seconds: list[float] = []
    for lost in np.flatnonzero(now.group < tasks.idle):
        started = time.perf_counter()
        smaller, after = remove_machine(tasks, now.group, int(lost))
        seconds.append(time.perf_counter() - started)
        moved.append(int((after.group != np.delete(now.group, lost)).sum()))
        if not options.quick:
            ratios.append(after.cost / assign(smaller).cost)
    case = f"each of {len(moved)} machines in use lost"
    rows = [Row(BENCHMARK, case, OURS, "machines that change, at most", float(max(moved)), "machines")]
    rows.append(Row(BENCHMARK, case, OURS, "time, at most", max(seconds), "s"))
    if ratios:
        rows.append(Row(BENCHMARK, case, OURS, "cost over a search again, mean", float(np.mean(ratios)), "ratio"))
        rows.append(Row(BENCHMARK, case, OURS, "cost over a search again, highest", max(ratios), "ratio"))
    return rows
