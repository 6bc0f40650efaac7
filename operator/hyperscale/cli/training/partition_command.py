"""`hyperscale partition`: a training graph cut into parts by capacity, and how good they are."""

from __future__ import annotations

import argparse
import json
import math
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from hyperscale.cli import exit_codes, spinner
from hyperscale.cli.exit_codes import InputError
from hyperscale.cli.files import replaced
from hyperscale.cli.text_tables import pairs, table
from hyperscale.cli.training import dataset
from hyperscale.util.extras import install

if TYPE_CHECKING:
    from hyperscale.model.adjacency import Adjacency, Array, TrainingGraph

LEAST_SHARE: Final = 1e-6
"""Of the largest; METIS counts in 32 bits."""


def run(arguments: argparse.Namespace) -> int:
    """Read, cut, measure, print or write."""
    if arguments.output == "parquet" and arguments.out is None:
        raise InputError("-o parquet: no file; add --out parts.parquet")
    shares = _shares(arguments)
    graph = dataset.load(arguments)
    if graph.graph_offsets is not None:
        raise InputError(f"{arguments.data}: a data set of many graphs, which are dealt out whole; name one with a single graph")
    answer, assignment = _cut(graph, shares, arguments)
    if arguments.out is not None:
        _write(arguments.out, assignment)
        answer["file"] = arguments.out
    if arguments.output == "table":
        print("\n".join(_lines(answer)))
    else:
        print(json.dumps(answer, indent=2))
    return exit_codes.OK


def _shares(arguments: argparse.Namespace) -> tuple[float, ...]:
    """Positive numbers with sum 1, one for each part."""
    if arguments.shares is None:
        if arguments.partitions is None:
            raise InputError("neither --partitions nor --shares is given; write for example --partitions 4")
        parts: int = arguments.partitions
        return (1.0 / parts,) * parts
    try:
        given: list[float] = [float(text) for text in arguments.shares.split(",")]
    except ValueError:
        raise InputError(f"--shares: {arguments.shares[:40]!r} are no numbers; write for example 2,1,1") from None
    if not all(math.isfinite(share) and share > 0 for share in given):
        raise InputError("--shares: a share is not above 0; write for example 2,1,1")
    if arguments.partitions not in (None, len(given)):
        raise InputError(f"--shares: {len(given)} numbers for {arguments.partitions} parts; write one for each")
    largest = max(given)
    shares = [share / largest for share in given]  # a sum of large ones may overflow
    if min(shares) < LEAST_SHARE:
        raise InputError(f"--shares: one is less than {LEAST_SHARE:g} of another; write for example 2,1,1")
    total = math.fsum(shares)
    return tuple(share / total for share in shares)


def _cut(graph: TrainingGraph, shares: tuple[float, ...], arguments: argparse.Namespace) -> tuple[dict[str, Any], Array]:
    from hyperscale.training import partition
    from hyperscale.training.data import symmetric

    adjacency = symmetric(graph)
    spinner.say(f"cutting {len(adjacency.indptr) - 1:,} vertices and {len(adjacency.indices):,} edges into {len(shares)} parts")
    try:
        parts = partition.split(adjacency, shares, arguments.method, seed=arguments.seed, train=graph.train)
    except ValueError as error:
        raise InputError(str(error)) from None
    measures = parts.measures
    answer = {
        "graph": graph.name,
        "method": str(parts.method),
        "cut": int(measures.cut),
        "cutFraction": measures.cut_fraction,
        "imbalance": measures.imbalance,
        "edgeImbalance": measures.edge_imbalance,
        "trainImbalance": measures.train_imbalance,
        "largestHalo": measures.largest_halo,
        "replication": measures.replication,
        "parts": _rows(adjacency, graph, parts.assignment, shares, measures.halo),
    }
    return answer, parts.assignment


def _rows(adjacency: Adjacency, graph: TrainingGraph, assignment: Array, shares: tuple[float, ...], halo: Array) -> list[dict[str, Any]]:
    counts = np.bincount(assignment, minlength=len(shares))
    train = np.bincount(assignment[graph.train], minlength=len(shares))
    ends = np.bincount(assignment, weights=np.diff(adjacency.indptr), minlength=len(shares))
    return [
        {"part": at, "share": share, "vertices": int(counts[at]), "train": int(train[at]), "edges": int(ends[at]), "halo": int(halo[at])}
        for at, share in enumerate(shares)
    ]


def _write(name: str, assignment: Array) -> None:
    """`parquet.write_table` deletes what stood there where it fails, so that it never gets the name itself."""
    try:
        import pyarrow as pa
        from pyarrow import parquet
    except ImportError:
        raise InputError(f"--out: writing Parquet needs pyarrow; {install('worker')}") from None
    columns = {"vertex": np.arange(len(assignment), dtype=np.int64), "part": assignment.astype(np.int32)}
    with replaced(name, "--out") as file, file.open("wb") as opened:
        parquet.write_table(pa.table(columns), opened)


def _lines(answer: dict[str, Any]) -> list[str]:
    train = answer["trainImbalance"]
    trained = f", training vertices {train:.3f}" if train is not None else ""
    about = pairs(
        [
            ("Graph", answer["graph"]),
            ("Method", answer["method"]),
            ("Cut", f"{answer['cut']} edges, {100 * answer['cutFraction']:.2f} %"),
            ("Imbalance", f"vertices {answer['imbalance']:.3f}, edges {answer['edgeImbalance']:.3f}{trained}"),
            ("Largest halo", f"{answer['largestHalo']} vertices"),
            ("Replication", f"{answer['replication']:.3f}"),
            ("File", answer.get("file", "")),
        ]
    )
    rows = [
        [str(row["part"]), f"{100 * row['share']:.1f} %", *(str(row[name]) for name in ("vertices", "train", "edges", "halo"))]
        for row in answer["parts"]
    ]
    return [*about, "", *table(("PART", "SHARE", "VERTICES", "TRAIN", "EDGES", "HALO"), rows, frozenset(range(6)))]
