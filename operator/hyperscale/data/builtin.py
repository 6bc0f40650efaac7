"""The public citation graphs by name: from a local folder, or from the administrator's address, or generated of the same size.

No public address without pickles is known for the split that papers use (the `ind.*` files are pickles, and are never read here), so
an address is what the administrator names in $HYPERSCALE_DATASETS_URL: `<url>/<name>.npz`. Contents are checked by the graph's own
digest, not by the file's: it holds for every archive of the same graph.
"""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Final

from hyperscale.data import archive, download, generate
from hyperscale.data.digest import graph_digest
from hyperscale.data.errors import DataError, fault
from hyperscale.data.limits import Stated
from hyperscale.model.adjacency import TrainingGraph
from hyperscale.model.datasets import BUILTIN_SIZES

FOLDER_VARIABLE: Final = "HYPERSCALE_DATASETS"
URL_VARIABLE: Final = "HYPERSCALE_DATASETS_URL"
DIGESTS: Final = {
    "Cora": "bd0008cdb1d5fa8c297c6a93d5cab1c902f70683048f62ff5005f4c49867cf69",
    "CiteSeer": "684154931b52aa291af681af3bba83f63c1097fa53947188ac84e9ab6c38d318",
}
"""`graph_digest` of Planetoid's graphs (kimiyoung/planetoid, commit af6abf4) with their public split."""
GENERATED_SUFFIX: Final = " (generated)"
MAX_DOWNLOAD_BYTES: Final = 64 * 2**20

_log = logging.getLogger("hyperscale.data")


def read(name: str, cache: Path | None, seed: int) -> TrainingGraph:
    """The builtin graph `name`; raises DataError where the name is unknown or a local file is not what it says."""
    if name not in BUILTIN_SIZES:
        raise fault("spec.dataset.source.builtin.name", f"{name[:40]!r} is not known", f"write one of {', '.join(sorted(BUILTIN_SIZES))}")
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
    return TrainingGraph(**{**vars(graph), "name": name})


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
    found = (len(graph.indptr) - 1, len(graph.indices), graph.features.shape[1], graph.classes)
    if found != tuple(size):
        raise fault(file, f"(vertices, edges, features, classes) is {found}, {name} has {tuple(size)}", "put the public graph there")
    known = DIGESTS.get(name)
    if known and graph_digest(graph) != known:
        raise fault(file, f"its contents are not those of the public {name} (digest differs)", "put the public graph there")
    if not known:
        _log.warning("%s: no checksum of %s is known; only its sizes were checked", file, name)


def _generated(name: str, seed: int, reason: str) -> TrainingGraph:
    """A block graph of the same size, and a warning that says so."""
    size = BUILTIN_SIZES[name]
    warning = "%s is not to be had (%s): taking a GENERATED block graph of the same size; accuracy on it says nothing of %s"
    _log.warning(warning, name, reason, name)
    return generate.generate(generate.Recipe(generate.Kind.SBM, *size), seed, name + GENERATED_SUFFIX)
