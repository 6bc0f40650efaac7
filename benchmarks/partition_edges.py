"""What weighing edges gives and takes: METIS's parts by vertices against what `Auto` takes where an epoch aggregates over all edges.

One edge costs a tenth of a vertex, as much, or ten times as much; all copies, at the parts by vertices, a tenth of the work or as much.
Losses are printed beside: the cut, the vertices of the largest part.

    python benchmarks/partition_edges.py            R-MAT and Delaunay graphs of 2^14 vertices, Cora, CiteSeer, three seeds
    python benchmarks/partition_edges.py --quick    2^12 vertices, one seed
"""

from __future__ import annotations

import os
import statistics
import sys
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ[_name] = "1"
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np  # noqa: E402 - after the number of threads

from benchmarks.common import Row, goal, parser, report  # noqa: E402 - a script's own folder, not the repository, is on the path
from benchmarks.partitiongraphs import citation, delaunay, rmat  # noqa: E402
from hyperscale.model.adjacency import Adjacency, Array  # noqa: E402
from hyperscale.model.api.job import PartitioningMethod  # noqa: E402
from hyperscale.training.partition import EpochCost, Parts, choose, epoch_seconds, split  # noqa: E402

NAME = "partition edges"
PARTS = (2, 4, 8)
WORTHS = (0.1, 1.0, 10.0)
COPIES = (0.1, 1.0)
"""Seconds of all copies over seconds of all work."""
VERTEX_SECONDS = 1e-6


def most(weights: Array, parts: Parts) -> float:
    """Of the largest part, over the mean."""
    load = np.bincount(parts.assignment, weights=weights, minlength=parts.parts)
    return float(load.max() / max(load.mean(), 1e-9))


def cost_of(adjacency: Adjacency, plain: Parts, worth: float, copies: float) -> EpochCost:
    """The same for every part."""
    work = VERTEX_SECONDS * (adjacency.vertices + worth * len(adjacency.indices))
    link = copies * work / max(int(plain.measures.halo.sum()), 1)
    each = plain.parts
    return EpochCost((VERTEX_SECONDS,) * each, (link,) * each, 1.0, edge_seconds=(worth * VERTEX_SECONDS,) * each)


def compared(graph: str, adjacency: Adjacency, parts: int, seed: int) -> Iterator[Row]:
    """One graph and number of parts, all costs."""
    shares, vertices, degrees = (1.0,) * parts, np.ones(adjacency.vertices), np.diff(adjacency.indptr)
    plain = split(adjacency, shares, PartitioningMethod.METIS, seed=seed)
    for worth in WORTHS:
        for copies in COPIES:
            cost = cost_of(adjacency, plain, worth, copies)
            taken = choose(adjacency, shares, (PartitioningMethod.METIS,), cost, seed=seed)
            case = f"{graph} k={parts}"
            ratio = epoch_seconds(adjacency, taken, cost) / epoch_seconds(adjacency, plain, cost)
            weighed = not np.array_equal(taken.assignment, plain.assignment)
            for metric, value, unit in (
                ("predicted epoch", ratio, "of METIS's"),
                ("edges weighed", float(weighed), "of cases"),
                ("most edges, METIS", most(degrees, plain), "of mean"),
                ("most edges", most(degrees, taken), "of mean"),
                ("most vertices", most(vertices, taken), "of mean"),
                ("largest halo", taken.measures.largest_halo / max(plain.measures.largest_halo, 1), "of METIS's"),
                ("cut", taken.measures.cut / max(plain.measures.cut, 1), "of METIS's"),
            ):
                yield Row(NAME, case, f"edge {worth:g} of a vertex, copies {copies:g} of the work", metric, value, unit, seed)


def main() -> None:
    """Run, print, write."""
    arguments = parser(__doc__ or "")
    arguments.add_argument("--seeds", type=int, default=3, help="graphs of each family")
    asked = arguments.parse_args()
    scale = 12 if asked.quick else 14
    rows: list[Row] = []
    for seed in range(1 if asked.quick else asked.seeds):
        graphs = {"Cora": citation("Cora"), "CiteSeer": citation("CiteSeer")}
        graphs |= {"rmat": rmat(scale, seed), "delaunay": delaunay(1 << scale, seed)}
        for (graph, adjacency), parts in product(graphs.items(), PARTS):
            rows += compared(graph, adjacency, parts, seed)
    report([*rows, *goals(rows)], asked.json)


def goals(rows: Sequence[Row]) -> Iterator[Row]:
    """Of the epochs that are predicted with Auto's parts over those with METIS's."""
    ratios = [(row.case, row.value) for row in rows if row.metric == "predicted epoch"]
    yield goal(NAME, "predicted epoch, worst case", "Auto", max(ratio for _, ratio in ratios), 1.0, "of METIS's")
    hubs = [ratio for case, ratio in ratios if case.startswith("rmat")]
    yield goal(NAME, "predicted epoch on R-MAT, median", "Auto", statistics.median(hubs), 0.8, "of METIS's")


if __name__ == "__main__":
    main()
