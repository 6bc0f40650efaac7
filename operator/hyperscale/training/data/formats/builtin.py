"""The public citation graphs by name. Cora and CiteSeer come with this package (planetoid/NOTICE names source and licence).

PubMed comes from a local folder, or from the administrator's address $HYPERSCALE_DATASETS_URL (`<url>/pubmed.npz`), else a graph of its
size is generated. No public address without pickles is known for the split that papers use: the `ind.*` files are pickles, and are never
read here.
"""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Final

from hyperscale.model.adjacency import TrainingGraph
from hyperscale.model.api.datasets import BUILTIN_SIZES
from hyperscale.training.data import download, generate
from hyperscale.training.data.data_errors import DataError, fault
from hyperscale.training.data.formats import archive
from hyperscale.training.data.limits import Stated

FOLDER_VARIABLE: Final = "HYPERSCALE_DATASETS"
URL_VARIABLE: Final = "HYPERSCALE_DATASETS_URL"
SHIPPED: Final = {"Cora": "cora.npz", "CiteSeer": "citeseer.npz"}
"""File of each graph that the package carries."""
FOLDER: Final = Path(__file__).with_name("planetoid")
GENERATED_SUFFIX: Final = " (generated)"
MAX_DOWNLOAD_BYTES: Final = 64 * 2**20

_log = logging.getLogger("hyperscale.training.data")


def read(name: str, cache: Path | None, seed: int) -> TrainingGraph:
    """The builtin graph `name`; raises DataError where the name is unknown or a local file is not what it says."""
    if name not in BUILTIN_SIZES:
        raise fault("spec.dataset.source.builtin.name", f"{name[:40]!r} is not known", f"write one of {', '.join(sorted(BUILTIN_SIZES))}")
    if name in SHIPPED:
        return TrainingGraph(**{**vars(archive.read(FOLDER / SHIPPED[name], Stated(), seed)), "name": name, "notes": ()})
    folder = os.environ.get(FOLDER_VARIABLE)
    file = local_file(name, Path(folder)) if folder else None
    reason = f"{FOLDER_VARIABLE} is not set" if not folder else f"{folder} has no {name}.npz"
    if file is None:
        try:
            file = _download(name, cache)
            reason += f", nor is {URL_VARIABLE}" if not folder else f"; {URL_VARIABLE} is not set"
        except DataError as error:
            reason += f"; {error}"
    if file is None:
        return _generated(name, seed, reason)
    graph = archive.read(file, Stated(), seed)
    _check(graph, name, file)
    return TrainingGraph(**{**vars(graph), "name": name, "notes": ()})


def is_stand_in(source: str, name: str) -> bool:
    """Whether the graph of that name was generated because the builtin one was not to be had; files of users may have any name."""
    return source == "builtin" and name.endswith(GENERATED_SUFFIX)


def local_file(name: str, folder: Path) -> Path | None:
    """`<folder>/<name>.npz`, as written or in small letters."""
    candidates = (folder / f"{name}.npz", folder / f"{name.lower()}.npz")
    return next((file for file in candidates if file.is_file()), None)


def _download(name: str, cache: Path | None) -> Path | None:
    """The archive from the administrator's address, kept in the cache; None where no address is named."""
    base = os.environ.get(URL_VARIABLE)
    if not base:
        return None
    return download.fetch(f"{base.rstrip('/')}/{name.lower()}.npz", cache, MAX_DOWNLOAD_BYTES, None)


def _check(graph: TrainingGraph, name: str, file: Path) -> None:
    size = BUILTIN_SIZES[name]
    sizes = (len(graph.indptr) - 1, len(graph.indices), graph.features.shape[1], graph.classes)
    if sizes != tuple(size):
        raise fault(file, f"(vertices, edges, features, classes) is {sizes}, {name} has {tuple(size)}", "put the public graph there")
    _log.warning("%s: no checksum of %s is known; only its sizes were checked", file, name)


def _generated(name: str, seed: int, reason: str) -> TrainingGraph:
    """A block graph of the same size, and a warning that says so."""
    size = BUILTIN_SIZES[name]
    warning = "%s is not to be had (%s): taking a GENERATED block graph of the same size; accuracy on it says nothing of %s"
    _log.warning(warning, name, reason, name)
    return generate.generate(generate.Recipe(generate.Kind.SBM, *size), seed, name + GENERATED_SUFFIX)
