"""One command at a time on a cluster directory."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def locked(directory: Path) -> Iterator[None]:
    """Hold the directory for one command; makes it. The lock is on the directory itself, so nothing is left beside it."""
    while True:
        directory.mkdir(parents=True, exist_ok=True)
        handle = os.open(directory, os.O_RDONLY)
        fcntl.flock(handle, fcntl.LOCK_EX)
        try:
            same = os.stat(directory).st_ino == os.fstat(handle).st_ino
        except FileNotFoundError:
            same = False
        if same:
            break
        os.close(handle)  # the holder before us was `down` and removed it
    try:
        yield
    finally:
        os.close(handle)
