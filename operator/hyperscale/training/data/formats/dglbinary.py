"""DGL's binary files (`dgl.save_graphs`): one homogeneous graph, or many with a label each.

Vertex data: `feat` or `features`, `label` or `labels`, `train_mask`, `val_mask`, `test_mask`. Many graphs: the file's own labels, one
entry a graph (`label` or the only one); vertex `feat`, edge `feat`; the split is drawn by the seed.

`dgl.load_graphs` is DGL's own format read in C++: no pickle, nothing in it is run. Its parser trusts lengths inside the file, so
that a hostile file may crash the process that reads it: only the worker image reads data sets, as a user without rights, and files that
do not begin with DGL's mark are refused before.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any, Final

import numpy as np

from hyperscale.model.adjacency import Array, TrainingGraph
from hyperscale.training.data.assemble import RawGraph, assemble, split
from hyperscale.training.data.data_errors import fault
from hyperscale.training.data.formats import smiles
from hyperscale.training.data.limits import Stated, check_bytes

MAGIC: Final = 0xDD2E4FF046B4A13F
VERSION: Final = 2
FEATURES: Final = ("feat", "features")
LABELS: Final = ("label", "labels")
MASKS: Final = ("train_mask", "val_mask", "test_mask")


def read(file: Path, stated: Stated, seed: int) -> TrainingGraph:
    """The graph or graphs in `file`; raises DataError."""
    _check_header(file)
    check_bytes(2 * file.stat().st_size, file, "reading")
    try:
        import dgl

        graphs, labels = dgl.load_graphs(str(file))
    except ImportError as error:
        raise fault("spec.dataset.format", f"DGL cannot be imported here ({error})", "use the worker image, or write NPZ") from None
    except Exception as error:  # DGLError and whatever else its parser raises
        reason = str(error).partition("Stack trace")[0].rpartition("Check failed: ")[2]
        raise fault(file, f"DGL cannot read it ({reason[:200].strip()})", "write it with dgl.save_graphs") from None
    if not graphs:
        raise fault(file, "no graph", "write one with dgl.save_graphs")
    for graph in graphs:
        if not graph.is_homogeneous:
            raise fault(file, "a graph with several kinds of vertices or edges", "convert it with dgl.to_homogeneous")
    if len(graphs) > 1 or labels:
        return _many(file, graphs, labels, stated, seed)
    return _one(file, graphs[0], stated, seed)


def stated_graphs(file: Path) -> int:
    """Graphs in `file` as its first 32 bytes state; 0 where it is no file of DGL's. Raises OSError."""
    with file.open("rb") as opened:
        head = opened.read(32)
    if len(head) < 32:
        return 0
    mark, version, _kind_of_graph, graphs = struct.unpack("<QQQQ", head)
    return int(graphs) if (mark, version) == (MAGIC, VERSION) else 0


def _check_header(file: Path) -> None:
    try:
        with file.open("rb") as opened:
            head = opened.read(16)
    except OSError as error:
        raise fault(file, f"cannot be read ({error.strerror})", "name a file of dgl.save_graphs") from None
    if len(head) < 16 or struct.unpack("<QQ", head) != (MAGIC, VERSION):
        raise fault(file, "no DGL file of version 2", "write it with dgl.save_graphs, or state its format in spec.dataset.format")


def _one(file: Path, graph: Any, stated: Stated, seed: int) -> TrainingGraph:  # noqa: ANN401 - DGL ships no annotations
    sources, destinations = (ends.numpy() for ends in graph.edges(order="eid"))
    masks = [_entry(graph.ndata, (name,)) for name in MASKS]
    given = [mask.astype(bool) for mask in masks if mask is not None and np.isin(mask, (0, 1)).all()]
    if len(given) not in (0, len(MASKS)) or len(given) < sum(mask is not None for mask in masks):
        raise fault(file, f"not all of {', '.join(MASKS)} are there as truth values", "store all three, or none to have them drawn")
    labels = _entry(graph.ndata, LABELS)
    raw = RawGraph(
        graph.num_nodes(),
        sources,
        destinations,
        _entry(graph.ndata, FEATURES),
        labels.reshape(-1) if labels is not None and labels.size == graph.num_nodes() else labels,
        (given[0], given[1], given[2]) if len(given) == 3 else None,
        directed=True,  # DGL stores both directions of an undirected edge
    )
    return assemble(raw, file, file.stem, stated, seed)


def _many(file: Path, graphs: list[Any], labels: dict[str, Any], stated: Stated, seed: int) -> TrainingGraph:
    chosen = _entry(labels, LABELS)
    if chosen is None and len(labels) == 1:
        chosen = next(iter(labels.values())).numpy()
    if chosen is None or chosen.ndim == 0 or len(chosen) != len(graphs):
        raise fault(file, f"{len(graphs)} graphs without a label each", "write them with dgl.save_graphs(file, graphs, {'label': tensor})")
    stated.check_counts(sum(graph.num_nodes() for graph in graphs), sum(graph.num_edges() for graph in graphs), file)
    parts = [_arrays(graph, file, at) for at, graph in enumerate(graphs)]
    targets = chosen.reshape(len(graphs), -1).astype(np.float32)
    return smiles.graphs(parts, targets, split(np.zeros(len(graphs)), seed), file.stem, file)


def _arrays(graph: Any, file: Path, at: int) -> tuple[Array, Array, Array, Array]:  # noqa: ANN401
    features, edges = _entry(graph.ndata, FEATURES), _entry(graph.edata, FEATURES)
    if features is None or features.ndim != 2:
        raise fault(f"{file}: graph {at}", "no vertex data 'feat' of two dimensions", "store one row of numbers a vertex")
    sources, destinations = (ends.numpy().astype(np.int64) for ends in graph.edges(order="eid"))
    attributes = edges if edges is not None and edges.ndim == 2 else np.zeros((len(sources), 1), np.int64)
    return _kind(features), sources, destinations, _kind(attributes)


def _kind(values: Array) -> Array:
    return values.astype(np.int64 if values.dtype.kind in "iub" else np.float32)


def _entry(data: Any, names: tuple[str, ...]) -> Array | None:  # noqa: ANN401
    for name in names:
        if name in data:
            values: Array = data[name].numpy()
            return values
    return None
