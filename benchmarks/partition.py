"""Partitioners side by side: cut, balance, largest halo, copies and CPU time, equal and 2:1 capacities, k = 2 to 32.

Peers: pymetis as it comes and with the same target weights, DGL's METIS call, Mt-KaHyPar's default, vertices by chance, AGPCS's degree
heuristic. Ours is METIS refined (the method `METIS` of a job), and the hybrid (`IndependentSetSpectral`). Cuts and halos are compared with
pymetis given the same shares; DGL knows no shares: equal ones only. CPU times are medians of runs in turn within one process.

    python benchmarks/partition.py            all graphs, three seeds, several minutes
    python benchmarks/partition.py --quick    smaller graphs, one seed (--mis: only independent sets)
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ[_name] = "1"
os.environ.setdefault("DGLBACKEND", "pytorch")
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np  # noqa: E402 - after the number of threads

from benchmarks.common import Row, goal, parser, report, table  # noqa: E402 - a script's own folder, not the repository, is on the path
from benchmarks.independentsets import set_rows  # noqa: E402
from benchmarks.partitioners import BALANCE_LIMIT, HYBRID, OURS, PEER, Case, capacities, mtkahypar_cut, partitioners  # noqa: E402
from benchmarks.partitiongraphs import families  # noqa: E402
from hyperscale.model.adjacency import Adjacency, Array  # noqa: E402
from hyperscale.training.partition import Measures, PartitionError, measure  # noqa: E402

NAME = "partition"
PARTS = (2, 4, 8, 16, 32)
UNEVEN = 1.3
"""METIS's largest halo over its mean above which ours is to be at most EVENED of METIS's."""
EVENED = 0.85
DGL_LIMIT = 0.90
TIME_LIMIT = 3.0


@dataclass(frozen=True)
class Outcome:
    """One partitioner on one case."""

    measures: Measures
    seconds: float


def outcomes(case: Case, repeats: int) -> dict[str, Outcome]:
    """All partitioners on one case, in turn, with the median of their CPU seconds."""
    made = partitioners(case, peers=True)
    seconds: dict[str, list[float]] = {name: [] for name in made}
    assigned: dict[str, Array] = {}
    for _ in range(repeats):
        for name, partition in made.items():
            begun = time.process_time()
            assigned[name] = partition()
            seconds[name].append(time.process_time() - begun)
    begun = time.process_time()
    strong = mtkahypar_cut(case) if case.seed == 0 else None
    if strong is not None:
        assigned["mtkahypar"], seconds["mtkahypar"] = strong, [time.process_time() - begun]
    return {
        name: Outcome(measure(case.adjacency, parts, case.shares), statistics.median(seconds[name])) for name, parts in assigned.items()
    }


def figures(case: Case, found: dict[str, Outcome]) -> Iterator[Row]:
    """Every figure of every partitioner; ratios are to pymetis with the same shares."""
    base = found[PEER]
    for name, outcome in found.items():
        seen = outcome.measures
        for metric, value, unit in (
            ("cut", float(seen.cut), "edges"),
            ("cut ratio", seen.cut / max(base.measures.cut, 1), "of pymetis"),
            ("imbalance of vertices", seen.imbalance, "of share"),
            ("imbalance of edges", seen.edge_imbalance, "of share"),
            ("largest halo", float(seen.largest_halo), "vertices"),
            ("halo ratio", seen.largest_halo / max(base.measures.largest_halo, 1), "of pymetis"),
            ("largest/mean halo", seen.largest_halo / max(float(seen.halo.mean()), 1e-9), ""),
            ("replication", seen.replication, ""),
            ("cpu", outcome.seconds, "s"),
            ("cpu ratio", outcome.seconds / max(base.seconds, 1e-9), "of pymetis"),
        ):
            yield Row(NAME, case.name, name, metric, value, unit, case.seed)


def judged(case: Case, found: dict[str, Outcome], name: str) -> Iterator[tuple[str, float, float]]:
    """(what, value, limit) of every goal on one case."""
    ours, base = found[name], found[PEER]
    yield "cut / pymetis", ours.measures.cut / max(base.measures.cut, 1), 1.0
    if "dgl" in found:
        yield "cut / dgl", ours.measures.cut / max(found["dgl"].measures.cut, 1), DGL_LIMIT
    share = np.array(case.shares) / sum(case.shares) * case.adjacency.vertices
    yield "imbalance", ours.measures.imbalance, max(BALANCE_LIMIT, float((np.ceil(share - 1e-9) / share).max()))
    uneven = base.measures.largest_halo > UNEVEN * float(base.measures.halo.mean())
    what, limit = ("largest halo, uneven", EVENED) if uneven else ("largest halo, even", 1.0)
    yield what, ours.measures.largest_halo / max(base.measures.largest_halo, 1), limit
    yield "cpu / pymetis", ours.seconds / max(base.seconds, 1e-9), TIME_LIMIT


Verdict = tuple[str, str, int, str, float, float]  # graph, case, seed, what, value, limit


def partition_rows(asked: argparse.Namespace) -> tuple[list[Row], dict[str, list[Verdict]]]:
    """Rows of all cases, and what of them counts for a goal."""
    seeds, repeats = (1, 1) if asked.quick else (asked.seeds, asked.repeats)
    rows: list[Row] = []
    verdicts: dict[str, list[Verdict]] = {OURS: [], HYBRID: []}
    chosen = {graph: make for graph, make in families(asked.quick).items() if not asked.graph or graph in asked.graph}
    for (graph, make), seed in product(chosen.items(), range(seeds)):
        for case in cases(graph, make(seed), seed, asked.parts or (PARTS[::2] if asked.quick else PARTS)):
            found = attempted(case, repeats)
            if found is None:
                continue
            rows += figures(case, found)
            for name, kept in verdicts.items():
                kept += [(graph, case.name, seed, *verdict) for verdict in judged(case, found, name)]
        print(f"{graph} seed {seed}: done", file=sys.stderr, flush=True)
    return rows, verdicts


def cases(graph: str, adjacency: Adjacency, seed: int, counts: Sequence[int]) -> Iterator[Case]:
    """One graph into each count of parts, equal ones and unequal ones."""
    for parts, even in product(counts, (True, False)):
        yield Case(graph, adjacency, capacities(parts, even), seed)


def attempted(case: Case, repeats: int) -> dict[str, Outcome] | None:
    """Every partitioner's outcome; None, with a line on standard error, where one of them fails."""
    try:
        return outcomes(case, repeats)
    except (RuntimeError, PartitionError, MemoryError) as short:
        # METIS says no more than that where its allocations fail, and takes the whole run with it.
        print(f"{case.name} seed {case.seed}: left out, {short}", file=sys.stderr, flush=True)
        return None


