"""Independent sets against networkx's approximation, and against the optimum on graphs of at most 200 vertices."""

from __future__ import annotations

import multiprocessing
import multiprocessing.connection
import sys
import time
from collections.abc import Iterator

import networkx as nx
import numpy as np
import pyximport

from benchmarks.common import Row, goal
from benchmarks.partitiongraphs import families, neighbourhood
from hyperscale.model.adjacency import Adjacency, Array
from hyperscale.training.partition.compiled_search import seeds

_hooks = pyximport.install(build_dir="build/pyximport")  # compiles the next module where it has changed
from benchmarks import independentswaps  # noqa: E402 - after the hook

pyximport.uninstall(*_hooks)

NAME = "independent sets"
SMALL = 200
PROOF_SECONDS, QUICK_PROOF_SECONDS = 20.0, 2.0
PEER_SECONDS, QUICK_PEER_SECONDS = 60.0, 3.0
WHOLE_SECONDS = 20.0
"""On whole graphs networkx does not end within hours: enough to say how much faster ours is at least."""
SPEED = 50.0
KICKS_PER_VERTEX = 20
MOST_KICKS = 200_000
LEAST_KICKS = 12_000
SPARSE_DEGREE = 20.0
"""Mean degree above which a kick costs more and fewer are needed: sets are smaller there."""


def independent_set(adjacency: Adjacency, *, seed: int = 0, kicks: int | None = None) -> Array:
    """(n,) bool, a maximal independent set that is as large as greedy choice, swaps and `kicks` tries make it.

    By default some tries for each vertex, mostly enough for the optimum on graphs of some hundred vertices; 0 for a quick one.
    """
    n = adjacency.vertices
    if kicks is None:
        crowded = max(len(adjacency.indices) / max(n, 1) / SPARSE_DEGREE, 1.0)
        kicks = int(min(max(LEAST_KICKS, KICKS_PER_VERTEX * n), MOST_KICKS) / crowded**2)
    indptr, indices = np.ascontiguousarray(adjacency.indptr, dtype=np.int64), np.ascontiguousarray(adjacency.indices, dtype=np.int32)
    chosen = np.zeros(n, dtype=np.uint8)
    seeds.greedy(indptr, indices, chosen)
    independentswaps.improve(indptr, indices, chosen, seed, kicks)
    return chosen.astype(bool)


def set_rows(quick: bool, only: list[str]) -> list[Row]:
    """All figures, and the goals over all graphs."""
    rows: list[Row] = []
    for graph, make in families(quick).items():
        if only and graph not in only:
            continue
        adjacency = make(0)
        if adjacency is None:
            continue
        for seed in range(1 if quick else 3):
            rows += _small(f"{graph} 200", neighbourhood(adjacency, SMALL, seed), seed, quick)
        rows += _against(
            f"{graph} {300 if quick else 400}",
            neighbourhood(adjacency, 300 if quick else 400, 0),
            QUICK_PEER_SECONDS if quick else PEER_SECONDS,
            0,
        )
        if not quick:
            rows += _against(f"{graph} whole", adjacency, WHOLE_SECONDS, 0)
        print(f"independent sets of {graph}: done", file=sys.stderr, flush=True)
    return rows + list(_goals(rows))


def _goals(rows: list[Row]) -> Iterator[Row]:
    short = [row.value for row in rows if row.metric == "short of networkx"]
    speed = [row.value for row in rows if row.metric == "speed"]
    gaps = [row.value for row in rows if row.metric == "short of the optimum"]
    if short:
        yield goal(NAME, "most vertices short of networkx", "ours", max(short), 0, "vertices")
        yield goal(NAME, f"networkx's time over ours, least (inverse of {SPEED:g})", "ours", 1 / min(speed), 1 / SPEED, "")
    if gaps:
        yield goal(NAME, f"most vertices short of the proven optimum ({len(gaps)} graphs)", "ours", max(gaps), 0, "vertices")


