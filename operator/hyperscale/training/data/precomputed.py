"""Parts that came with a data set: `parts.parquet` in its folder, or `FILE.parts.parquet` beside it (`hyperscale partition --out`)."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np

from hyperscale.model.adjacency import Array
from hyperscale.training.data.data_errors import DataError, fault
from hyperscale.training.data.formats import parquet, tables
from hyperscale.training.data.sources import local

NAME: Final = "parts.parquet"
VERTEX, PART = "vertex", "part"


def read_parts(source: str, path: str, vertices: int, parts: int, cache: Path | None, endpoint: str | None) -> Array:
    """(n,) int32 part of each vertex; raises DataError where the file is absent or does not fit graph and plan."""
    if source in ("builtin", "generated"):
        raise fault("spec.partitioning.method", f"Precomputed, and a {source} data set has no parts", "write Auto or METIS")
    file = _file(source, path, cache, endpoint)
    table = parquet.table(file, vertices)
    for name in (VERTEX, PART):
        if name not in table.column_names:
            raise fault(file, f"no column {name!r}", "write it with `hyperscale partition DATA --out FILE`")
    ids, numbers = (tables.integers(table, table.column_names.index(name), file) for name in (VERTEX, PART))
    order = np.argsort(ids, kind="stable")
    if not np.array_equal(ids[order], np.arange(vertices)):
        raise fault(f"{file}: column {VERTEX!r}", f"not each of 0..{vertices - 1} once", "write it for this graph")
    by_vertex = numbers[order]
    if len(by_vertex) and (int(by_vertex.min()) < 0 or int(by_vertex.max()) >= parts):
        raise fault(
            f"{file}: column {PART!r}", f"a part outside 0..{parts - 1}", f"write {parts} parts, as many as spec.partitioning.count"
        )
    return by_vertex.astype(np.int32)


def _file(source: str, path: str, cache: Path | None, endpoint: str | None) -> Path:
    if source == "s3":
        try:
            return local(source, f"{path}.{NAME}", cache, endpoint)
        except DataError:
            place = local(source, path, cache, endpoint)
    else:
        place = local(source, path, cache, endpoint)
    file = place / NAME if place.is_dir() else place.with_name(f"{place.name}.{NAME}")
    if not file.is_file():
        raise fault(file, "absent, and spec.partitioning.method is Precomputed", "write it with `hyperscale partition DATA --out FILE`")
    return file
