"""`read`: the file of a source, its reader, its checks."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Final, Protocol, cast

from hyperscale.model.adjacency import TrainingGraph
from hyperscale.training.data import generate
from hyperscale.training.data.data_errors import fault
from hyperscale.training.data.formats import builtin
from hyperscale.training.data.graph_cache import remembered
from hyperscale.training.data.limits import AUTO, DIRECTION_PATH, Stated
from hyperscale.training.data.sources import local

READERS: Final = {
    "CSV": "hyperscale.training.data.formats.edgelist",
    "DGL": "hyperscale.training.data.formats.dglbinary",
    "GraphML": "hyperscale.training.data.formats.graphml_reader",
    "NPZ": "hyperscale.training.data.formats.archive",
    "OGB": "hyperscale.training.data.formats.ogb",
    "Parquet": "hyperscale.training.data.formats.parquet",
    "SMILES": "hyperscale.training.data.formats.smiles",
}
"""Module of each format, imported only when it is used: some need large libraries."""


class Reader(Protocol):
    """What a module of `READERS` has."""

    def read(self, file: Path, stated: Stated, seed: int) -> TrainingGraph:
        """The graph in a file or folder; raises DataError."""
        ...


def read(
    source: str,
    path: str,
    format: str,  # noqa: A002 - the contract's own name
    *,
    cache: Path | None,
    seed: int = 0,
    endpoint: str | None = None,
    stated: Stated | None = None,
) -> TrainingGraph:
    """The training graph of a job; raises DataError with one line for its owner.

    `source` is builtin, persistentVolumeClaim, configMap, s3 or generated; `path` as in HYPERSCALE_DATASET_PATH; `format` one of
    `READERS`. Downloads go to `cache`, or to the temporary folder. `seed` draws generated graphs, and the split of data sets that come
    without one.
    """
    sizes = stated if stated is not None else Stated()
    if sizes.direction != AUTO and source in ("builtin", "generated"):
        raise fault(DIRECTION_PATH, f"a {source} graph has both directions of every edge", "leave it out")
    if source == "builtin":
        graph = builtin.read(path, cache, seed)
    elif source == "generated":
        graph = generate.generate(generate.recipe(path, sizes), seed)
    else:
        if format not in READERS:
            raise fault("spec.dataset.format", f"{format[:40]!r} is not known", f"write one of {', '.join(sorted(READERS))}")
        reader = cast("Reader", importlib.import_module(READERS[format]))
        place = local(source, path, cache, endpoint)
        graph = remembered(place, format, seed, cache, lambda: reader.read(place, sizes, seed), sizes.direction)
    if sizes.direction != AUTO and graph.graph_offsets is not None:
        raise fault(DIRECTION_PATH, "edges of many graphs have both directions", "leave it out")
    sizes.check(graph, graph.name or path)
    return graph
