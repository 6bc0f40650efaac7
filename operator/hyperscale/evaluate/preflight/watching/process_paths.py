"""Where a path leads, as the process that names it means it: from its folders, through its links, below its own root."""

from __future__ import annotations

import os
from typing import Final

AT_FDCWD: Final = -100
OWN: Final = "/proc/self"
"""Stands for the process in a resolved path, whatever its number is."""
MAX_LINKS: Final = 40
"""Followed in one path; the kernel follows no more."""
_DELETED: Final = " (deleted)"


def joined(process: int, folder: int, path: str) -> str:
    """Return the path from the root: relative ones begin at the working directory or at an open folder. Raises OSError."""
    if path.startswith("/"):
        return path
    base = os.readlink(f"/proc/{process}/cwd" if folder == AT_FDCWD else f"/proc/{process}/fd/{folder}")
    return f"{base}/{path}" if path else base


def absolute(process: int, folder: int, path: str) -> str:
    """Return the same path as people write it."""
    return os.path.normpath("/" + joined(process, folder, path).lstrip("/"))


def shown(path: str) -> str:
    """Return the path in characters that every report can hold."""
    return path.encode(errors="surrogateescape").decode(errors="replace")[:512]


class ProcessPaths:
    """The files of one process."""

    def __init__(self, process: int, *, own_root: bool) -> None:
        """own_root: it sees other files than this process."""
        self._process, self._own_root = process, own_root
        self._group = group_of(process)

    def resolved(self, path: str, *, last: bool = True) -> str:
        """Return the path without links and `..`; below OWN where it is of the process itself. Raises OSError.

        last: whether a link at its very end is followed. A file that is in no folder (a pipe) is "pipe:[1]", as the kernel names it.
        """
        place, left, links = "/", _parts(path), 0
        while left:
            place = self._named(place, left.pop())
            target = self._target(place) if left or last else None
            if target is None:
                continue
            links += 1
            if links > MAX_LINKS:
                raise OSError(f"more than {MAX_LINKS} links")
            if place.startswith(f"{OWN}/"):
                target = target.removesuffix(_DELETED)
                if not target.startswith("/"):
                    return target  # a pipe, a socket, memory
            place = "/" if target.startswith("/") else os.path.dirname(place)
            left += _parts(target)
        return place

    def _named(self, place: str, part: str) -> str:
        if part == "..":
            return os.path.dirname(place)
        own = place == "/proc" and (part in ("self", "thread-self") or (not self._own_root and part in (str(self._process), self._group)))
        return OWN if own else f"{place.rstrip('/')}/{part}"

    def _target(self, place: str) -> str | None:
        """None for what is no link, or is not there."""
        try:
            return os.readlink(self._here(place))
        except OSError:
            return None

    def _here(self, place: str) -> str:
        """The path by which this process sees the same file."""
        if place == OWN or place.startswith(f"{OWN}/"):
            return f"/proc/{self._process}{place[len(OWN) :]}"
        return f"/proc/{self._process}/root{place}" if self._own_root else place


def _parts(path: str) -> list[str]:
    """Its names, the first one last."""
    return [part for part in path.split("/") if part not in ("", ".")][::-1]


def group_of(process: int) -> str:
    """Return the id of a thread's process; of the thread where it cannot be read."""
    try:
        with open(f"/proc/{process}/status", "rb") as status:
            return next((line.split()[1].decode() for line in status if line.startswith(b"Tgid:")), str(process))
    except OSError:
        return str(process)
