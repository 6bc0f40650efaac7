"""Which rank takes which part: quadratic assignment on QAPLIB, and copies between nodes for real cuts.

    python benchmarks/part_ranks.py [--quick] [--live] [--qap FOLDER] [--seeds N] [--json FILE]

QAPLIB (Burkard, Karisch & Rendl 1997): `best_known.csv` and `*.dat` of --qap FOLDER, else of the data folder beside the repository; left
out where it is absent. The search is the product's, with its default effort: figures are per cent above the best known value, of the worst
and the median seed, and processor seconds.

Cuts: METIS as a job gets it, on 2 or 4 nodes. Peers: parts on ranks of their own numbers (what MPI gives without more), the best of as many
random orders as take the same time, and for 8 ranks the exact optimum. "busiest node" is the largest number of copies that one node sends
and gets: the sum is what is minimised, this is what a slow card feels.

--live adds exchanges between Horovod ranks on three shaped nodes (benchmarks/part_ranks_live.py), three to eight minutes.
"""

from __future__ import annotations

import csv
import itertools
import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np

from benchmarks import common, part_ranks_live
from benchmarks.common import Row
from benchmarks.epochtables import DATA
from hyperscale.model.adjacency import Array
from hyperscale.model.api.job import PartitioningMethod
from hyperscale.training import data, partition
from hyperscale.training.rankmap.part_ranks import boundary_table, place_parts
from hyperscale.training.rankmap.quadratic import assign_places, assignment_cost
from hyperscale.training.rankmap.rank_links import rank_links

NAME: Final = "part_ranks"
OURS: Final = "hyperscale"
QAPLIB: Final = DATA.parent / "qaplib"
GRAPHS: Final = {
    "Cora": ("builtin", "Cora"),
    "CiteSeer": ("builtin", "CiteSeer"),
    "communities": ("generated", "SBM?vertices=20000&edges=200000&featureSize=4&classes=64"),
    "power law": ("generated", "RMAT?vertices=20000&edges=200000&featureSize=4&classes=8"),
}
SHAPES: Final = ((8, 2), (8, 4), (16, 4), (16, 8), (32, 8))
"""Ranks, and ranks of a node."""
MOST_TRIED: Final = 8
"""Ranks up to which all orders are tried."""


def qap_rows(folder: Path, seeds: Sequence[int]) -> list[Row]:
    """Per cent above the best known value of each instance."""
    with (folder / "best_known.csv").open() as stream:
        listed = [(row["instance"], float(row["best_known"])) for row in csv.DictReader(stream)]
    rows, worst, longest = [], 0.0, 0.0
    for name, best in listed:
        flow, cost = instance(folder / f"{name}.dat")
        gaps, seconds = [], []
        for seed in seeds:
            started = time.process_time()
            place = assign_places(flow, cost, seed=seed)
            seconds.append(time.process_time() - started)
            gaps.append(100.0 * (assignment_cost(flow, cost, place) / best - 1.0))
        rows.append(Row(NAME, name, OURS, "worst seed above the best known", max(gaps), "%"))
        rows.append(Row(NAME, name, OURS, "median seed above the best known", statistics.median(gaps), "%"))
        rows.append(Row(NAME, name, OURS, "processor time", max(seconds), "s"))
        worst, longest = max(worst, *gaps), max(longest, *seconds)
    rows.append(
        common.goal(NAME, f"QAPLIB, {len(listed)} instances, {len(seeds)} seeds: worst above the best known", OURS, worst, 1.0, "%")
    )
    rows.append(common.goal(NAME, "QAPLIB: longest search", OURS, longest, 1.0, "s"))
    return rows


def instance(file: Path) -> tuple[Array, Array]:
    """Both (n, n) matrices of a QAPLIB file."""
    numbers = np.array(file.read_text().split(), dtype=np.float64)
    count = int(numbers[0])
    one, other = numbers[1 : 1 + 2 * count * count].reshape(2, count, count)
    return one.copy(), other.copy()


