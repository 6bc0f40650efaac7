"""The Open Graph Benchmark's own layout: a folder with `raw/*.csv.gz` and `split/<name>/{train,valid,test}.csv.gz`, as its archives unpack.

One graph (ogbn-*): edges count in both directions. Many graphs (ogbg-*): a row of `edge.csv` is an edge and its reverse, as the molecule
sets are meant (add_inverse_edge); graph i is row i of `num-node-list.csv`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np

from hyperscale.model.adjacency import Array, TrainingGraph
from hyperscale.training.data.assemble import RawGraph, assemble, check_masks, split
from hyperscale.training.data.data_errors import fault
from hyperscale.training.data.formats import smiles, tables
from hyperscale.training.data.formats.edgelist import table
from hyperscale.training.data.limits import Stated, check_bytes

SUFFIXES: Final = (".csv.gz", ".csv")
SPLIT_FILES: Final = ("train", "valid", "test")


def read(file: Path, stated: Stated, seed: int) -> TrainingGraph:
    """The data set in the folder; raises DataError."""
    raw = _raw(file)
    edge_file = _named(raw, "edge")
    if edge_file is None:
        binary = " (binary archives such as papers100M's are not read)" if any(raw.glob("*.npz")) else ""
        raise fault(raw, f"no edge.csv.gz{binary}", "name the folder that OGB's archive unpacks to")
    counts = _column(raw, "num-node-list")
    sources, destinations = tables.edge_ids(table(edge_file, stated.edges, header=False), edge_file)
    if len(counts) == 1 and not labels_graphs(file):
        return _one(file, raw, int(counts[0]), sources, destinations, stated, seed)
    return _many(file, raw, counts, sources, destinations, stated)


def labels_graphs(folder: Path) -> bool:
    """Whether the data set in `folder` has labels of graphs, as every readable one of many graphs has; reads nothing."""
    return _named(_raw(folder), "graph-label") is not None


def _raw(folder: Path) -> Path:
    return folder / "raw" if (folder / "raw").is_dir() else folder


def _one(file: Path, raw: Path, vertices: int, sources: Array, destinations: Array, stated: Stated, seed: int) -> TrainingGraph:
    features, labels = _matrix(raw, "node-feat"), _matrix(raw, "node-label")
    classes = None
    if labels is not None:
        if labels.shape[1] != 1:
            raise fault(raw, f"{labels.shape[1]} labels a vertex", "use a data set with one class a vertex")
        class_numbers = np.where(np.isfinite(labels[:, 0]), labels[:, 0], -1)
        labels = class_numbers.astype(np.int64)
        classes = int(labels.max(initial=-1)) + 1
    graph = RawGraph(vertices, sources, destinations, features, labels, _masks(file, vertices), classes=classes)
    return assemble(graph, raw, file.name, stated, seed)


def _many(file: Path, raw: Path, counts: Array, sources: Array, destinations: Array, stated: Stated) -> TrainingGraph:
    edges = _column(raw, "num-edge-list")
    if len(edges) != len(counts) or int(edges.sum()) != len(sources) or (len(counts) and min(int(counts.min()), int(edges.min())) < 0):
        raise fault(raw, "num-node-list, num-edge-list and edge do not fit each other", "unpack OGB's archive again")
    atoms, bonds, labels = _graph_tables(raw, counts, len(sources))
    stated.check_counts(int(counts.sum()), 2 * len(sources), raw)
    low, first = np.concatenate([[0], np.cumsum(counts)]), np.concatenate([[0], np.cumsum(edges)])
    parts = []
    for at, count in enumerate(counts):
        own = slice(int(first[at]), int(first[at + 1]))
        both = _both_directions(sources[own], destinations[own], count, f"{raw}: graph {at}")
        parts.append((_categories(atoms[int(low[at]) : int(low[at + 1])]), *both, _categories(np.concatenate([bonds[own], bonds[own]]))))
    masks = _masks(file, len(counts))
    return smiles.graphs(parts, labels, masks if masks is not None else split(np.zeros(len(counts)), 0), file.name, raw)


def _graph_tables(raw: Path, counts: Array, edges: int) -> tuple[Array, Array, Array]:
    """Features of vertices and of edges, labels of graphs; a column of zeros where edges have no features."""
    atoms, bonds, labels = _matrix(raw, "node-feat"), _matrix(raw, "edge-feat"), _matrix(raw, "graph-label")
    if atoms is None or labels is None or len(labels) != len(counts) or len(atoms) != int(counts.sum()):
        raise fault(raw, "node-feat or graph-label is missing or too short", "unpack OGB's archive again")
    if bonds is not None and len(bonds) != edges:
        raise fault(raw, "edge-feat has another length than edge", "unpack OGB's archive again")
    return atoms, bonds if bonds is not None else np.zeros((edges, 1), np.float32), labels


def _both_directions(heads: Array, tails: Array, vertices: int, place: str) -> tuple[Array, Array]:
    """Ends of one graph's edges, then of the reverse edges; raises DataError at `place` for an end outside of the graph."""
    if len(heads) and (min(heads.min(), tails.min()) < 0 or max(heads.max(), tails.max()) >= vertices):
        raise fault(place, "an edge ends outside it", "unpack OGB's archive again")
    return np.concatenate([heads, tails]), np.concatenate([tails, heads])


