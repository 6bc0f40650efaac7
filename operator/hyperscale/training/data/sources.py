"""Where a data set is: a mounted claim or ConfigMap, or an object store."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from hyperscale.training.data import download
from hyperscale.training.data.available_memory import limit_bytes
from hyperscale.training.data.data_errors import fault

MOUNTED: Final = {"persistentVolumeClaim": "spec.dataset.path", "configMap": "spec.dataset.path"}


def local(source: str, path: str, cache: Path | None, endpoint: str | None) -> Path:
    """The file or folder of the data set on this machine, fetched where it must be; raises DataError."""
    if source == "s3":
        return download.fetch(path, cache, 4 * limit_bytes(), endpoint)
    if source not in MOUNTED:
        raise fault(
            "spec.dataset.source", f"{source[:40]!r} is not known", "write one of builtin, configMap, generated, persistentVolumeClaim, s3"
        )
    place = Path(path)
    try:
        exists = place.is_file() or place.is_dir()
    except OSError as error:
        raise fault(MOUNTED[source], f"{path[:80]} cannot be read ({error.strerror})", "write the path of the data set") from None
    if not exists and place.exists():
        raise fault(MOUNTED[source], f"{path} is no file and no folder", "write the path of the data set")
    if not exists:
        raise fault(MOUNTED[source], f"{path} does not exist in the mounted volume", "write the path of the data set inside it")
    return place
