"""Files that are written at once or not at all."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def replacing(file: Path) -> Iterator[Path]:
    """A path beside `file` that takes its place when the block ends well, on disk before it does."""
    handle, name = tempfile.mkstemp(dir=file.parent, prefix=".part-")
    os.close(handle)
    fresh = Path(name)
    try:
        yield fresh
        with fresh.open("rb+") as written:
            os.fsync(written.fileno())
        fresh.chmod(0o644)  # other programs may run as another user
        os.replace(fresh, file)
    finally:
        fresh.unlink(missing_ok=True)