def summary(verdicts: dict[str, list[Verdict]]) -> list[Row]:
    """By graph and goal: median ratio, share of the cases that hold, and the worst as the goal."""
    rows: list[Row] = []
    for name, all_of in verdicts.items():
        for graph in dict.fromkeys(verdict[0] for verdict in all_of):
            for what in dict.fromkeys(verdict[3] for verdict in all_of if verdict[0] == graph):
                these = [verdict for verdict in all_of if (verdict[0], verdict[3]) == (graph, what)]
                rows.append(Row(NAME, graph, name, f"{what}, median", statistics.median(each[4] for each in these), ""))
                rows.append(Row(NAME, graph, name, f"{what}, holds", sum(each[4] <= each[5] for each in these) / len(these), "of cases"))
                worst = max(these, key=lambda each: each[4] / each[5])
                rows.append(goal(NAME, f"{graph}: worst {what} ({worst[1]}, seed {worst[2]})", name, worst[4], worst[5], ""))
    return rows


def losses(verdicts: list[Verdict]) -> str:
    """The cases that miss a goal, one line each."""
    lines = [[case, str(seed), what, f"{value:.3f}", f"{limit:.3f}"] for _, case, seed, what, value, limit in verdicts if value > limit]
    return table(("missed", "seed", "goal", "value", "limit"), lines) if lines else "no goal is missed"


def main() -> None:
    """Run, print, write."""
    arguments = parser(__doc__ or "")
    arguments.add_argument("--graph", action="append", default=[], help="only this graph; may be repeated")
    arguments.add_argument("--repeats", type=int, default=3, help="runs of each partitioner; the CPU time is their median")
    arguments.add_argument("--seeds", type=int, default=3, help="graphs of each family")
    arguments.add_argument("--parts", action="append", type=int, default=[], help="only this k; may be repeated")
    arguments.add_argument("--no-mis", action="store_true", help="no independent sets")
    arguments.add_argument("--mis", action="store_true", help="only independent sets")
    asked = arguments.parse_args()
    rows: list[Row] = []
    if not asked.mis:
        rows, verdicts = partition_rows(asked)
        rows += summary(verdicts)
    if not asked.no_mis:
        rows += set_rows(asked.quick, asked.graph)
    report(rows, asked.json)
    if not asked.mis:
        print(f"\n{OURS}:\n{losses(verdicts[OURS])}")


if __name__ == "__main__":
    main()
