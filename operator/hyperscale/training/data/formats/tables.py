"""Edge and vertex tables (pyarrow) to arrays: the same columns in CSV, TSV and Parquet.

Edges: columns `source` and `destination` (or src/dst, from/to, head/tail, u/v), else the first two; more columns are left alone.
Vertices: `label` (whole numbers, empty or -1 for unknown), `split` (train, val, test, anything else), optionally `id` (0..n-1); every
other column of numbers is a feature, in order, or one column `features` of lists.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from hyperscale.model.adjacency import Array
from hyperscale.training.data.assemble import NO_LABEL, RawGraph, finite
from hyperscale.training.data.data_errors import fault, shown
from hyperscale.training.data.limits import MAX_VERTICES, Stated, check_bytes

if TYPE_CHECKING:
    import pyarrow as pa

SOURCES: Final = ("source", "src", "from", "head", "u")
DESTINATIONS: Final = ("destination", "dst", "to", "tail", "v", "target")
ID, LABEL, SPLIT, FEATURES = "id", "label", "split", "features"
SPLITS: Final = (("train",), ("val", "valid", "validation"), ("test",))
NO_PART: Final = ("", "none")
SPARSE_IDS: Final = 10
"""Vertices for each end of an edge from which on ids are taken for anything but numbers from 0: a warning says so."""

_log = logging.getLogger("hyperscale.training.data")


def raw_graph(edges: pa.Table, nodes: pa.Table | None, edge_file: Path, node_file: Path | None, stated: Stated) -> RawGraph:
    """Arrays of both tables; raises DataError naming file and column."""
    sources, destinations = edge_ids(edges, edge_file)
    if nodes is None:
        return _without_nodes(sources, destinations, edge_file, stated)
    place = node_file if node_file is not None else edge_file
    nodes = named(nodes, place)
    order = _order(nodes, place)
    labels = _labels(nodes, place)
    features = features_of(nodes, place)
    masks = _masks(nodes, place)
    if order is not None:
        labels = labels[order] if labels is not None else None
        features = features[order] if features is not None else None
        masks = (masks[0][order], masks[1][order], masks[2][order]) if masks is not None else None
    return RawGraph(nodes.num_rows, sources, destinations, features, labels, masks, table=place)


def _without_nodes(sources: Array, destinations: Array, file: Path, stated: Stated) -> RawGraph:
    """Edges alone: as many vertices as the job states or the largest id needs."""
    largest = max(int(ids.max(initial=-1)) for ids in (sources, destinations))
    notes: tuple[str, ...] = ()
    smallest = min((int(ids.min()) for ids in (sources, destinations) if len(ids)), default=0)
    if smallest == 1 and (stated.vertices is None or stated.vertices <= largest):
        # A vertex 0 that no edge names would be an invented one.
        sources, destinations, largest = sources - 1, destinations - 1, largest - 1
        notes = ("ids begin at 1: vertex i of the file is vertex i - 1 here",)
    vertices = max(largest + 1, stated.vertices or 0)
    if vertices > MAX_VERTICES:
        raise fault(file, f"vertex {largest} is beyond {MAX_VERTICES}", "number the vertices from 0 without gaps")
    check_bytes(64 * vertices + 40 * len(sources), file, f"{vertices} vertices")
    if largest + 1 > SPARSE_IDS * 2 * max(len(sources), 1):
        _log.warning("%s: ids up to %d in %d edges: all vertices between are held; number them from 0", file, largest, len(sources))
    return RawGraph(vertices, sources, destinations, notes=notes)


def named(table: pa.Table, file: Path, meant: tuple[str, ...] = (ID, LABEL, SPLIT, FEATURES)) -> pa.Table:
    """`table` with its `known` columns under these names, however written; raises DataError where two columns have one name."""
    plain = [name.strip().lower() for name in table.column_names]
    names = [other if other in meant else name for other, name in zip(plain, table.column_names, strict=True)]
    twice = next((name for at, name in enumerate(names) if name in names[:at]), None)
    if twice is not None:
        raise fault(f"{file}: column {shown(twice)}", "two columns of this name", "name each column once")
    return table.rename_columns(names)


def parts_of(words: Array, place: str) -> tuple[Array, Array, Array]:
    """Train, validation and test (n,) bool of `words` (n,) text; what is no part's name is left out, and a warning says so.

    Raises DataError where nothing else is there to train on.
    """
    plain = np.char.lower(np.char.strip(words.astype(np.str_)))
    other = ~np.isin(plain, [*NO_PART, *(name for names in SPLITS for name in names)])
    if other.any():
        example = shown(str(words[int(np.argmax(other))]))
        if not np.isin(plain, SPLITS[0]).any():
            raise fault(place, f"{example} is no part, and nothing is in train", "write train, val or test")
        _log.warning(
            "%s: %d of %d entries are in no part, such as %s; parts are train, val and test", place, other.sum(), len(words), example
        )
    return np.isin(plain, SPLITS[0]), np.isin(plain, SPLITS[1]), np.isin(plain, SPLITS[2])


def edge_ids(table: pa.Table, file: Path) -> tuple[Array, Array]:
    """(m,) int64 each."""
    names = [name.strip().lower() for name in table.column_names]
    chosen = [next((names.index(name) for name in spellings if name in names), None) for spellings in (SOURCES, DESTINATIONS)]
    if None in chosen:
        if table.num_columns < 2:
            raise fault(file, f"{table.num_columns} columns", "write two columns: source and destination of each edge")
        chosen = [0, 1]
    first, second = (integers(table, int(at or 0), file) for at in chosen)
    return first, second


def integers(table: pa.Table, at: int, file: Path) -> Array:
    """Column `at` as int64 without gaps."""
    import pyarrow as pa

    column, name = table.column(at), table.column_names[at]
    if not len(column):
        return np.zeros(0, np.int64)
    if column.null_count:
        raise fault(f"{file}: column {shown(name)}", "a value is missing", "write a whole number in every row")
    if not pa.types.is_integer(column.type):
        raise fault(f"{file}: column {shown(name)}", f"holds {column.type}, not whole numbers", "number the vertices from 0")
    values: Array = column.to_numpy()
    if values.dtype.kind == "u" and int(values.max()) > np.iinfo(np.int64).max:
        raise fault(f"{file}: column {shown(name)}", f"{int(values.max())} is no id", "number the vertices from 0")
    ids: Array = values.astype(np.int64, copy=False)
    return ids


def features_of(table: pa.Table, file: Path) -> Array | None:
    """(n, f) float32; None where the table has none."""
    import pyarrow as pa

    names = [name for name in table.column_names if name not in (ID, LABEL, SPLIT, FEATURES)]
    if FEATURES in table.column_names:
        if names:
            _log.warning("%s: columns beside 'features' are left out: %s", file, ", ".join(map(shown, names))[:200])
        return _listed(table, file)
    check_bytes(4 * table.num_rows * len(names), file, f"{table.num_rows} × {len(names)} features")
    features = np.empty((table.num_rows, len(names)), np.float32)
    for at, name in enumerate(names):
        column = table.column(name)
        if column.null_count or not (
            pa.types.is_integer(column.type) or pa.types.is_floating(column.type) or pa.types.is_boolean(column.type)
        ):
            raise fault(f"{file}: column {shown(name)}", "not a number in every row", "write numbers, or drop the column")
        features[:, at] = finite(column.to_numpy()[:, None], f"{file}: column {shown(name)}: row")[:, 0]
    return features if names else None


def _listed(table: pa.Table, file: Path) -> Array:
    """One column of lists of equal length."""
    import pyarrow as pa

    column: Any = table.column(FEATURES)
    if not (pa.types.is_list(column.type) or pa.types.is_large_list(column.type) or pa.types.is_fixed_size_list(column.type)):
        raise fault(f"{file}: column 'features'", f"holds {column.type}", "write lists of numbers of equal length")
    lengths = column.combine_chunks().value_lengths().to_numpy(zero_copy_only=False) if table.num_rows else np.zeros(0)
    if column.null_count or (len(lengths) and (lengths != lengths[0]).any()):
        raise fault(f"{file}: column 'features'", "lists of different lengths", "write equally many numbers for each vertex")
    width = int(lengths[0]) if len(lengths) else 0
    check_bytes(8 * table.num_rows * width, file, f"{table.num_rows} × {width} features")
    try:
        values = column.combine_chunks().flatten().to_numpy(zero_copy_only=False).astype(np.float32)
    except (TypeError, ValueError):
        raise fault(f"{file}: column 'features'", "not numbers", "write lists of numbers") from None
    features: Array = values.reshape(table.num_rows, width)
    return features


def _order(table: pa.Table, file: Path) -> Array | None:
    """Rows by vertex where the table has ids."""
    if ID not in table.column_names:
        return None
    ids = integers(table, table.column_names.index(ID), file)
    order = np.argsort(ids, kind="stable")
    if not np.array_equal(ids[order], np.arange(len(ids))):
        raise fault(f"{file}: column 'id'", f"not each of 0..{len(ids) - 1} once", "number the vertices from 0 without gaps")
    return order


def _labels(table: pa.Table, file: Path) -> Array | None:
    import pyarrow as pa

    if LABEL not in table.column_names:
        return None
    column = table.column(LABEL)
    if not pa.types.is_integer(column.type) and column.null_count < len(column):
        raise fault(f"{file}: column 'label'", f"holds {column.type}", "write class numbers 0, 1, 2 …; empty for unknown")
    try:
        labels: Array = column.cast(pa.int64()).fill_null(NO_LABEL).to_numpy().astype(np.int64)
    except pa.ArrowInvalid as error:
        raise fault(f"{file}: column 'label'", str(error), "number the classes from 0 without gaps") from None
    return labels


def _masks(table: pa.Table, file: Path) -> tuple[Array, Array, Array] | None:
    import pyarrow as pa

    if SPLIT not in table.column_names:
        return None
    column = table.column(SPLIT)
    if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type) or pa.types.is_null(column.type)):
        raise fault(f"{file}: column 'split'", f"holds {column.type}", "write train, val, test, or leave it empty")
    return parts_of(column.cast(pa.string()).fill_null("").to_numpy(), f"{file}: column 'split'")
