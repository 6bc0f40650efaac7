"""Files and folders from an address: bounded, put into the cache at once or not at all."""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from hyperscale.training.data.data_errors import DataError, fault
from hyperscale.training.data.replacing import replacing

CHUNK_BYTES: Final = 1 << 20
TIMEOUT_SECONDS: Final = 30
MAX_FILES: Final = 1000
"""Of a folder: data sets have few, large ones."""
SCHEMES: Final = ("s3", "https", "http")


def fetch(url: str, cache: Path | None, most_bytes: int, endpoint: str | None) -> Path:
    """`url` as a local file or folder, from the cache where it is there already; raises DataError.

    Cached files are named by address, size and the store's own version, so that a changed object is fetched again.
    """
    if url.partition("://")[0] not in SCHEMES:
        raise fault(
            url[:80], "no address that can be read", f"write one that begins with {', '.join(f'{scheme}://' for scheme in SCHEMES)}"
        )
    folder = cache if cache is not None else Path(tempfile.gettempdir()) / f"hyperscale-{os.getuid()}"
    with _faults(url, folder):
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        system, place = _open(url, endpoint)
        files = _entries(system, place, most_bytes, url)
        versions = [(name, entry.get("size"), _version(entry)) for name, entry in files.items()]
        home = folder / f"{hashlib.sha256(repr((url, endpoint, versions)).encode()).hexdigest()[:32]}-{Path(url).name}"
        for name in files:
            file = home / name if name else home
            if not file.is_file():
                file.parent.mkdir(parents=True, exist_ok=True)
                _copy(system, f"{place.rstrip('/')}/{name}" if name else place, file, most_bytes, url)
        return home


def _open(url: str, endpoint: str | None) -> tuple[Any, str]:
    """File system and the path in it."""
    import fsspec

    options: dict[str, Any] = {}
    if url.startswith("s3://"):
        options = {"client_kwargs": {"endpoint_url": endpoint} if endpoint else {}, "config_kwargs": {
            "connect_timeout": TIMEOUT_SECONDS, "read_timeout": TIMEOUT_SECONDS, "retries": {"max_attempts": 3}}}  # fmt: skip
        options["anon"] = not (os.environ.get("AWS_ACCESS_KEY_ID") or os.environ.get("AWS_WEB_IDENTITY_TOKEN_FILE"))
    system, place = fsspec.core.url_to_fs(url, **options)
    return system, place


def _entries(system: Any, place: str, most_bytes: int, url: str) -> dict[str, Any]:  # noqa: ANN401
    """What is said of the file, by an empty name, or of each file of the folder; raises DataError for more than `most_bytes`."""
    about = system.info(place)
    files = _files(system, place, url) if about.get("type") == "directory" else {"": about}
    total = sum(entry.get("size") or 0 for entry in files.values())
    if total > most_bytes:
        raise fault(url, f"{total} bytes are more than the {most_bytes} allowed", "check the address")
    return files


def _files(system: Any, place: str, url: str) -> dict[str, Any]:  # noqa: ANN401
    """What is below a folder, by relative name, sorted."""
    root = place.rstrip("/") + "/"
    entries = {name.removeprefix(root): entry for name, entry in system.find(place, detail=True).items() if name.startswith(root)}
    if not 0 < len(entries) <= MAX_FILES:
        raise fault(url, f"a folder of {len(entries)} files", f"name one with 1 to {MAX_FILES}")
    if any(".." in name.split("/") or name.startswith("/") for name in entries):
        raise fault(url, "a file name with ..", "rename it")
    return {name: entries[name] for name in sorted(entries) if name}


def _version(entry: dict[str, Any]) -> str:
    """The store's own name for a file's contents; empty where it has none."""
    return str(entry.get("ETag") or entry.get("LastModified") or "")


def _copy(system: Any, place: str, file: Path, most_bytes: int, url: str) -> None:  # noqa: ANN401 - fsspec ships no annotations
    """Stream into a file beside the final one, then rename."""
    with replacing(file) as fresh, fresh.open("wb") as out, system.open(place, "rb") as incoming:
        total = 0
        while chunk := incoming.read(CHUNK_BYTES):
            total += len(chunk)
            if total > most_bytes:
                raise fault(url, f"more than the {most_bytes} bytes allowed", "check the address")
            out.write(chunk)


@contextlib.contextmanager
def _faults(url: str, folder: Path) -> Iterator[None]:
    """Whatever client libraries raise, as one line."""
    try:
        yield
    except DataError:
        raise
    except PermissionError as error:
        raise fault(
            url, f"access denied, or {folder} cannot be written ({error})", "check credentials and spec.dataset.source.s3.secretRef.name"
        ) from None
    except FileNotFoundError:
        raise fault(url, "not found", "check bucket and path") from None
    except Exception as error:  # botocore, aiohttp and fsspec each have their own
        raise fault(url, f"cannot be read ({type(error).__name__}: {str(error)[:200]})", "check address, endpoint and network") from None
