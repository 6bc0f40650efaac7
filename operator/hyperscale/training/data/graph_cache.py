"""Graphs that took long to read, kept in the cache: molecules take RDKit a millisecond each, and every run wants them again.

Keyed by the file's contents, format, seed where it matters and the versions of what reads it; safetensors, written at once or not at
all. Only slow formats, and files rather than folders.
"""

from __future__ import annotations

import hashlib
import importlib
from collections.abc import Callable
from dataclasses import fields
from importlib import metadata
from pathlib import Path
from typing import Final

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from hyperscale.model.adjacency import TrainingGraph
from hyperscale.training.data.content_digest import graph_digest
from hyperscale.training.data.limits import AUTO
from hyperscale.training.data.replacing import replacing

SLOW: Final = {"SMILES": "rdkit", "GraphML": "hyperscale"}
"""Formats worth it, and the package whose version decides what they read as."""
DRAWN: Final = frozenset({"GraphML"})
"""Of them those whose split is drawn; the others read the same with every seed."""
VERSION: Final = 4


def remembered(
    place: Path, form: str, seed: int, cache: Path | None, make: Callable[[], TrainingGraph], direction: str = AUTO
) -> TrainingGraph:
    """What `make` gives, from the cache where it is there whole; a cache that cannot be used is ignored."""
    if cache is None or form not in SLOW or not place.is_file():
        return make()
    version = _version(SLOW[form])
    if version is None:
        return make()
    with place.open("rb") as opened:
        contents = hashlib.file_digest(opened, "sha256").hexdigest()
    drawn = seed if form in DRAWN else 0
    name = hashlib.sha256(f"{VERSION} {form} {drawn} {direction} {version} {contents}".encode()).hexdigest()[:32]
    file = cache / f"{name}.graph.safetensors"
    kept = _load(file)
    if kept is not None:
        return kept
    graph = make()
    _save(file, graph)
    return graph


def _version(package: str) -> str | None:
    """As installed, else as it says of itself: the worker image copies this package without metadata. None where neither is there."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        pass
    try:
        said = getattr(importlib.import_module(package), "__version__", None)
    except ImportError:  # the reader says what to install
        return None
    return said if isinstance(said, str) else None


def _save(file: Path, graph: TrainingGraph) -> None:
    arrays = {entry.name: getattr(graph, entry.name) for entry in fields(graph)}
    about = {"classes": str(graph.classes), "name": graph.name, "digest": graph_digest(graph), "notes": "\n".join(graph.notes)}
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with replacing(file) as fresh:
            save_file({key: np.ascontiguousarray(value) for key, value in arrays.items() if isinstance(value, np.ndarray)}, fresh, about)
    except (OSError, SafetensorError):  # full or read-only: reading again is all it costs
        return


def _load(file: Path) -> TrainingGraph | None:
    """None where it is absent or damaged."""
    try:
        with safe_open(file, framework="numpy") as opened:
            about = opened.metadata() or {}
            arrays = {key: opened.get_tensor(key) for key in opened.keys()}  # noqa: SIM118 - no mapping
        graph = TrainingGraph(**arrays, classes=int(about["classes"]), name=about["name"], notes=tuple(about["notes"].splitlines()))
    except (OSError, SafetensorError, KeyError, TypeError, ValueError):
        return None
    return graph if graph_digest(graph) == about.get("digest") else None