def _ours(adjacency: Adjacency, seed: int) -> tuple[int, float]:
    begun = time.process_time()
    size = int(independent_set(adjacency, seed=seed).sum())
    return size, time.process_time() - begun


def _small(case: str, adjacency: Adjacency, seed: int, quick: bool) -> list[Row]:
    rows = _against(case, adjacency, QUICK_PEER_SECONDS if quick else PEER_SECONDS, seed)
    best, bound = optimum(adjacency, QUICK_PROOF_SECONDS if quick else PROOF_SECONDS)
    ours = next(row.value for row in rows if row.method == "ours")
    rows.append(Row(NAME, case, "cp-sat", "size", best, "vertices", seed))
    rows.append(Row(NAME, case, "cp-sat", "bound", bound, "vertices", seed))
    if best == bound:
        rows.append(Row(NAME, case, "ours", "short of the optimum", best - ours, "vertices", seed))
    return rows


def _against(case: str, adjacency: Adjacency, seconds: float, seed: int) -> list[Row]:
    """Ours and networkx's; where the latter does not end in time, only that its time is at least so much."""
    size, spent = _ours(adjacency, seed)
    rows = [Row(NAME, case, "ours", "size", size, "vertices", seed), Row(NAME, case, "ours", "cpu", spent, "s", seed)]
    quick_size = len(nx.maximal_independent_set(_networkx(adjacency), seed=seed))
    rows.append(Row(NAME, case, "networkx maximal, random", "size", quick_size, "vertices", seed))
    found = _limited(adjacency, seconds)
    peer = found[1] if found else seconds
    if found:
        rows.append(Row(NAME, case, "networkx approximation", "size", found[0], "vertices", seed))
        rows.append(Row(NAME, case, "ours", "short of networkx", max(found[0] - size, 0), "vertices", seed))
    rows.append(Row(NAME, case, "networkx approximation", "cpu" if found else "cpu, gave up after", peer, "s", seed))
    rows.append(Row(NAME, case, "ours", "speed", peer / max(spent, 1e-6), "× networkx", seed))
    return rows


def _networkx(adjacency: Adjacency) -> nx.Graph[int]:
    graph: nx.Graph[int] = nx.Graph()
    graph.add_nodes_from(range(adjacency.vertices))
    rows = np.repeat(np.arange(adjacency.vertices), np.diff(adjacency.indptr))
    graph.add_edges_from(zip(rows.tolist(), adjacency.indices.tolist(), strict=True))
    return graph


def _limited(adjacency: Adjacency, seconds: float) -> tuple[int, float] | None:
    """(size, CPU seconds) of networkx's approximation in a process of its own, which can be stopped."""
    context = multiprocessing.get_context("fork")
    here, there = context.Pipe(duplex=False)
    process = context.Process(target=_peer, args=(adjacency, there))
    process.start()
    there.close()
    try:
        return here.recv() if here.poll(seconds) else None
    except EOFError:
        return None
    finally:
        process.kill()
        process.join()


def _peer(adjacency: Adjacency, answer: multiprocessing.connection.Connection) -> None:
    graph = _networkx(adjacency)
    sys.setrecursionlimit(1_000_000)
    begun = time.process_time()
    size = len(nx.approximation.maximum_independent_set(graph))
    answer.send((size, time.process_time() - begun))


def optimum(adjacency: Adjacency, seconds: float) -> tuple[int, int]:
    """(best, upper bound) of the largest independent set by CP-SAT; equal where it is proven. Maximal cliques tighten the bound."""
    from ortools.sat.python import cp_model

    model = cp_model.CpModel()
    taken = [model.new_bool_var("") for _ in range(adjacency.vertices)]
    for clique in nx.find_cliques(_networkx(adjacency)):
        model.add_at_most_one(taken[vertex] for vertex in sorted(clique))
    model.maximize(sum(taken))
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.max_time_in_seconds = seconds
    solver.solve(model)
    return round(solver.objective_value), int(solver.best_objective_bound + 1e-6)
