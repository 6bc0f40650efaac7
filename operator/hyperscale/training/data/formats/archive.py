"""NPZ archives: the citation form (edges, CSR features, labels, split) and a plain one (dense features, masks). Never unpickles.

Keys: `edges` (m, 2), or `sources` and `destinations` (m,); `features` (n, f), or CSR `indptr, indices, data, shape`; `labels` (n,);
`split` (n,) of train/val/test/none, or `train`, `validation`, `test` (n,) bool; `directed` (bool, default false); `vertices` (count).
Sparse features are bags of words and are scaled to rows of sum 1, as DGL and PyTorch Geometric load the citation graphs.
"""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Final

import numpy as np

from hyperscale.model.adjacency import Array, TrainingGraph
from hyperscale.training.data.assemble import RawGraph, assemble
from hyperscale.training.data.data_errors import fault, faults, shown
from hyperscale.training.data.formats.tables import parts_of
from hyperscale.training.data.limits import Stated, check_bytes

SUFFIX: Final = ".npz"
KEYS: Final = frozenset(
    {
        "edges", "sources", "destinations", "features", "indptr", "indices", "data", "shape", "labels", "split",
        "train", "validation", "test", "directed", "vertices",
    }
)  # fmt: skip
SPARSE: Final = ("indptr", "indices", "data", "shape")


def read(file: Path, stated: Stated, seed: int) -> TrainingGraph:
    """The graph in `file`; raises DataError."""
    arrays = load(file)
    sources, destinations = _edges(arrays, file)
    features = _features(arrays, file)
    vertices = _vertices(arrays, features, sources, destinations, file)
    raw = RawGraph(
        vertices,
        sources,
        destinations,
        features,
        arrays.get("labels"),
        _masks(arrays, vertices, file),
        directed=_directed(arrays, file),
        notes=("sparse features are scaled to rows of sum 1",) if "features" not in arrays and features is not None else (),
    )
    return assemble(raw, file, file.name.removesuffix(SUFFIX), stated, seed)


def write(file: Path, graph: TrainingGraph) -> None:
    """The plain form of one graph; raises DataError for many graphs, OSError where `file` cannot be written."""
    if graph.graph_offsets is not None:
        raise fault(file, "many graphs", "NPZ holds one")
    vertices = len(graph.indptr) - 1
    with file.open("wb") as opened:
        np.savez(
            opened,
            vertices=np.int64(vertices),
            directed=np.bool_(True),
            sources=graph.indices,
            destinations=np.repeat(np.arange(vertices, dtype=graph.indices.dtype), np.diff(graph.indptr)),
            features=graph.features,
            labels=graph.labels,
            train=graph.train,
            validation=graph.validation,
            test=graph.test,
        )


def load(file: Path) -> dict[str, Array]:
    """The arrays of `file` under known keys; nothing is unpickled, and nothing larger than memory is unpacked."""
    # Of zipfile, zlib, and Python's own tokenizer, by which numpy reads the headers of arrays.
    with faults(file, "no readable NPZ archive", "write it with numpy.savez and no objects inside", Exception):
        with zipfile.ZipFile(file) as archive:
            wanted = [entry for entry in archive.infolist() if entry.filename.removesuffix(".npy") in KEYS]
            names = sorted(entry.filename for entry in wanted)
            if len(set(names)) < len(names):
                raise fault(file, f"an array twice ({', '.join(names)[:100]})", "write each once")
            check_bytes(sum(entry.file_size for entry in wanted), file, "unpacking")
        with np.load(file, allow_pickle=False) as opened:
            arrays = {name: opened[name] for name in sorted(KEYS.intersection(opened.files))}
    for name, array in arrays.items():
        if not isinstance(array, np.ndarray):
            raise fault(f"{file}: {name}", "no array", "write it with numpy.savez and no objects inside")
    return arrays


def _directed(arrays: dict[str, Array], file: Path) -> bool:
    if "directed" not in arrays:
        return False
    value = arrays["directed"]
    if value.size != 1 or value.dtype.kind not in "biu" or value.flat[0] not in (0, 1):
        raise fault(f"{file}: directed", f"{shown(value.tolist())} is no truth value", "write True or False")
    return bool(value.flat[0])


def _edges(arrays: dict[str, Array], file: Path) -> tuple[Array, Array]:
    if "edges" in arrays:
        edges = arrays["edges"]
        if edges.ndim != 2 or edges.shape[1] != 2:
            raise fault(f"{file}: edges", f"shape {edges.shape}", "write (m, 2)")
        return edges[:, 0], edges[:, 1]
    if "sources" in arrays and "destinations" in arrays:
        sources, destinations = arrays["sources"], arrays["destinations"]
        if sources.ndim != 1 or sources.shape != destinations.shape:
            raise fault(f"{file}: sources", f"shapes {sources.shape} and {destinations.shape} of destinations", "write (m,) each")
        return sources, destinations
    raise fault(file, "no edges", "write an array `edges` (m, 2), or `sources` and `destinations`")


