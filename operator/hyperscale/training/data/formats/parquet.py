"""Parquet: one file of edges, or a folder with `edges.parquet` and `nodes.parquet` (columns: tables.py)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from hyperscale.model.adjacency import TrainingGraph
from hyperscale.training.data.assemble import assemble
from hyperscale.training.data.data_errors import fault, faults
from hyperscale.training.data.formats import tables
from hyperscale.training.data.formats.edgelist import pair
from hyperscale.training.data.limits import Stated, check_bytes

if TYPE_CHECKING:
    import pyarrow as pa

SUFFIXES: Final = (".parquet", ".pq")


def read(file: Path, stated: Stated, seed: int) -> TrainingGraph:
    """The graph in a file or folder; raises DataError."""
    edge_file, node_file = pair(file, SUFFIXES)
    edges = table(edge_file, stated.edges)
    nodes = table(node_file, stated.vertices) if node_file is not None else None
    return assemble(tables.raw_graph(edges, nodes, edge_file, node_file, stated), edge_file, file.name, stated, seed)


def table(file: Path, most_rows: int | None) -> pa.Table:
    """A file as a table; its own header tells how large it will be before anything is read."""
    import pyarrow as pa
    from pyarrow import parquet

    kinds = pa.ArrowException, OSError, ValueError, MemoryError
    with faults(file, "no readable Parquet file", "write it with pyarrow or pandas", *kinds), parquet.ParquetFile(file) as opened:
        about = opened.metadata
        if most_rows is not None and about.num_rows > most_rows:
            raise fault(file, f"{about.num_rows} rows, the job states {most_rows}", "correct spec.dataset.vertices and spec.dataset.edges")
        size = sum(about.row_group(group).total_byte_size for group in range(about.num_row_groups))
        check_bytes(3 * size, file, f"{about.num_rows} rows")
        rows = opened.read(use_threads=False)
        rows.column_names  # noqa: B018 - decodes the names, which nothing has checked yet
        return rows