def cut_rows(name: str, shapes: Sequence[tuple[int, int]], seed: int) -> list[Row]:
    """Copies between nodes of one graph, as ratios to those with part i on rank i."""
    source, path = GRAPHS[name]
    graph = data.read(source, path, "NPZ", cache=None, seed=seed, endpoint=None, stated=None)
    rows = []
    for ranks, each in shapes:
        cut = partition.split(data.symmetric(graph), (1.0 / ranks,) * ranks, PartitioningMethod.METIS, seed=seed, train=graph.train)
        table = boundary_table(graph, cut.assignment, ranks)
        nodes = [str(rank // each) for rank in range(ranks)]
        apart = np.array([[one != other for other in nodes] for one in nodes], dtype=np.float64)
        numbers = np.arange(ranks)
        started = time.process_time()
        placed = place_parts(table, rank_links(nodes, None), [1.0 / ranks] * ranks, seed=seed)
        seconds = time.process_time() - started
        ours = numbers if placed is None else placed.rank
        before = assignment_cost(table, apart, numbers)
        orders = {OURS: ours, "random, same time": _random_best(table, apart, seconds, seed)}
        if ranks <= MOST_TRIED:
            orders["all tried"] = _exact(table, each)
        case = f"{name}, {ranks} ranks on {ranks // each} nodes"
        rows.append(Row(NAME, case, "part i on rank i", "copies between nodes", before, "vertices", seed))
        rows.append(Row(NAME, case, OURS, "processor time", seconds, "s", seed))
        busiest = _busiest(table, numbers, each)
        for method, place in orders.items():
            rows.append(Row(NAME, case, method, "copies / part i on rank i", assignment_cost(table, apart, place) / before, "", seed))
            rows.append(Row(NAME, case, method, "busiest node / part i on rank i", _busiest(table, place, each) / busiest, "", seed))
    return rows


def _busiest(table: Array, place: Array, each: int) -> float:
    """Copies that the busiest node sends and gets."""
    node = place // each
    apart = node[:, None] != node[None, :]
    crossing = table * apart
    return float(np.bincount(node, weights=crossing.sum(axis=0) + crossing.sum(axis=1)).max())


def _random_best(table: Array, apart: Array, seconds: float, seed: int) -> Array:
    chance = np.random.default_rng(seed)
    best = chance.permutation(len(table))
    ended = time.process_time() + seconds
    while time.process_time() < ended:
        tried = chance.permutation(len(table))
        if assignment_cost(table, apart, tried) < assignment_cost(table, apart, best):
            best = tried
    return best


def _exact(table: Array, each: int) -> Array:
    """The best grouping by trying all: parts of a node are any set, so that orders within a node do not matter."""
    both = table + table.T

    def groups(left: tuple[int, ...]) -> list[list[tuple[int, ...]]]:
        if not left:
            return [[]]
        mates = itertools.combinations(left[1:], each - 1)
        return [[(left[0], *mate), *rest] for mate in mates for rest in groups(tuple(part for part in left[1:] if part not in mate))]

    best = max(groups(tuple(range(len(table)))), key=lambda sets: sum(both[np.ix_(one, one)].sum() for one in sets))
    place = np.empty(len(table), dtype=np.int64)
    place[[part for one in best for part in one]] = np.arange(len(table))
    return place


def main() -> int:
    """Run as said above."""
    arguments = common.parser(__doc__ or "")
    arguments.add_argument("--qap", type=Path, default=QAPLIB, metavar="FOLDER", help="QAPLIB files and best_known.csv")
    arguments.add_argument("--seeds", type=int, default=3, help="searches of each instance, and cuts of each graph")
    arguments.add_argument("--live", action="store_true", help="also measure exchanges on three nodes with shaped cards (root)")
    options = arguments.parse_args()
    seeds = range(1 if options.quick else options.seeds)
    rows: list[Row] = []
    if (options.qap / "best_known.csv").is_file():
        rows += qap_rows(options.qap, seeds)
    else:
        print(f"QAPLIB: left out, {options.qap}/best_known.csv is absent")
    for name in GRAPHS:
        for seed in seeds:
            rows += cut_rows(name, SHAPES[:2] if options.quick else SHAPES, seed)
    ratios = [row.value for row in rows if (row.method, row.metric) == (OURS, "copies / part i on rank i") and ", 8 ranks" in row.case]
    rows.append(Row(NAME, "8 ranks, all graphs", OURS, "median copies / part i on rank i", statistics.median(ratios), ""))
    if options.live:
        rows += part_ranks_live.rows(NAME, options.quick)
    return common.report(rows, options.json)


if __name__ == "__main__":
    raise SystemExit(main())
