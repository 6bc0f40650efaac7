"""One name for the contents of a graph: equal digests mean equal arrays, wherever and however they were stored."""

from __future__ import annotations

import hashlib
from dataclasses import fields

import numpy as np

from hyperscale.model.adjacency import Array, TrainingGraph

FIELDS = tuple(entry.name for entry in fields(TrainingGraph) if entry.name not in ("classes", "name", "notes"))
CHUNK = 1 << 24


def graph_digest(graph: TrainingGraph) -> str:
    """64 hex digits of sha256 over every array with its name, kind and shape, and the number of classes; the name does not count.

    Width of integers does not count either: ids are hashed as int64.
    """
    total = hashlib.sha256(f"hyperscale-graph-1 classes={graph.classes}\n".encode())
    for name in FIELDS:
        array = getattr(graph, name)
        if array is not None:
            _update(total, name, array)
    return total.hexdigest()


def _update(total: hashlib._Hash, name: str, array: Array) -> None:
    flat = np.ascontiguousarray(array).reshape(-1)
    kind = "i8" if flat.dtype.kind in "iu" else flat.dtype.newbyteorder("<").str.lstrip("<|")
    total.update(f"{name} {kind} {array.shape}\n".encode())
    wanted = np.dtype("<i8") if kind == "i8" else flat.dtype.newbyteorder("<")
    for start in range(0, len(flat), CHUNK):
        total.update(flat[start : start + CHUNK].astype(wanted, copy=False).data)