def _features(arrays: dict[str, Array], file: Path) -> Array | None:
    if "features" in arrays:
        return arrays["features"]
    names = [name for name in SPARSE if name in arrays]
    if not names:
        return None
    if len(names) < len(SPARSE):
        raise fault(file, f"only {', '.join(names)} of a sparse matrix", f"write {', '.join(SPARSE)}, or `features`")
    indptr, columns, values, shape = (arrays[name] for name in SPARSE)
    if shape.shape != (2,) or shape.dtype.kind not in "iu" or int(shape.min()) < 0:
        raise fault(f"{file}: shape", "no two sizes", "write (vertices, features)")
    rows, width = int(shape[0]), int(shape[1])
    if not (_are_pointers(indptr, rows) and _are_entries(columns, values, int(indptr[-1]), width)):
        raise fault(f"{file}: indptr, indices, data", f"no CSR matrix of {rows} × {width}", "write scipy.sparse.csr_matrix's arrays")
    check_bytes(4 * rows * width, file, f"{rows} × {width} features")
    return scaled_rows(rows, width, indptr, columns, values)


def _are_pointers(indptr: Array, rows: int) -> bool:
    """Whether these point to the rows of a CSR matrix: whole numbers that rise from 0."""
    return (
        indptr.shape == (rows + 1,)
        and indptr.dtype.kind in "iu"
        and int(indptr[0]) == 0
        and bool((np.diff(indptr.astype(np.int64)) >= 0).all())
    )


def _are_entries(columns: Array, values: Array, count: int, width: int) -> bool:
    """Whether these are the `count` entries of a CSR matrix of `width` columns."""
    return (
        columns.dtype.kind in "iu"
        and values.dtype.kind in "fiub"
        and columns.shape == values.shape == (count,)
        and (not count or (int(columns.min()) >= 0 and int(columns.max()) < width))
    )


def scaled_rows(rows: int, width: int, indptr: Array, columns: Array, values: Array) -> Array:
    """(rows, width) float32 from CSR parts, each row with a sum scaled to 1."""
    dense = np.zeros((rows, width), np.float32)
    with np.errstate(over="ignore", invalid="ignore"):  # what is not finite is refused with its row later on
        np.add.at(dense, (np.repeat(np.arange(rows), np.diff(indptr)), columns), values.astype(np.float32))
        sums = dense.sum(axis=1, keepdims=True)
        np.divide(dense, sums, out=dense, where=sums != 0)
    return dense


def _vertices(arrays: dict[str, Array], features: Array | None, sources: Array, destinations: Array, file: Path) -> int:
    """Stated, else rows of features or labels, else the largest id plus one."""
    if "vertices" in arrays:
        stated = arrays["vertices"]
        if stated.size != 1 or stated.dtype.kind not in "iu" or int(stated.flat[0]) < 0:
            raise fault(f"{file}: vertices", "no count", "write one whole number")
        return int(stated.flat[0])
    for array in (features, arrays.get("labels")):
        if array is not None and array.ndim:
            return len(array)
    return max(_largest(sources, file), _largest(destinations, file)) + 1


def _largest(ids: Array, file: Path) -> int:
    """The largest vertex id; -1 without edges."""
    if not len(ids):
        return -1
    if ids.dtype.kind not in "iu":
        raise fault(f"{file}: edges", f"ids are {ids.dtype}", "write whole numbers")
    return int(ids.max())


def _masks(arrays: dict[str, Array], vertices: int, file: Path) -> tuple[Array, Array, Array] | None:
    if "split" in arrays:
        split = arrays["split"]
        if split.dtype.kind != "U" or split.shape != (vertices,):
            raise fault(f"{file}: split", f"{split.dtype} {split.shape}", "write train, val, test or none for each vertex")
        return parts_of(split, f"{file}: split")
    masks = [arrays.get(name) for name in ("train", "validation", "test")]
    given = [mask.astype(bool) for mask in masks if mask is not None and mask.dtype.kind in "biu" and np.isin(mask, (0, 1)).all()]
    if len(given) == 3:
        return given[0], given[1], given[2]
    if any(mask is not None for mask in masks):
        raise fault(
            f"{file}: train, validation, test",
            "not all three are arrays of truth values",
            "write one True or False a vertex in each, or `split`",
        )
    return None
