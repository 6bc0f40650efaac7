"""What one worker holds of a training graph: its vertices, their in-neighbours, and copies of those that others own."""

from __future__ import annotations

import numpy as np

from hyperscale.model.adjacency import Array, LocalPart, TrainingGraph
from hyperscale.training.partition.partition_result import PartitionError


def local_part(graph: TrainingGraph, assignment: Array, part: int, parts: int | None = None) -> LocalPart:
    """The part of one worker; `assignment` is (n,) part of each vertex, `parts` their number where the last ones may be empty.

    Where the data set is many graphs, each must lie in one part whole, and `extra["graph_offsets"]` has the offsets of its own.
    """
    n = len(graph.indptr) - 1
    count = parts if parts is not None else int(assignment.max()) + 1
    if len(assignment) != n or not 0 <= part < count or (n and int(assignment.max()) >= count):
        raise PartitionError(f"assignment: need {n} parts of 0..{count - 1}, one for each vertex, and part {part} among them")
    owned = np.flatnonzero(assignment == part)
    indptr, entries = _rows(graph.indptr, owned)
    neighbours = graph.indices[entries].astype(np.int64)
    halo, halo_owner = _halo(neighbours, assignment, part)
    local = np.full(n, -1, dtype=np.int32)
    local[owned] = np.arange(len(owned), dtype=np.int32)
    local[halo] = np.arange(len(owned), len(owned) + len(halo), dtype=np.int32)
    rows = np.concatenate([owned, halo])
    items, extra = _items(graph, owned, part, assignment)
    if graph.edge_features is not None:
        extra["edge_features"] = graph.edge_features[entries]
    return LocalPart(
        part=part,
        parts=count,
        owned=owned.astype(np.int64),
        halo=halo,
        halo_owner=halo_owner,
        indptr=indptr,
        indices=local[neighbours],
        in_degree=np.diff(graph.indptr)[rows].astype(np.int32),
        out_degree=np.bincount(graph.indices, minlength=n)[rows].astype(np.int32),
        features=graph.features[owned],
        **{name: getattr(graph, name)[items] for name in ("labels", "train", "validation", "test")},
        classes=graph.classes,
        train_total=int(graph.train.sum()),
        extra=extra,
        name=graph.name,
    )


def _rows(indptr: Array, owned: Array) -> tuple[Array, Array]:
    """Row pointers of some rows, and where their entries stand in `indices`."""
    sizes = np.diff(indptr)[owned]
    pointers = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    entries = np.arange(pointers[-1], dtype=np.int64) + np.repeat(indptr[owned] - pointers[:-1], sizes)
    return pointers, entries


def _halo(neighbours: Array, assignment: Array, part: int) -> tuple[Array, Array]:
    """In-neighbours that others own, by (owner, global id)."""
    halo = np.unique(neighbours[assignment[neighbours] != part])
    owner = assignment[halo].astype(np.int32)
    order = np.argsort(owner, kind="stable")
    return halo[order].astype(np.int64), owner[order]


def _items(graph: TrainingGraph, owned: Array, part: int, assignment: Array) -> tuple[Array, dict[str, Array]]:
    """Rows of labels and masks that belong to the part: its vertices, or its graphs."""
    if graph.graph_offsets is None:
        return owned, {}
    offsets = graph.graph_offsets
    sizes = np.diff(offsets)
    here = np.add.reduceat(np.append(assignment == part, False).astype(np.int64), offsets[:-1]) if len(sizes) else sizes
    here = np.where(sizes > 0, here, 0)
    if ((here != 0) & (here != sizes)).any():
        raise PartitionError("assignment: a graph of the data set lies in two parts; give all its vertices the same part")
    graphs = np.flatnonzero(here > 0)
    return graphs, {"graph_offsets": np.concatenate([[0], np.cumsum(sizes[graphs])]).astype(np.int64), "graphs": graphs.astype(np.int64)}
