"""Files that a command line names: read up to a bound, written whole or not at all."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from hyperscale.cli.documents import STDIN
from hyperscale.cli.exit_codes import InputError


def read_bounded(path: Path, most_bytes: int) -> bytes:
    """At most `most_bytes` + 1 bytes of a file, so that a larger one (or a device without end) can be recognised; raises OSError."""
    with path.open("rb") as opened:
        return opened.read(most_bytes + 1)


@contextlib.contextmanager
def replaced(name: str, option: str) -> Iterator[Path]:
    """A path beside file `name` that takes its place when the block ends well; what stood there stays until then.

    Devices, pipes and files in folders that cannot be written are written in place. InputError, in the words of `option`, on OSError.
    """
    if not name or Path(name).is_dir():
        raise InputError(f"{option}: {name!r} is no file name; name a file to write")
    try:
        with _beside(Path(os.path.realpath(name))) as fresh:
            yield fresh
    except OSError as error:
        raise InputError(f"{option}: cannot write {name!r}: {error.strerror or error}; name another file") from None


@contextlib.contextmanager
def _beside(file: Path) -> Iterator[Path]:
    if file.exists() and not (file.is_file() and os.access(file, os.W_OK) and os.access(file.parent, os.W_OK)):
        yield file
        return
    fresh = file.with_name(f".hyperscale-{os.getpid()}.part")
    try:
        yield fresh
        if file.exists():
            shutil.copymode(file, fresh)
        with fresh.open("rb+") as written:
            os.fsync(written.fileno())
        fresh.replace(file)
    finally:
        with contextlib.suppress(OSError):
            fresh.unlink(missing_ok=True)


def check_writable(path: str, option: str) -> None:
    """InputError where a file could not be written there, before any time is spent on its content."""
    file = Path(path)
    if path in ("", STDIN) or "\0" in path or file.is_dir():
        raise InputError(f"{option}: {path!r} is no file name; name a file to write")
    if not file.parent.is_dir():
        raise InputError(f"{option}: folder {str(file.parent)!r} does not exist; create it or name another")