def _categories(values: Array) -> Array:
    """Whole numbers as int64; others stay."""
    return values.astype(np.int64) if np.array_equal(values, np.trunc(values)) else values


def _masks(folder: Path, count: int) -> tuple[Array, Array, Array] | None:
    """Of the folder's one split; None where it has none."""
    home = folder / "split"
    names = sorted(entry.name for entry in home.iterdir() if entry.is_dir()) if home.is_dir() else []
    if not names:
        return None
    if len(names) > 1:
        raise fault(home, f"{len(names)} splits ({', '.join(names[:5])})", "keep the one to train with")
    masks = []
    for part in SPLIT_FILES:
        chosen = _column(home / names[0], part)
        if len(chosen) and (int(chosen.min()) < 0 or int(chosen.max()) >= count):
            raise fault(f"{home / names[0] / part}", f"a row outside 0..{count - 1}", "unpack OGB's archive again")
        mask = np.zeros(count, bool)
        mask[chosen] = True
        masks.append(mask)
    check_masks((masks[0], masks[1], masks[2]), count, home / names[0])
    return masks[0], masks[1], masks[2]


def _column(folder: Path, stem: str) -> Array:
    """(n,) int64 of a file with one column."""
    file = _named(folder, stem)
    if file is None:
        raise fault(folder, f"no {stem}.csv.gz", "unpack OGB's archive again")
    return tables.integers(table(file, None, header=False), 0, file)


def _matrix(folder: Path, stem: str) -> Array | None:
    """(n, c) float32, NaN where empty; None where the file is absent."""
    import pyarrow as pa

    file = _named(folder, stem)
    if file is None:
        return None
    rows = table(file, None, header=False)
    check_bytes(4 * rows.num_rows * rows.num_columns, file, f"{rows.num_rows} × {rows.num_columns} numbers")
    numbers = np.empty((rows.num_rows, rows.num_columns), np.float32)
    for at in range(rows.num_columns):
        try:
            numbers[:, at] = rows.column(at).cast(pa.float32(), safe=False).fill_null(np.nan).to_numpy()
        except pa.ArrowException:
            raise fault(f"{file}: column {at + 1}", f"holds {rows.column(at).type}", "unpack OGB's archive again") from None
    return numbers


def _named(folder: Path, stem: str) -> Path | None:
    return next((folder / (stem + suffix) for suffix in SUFFIXES if (folder / (stem + suffix)).is_file()), None)
