"""What the files of a trial hold together."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator
from typing import Final

MAX_FILES: Final = 10_000
"""Files and folders that are looked at; more count as too much."""
MAX_LEVELS: Final = 100
"""Of folders that are looked into; a file below them counts as too much."""
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_BLOCK: Final = 512
_TOO_MUCH: Final = 1 << 62


class _TooMuchError(Exception):
    """More than is looked at, or a place where this process cannot look."""


def folder_bytes(folder: str) -> int:
    """Return what all files below a folder hold on the disk, links not followed.

    It is more than any limit where they are too many or lie too deep, or where a folder is closed to this process.
    """
    try:
        return sum(_sizes(os.open(folder, _FOLDER), MAX_LEVELS, [0]))
    except (OSError, _TooMuchError):
        return _TOO_MUCH


def _sizes(place: int, levels: int, looked: list[int]) -> Iterator[int]:
    """Bytes of each file below an open folder, which is closed at the end; `looked` counts. A file that goes meanwhile has none."""
    try:
        with os.scandir(place) as entries:
            for entry in entries:
                looked[0] += 1
                if looked[0] > MAX_FILES or levels == 0:
                    raise _TooMuchError
                with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                    state = entry.stat(follow_symlinks=False)
                    yield state.st_blocks * _BLOCK
                    if stat.S_ISDIR(state.st_mode):
                        yield from _sizes(os.open(entry.name, _FOLDER, dir_fd=place), levels - 1, looked)
    finally:
        os.close(place)


def unnamed_bytes(processes: list[int]) -> dict[int, int]:
    """Return what files without a name hold that these processes have open, by device; each file counts once."""
    sizes: dict[tuple[int, int], int] = {}
    for process in processes:
        with contextlib.suppress(OSError):
            for descriptor in os.listdir(f"/proc/{process}/fd"):
                with contextlib.suppress(OSError):
                    state = os.stat(f"/proc/{process}/fd/{descriptor}")
                    if stat.S_ISREG(state.st_mode) and not state.st_nlink:
                        sizes[state.st_dev, state.st_ino] = state.st_blocks * _BLOCK
    by_device: dict[int, int] = {}
    for (device, _), size in sizes.items():
        by_device[device] = by_device.get(device, 0) + size
    return by_device


def memory_folder_bytes(processes: list[int], folders: tuple[str, ...]) -> int:
    """Return what file systems in memory hold at these places, as the first of the processes has them that has a root of its own."""
    for process in processes:
        with contextlib.suppress(OSError):
            if not os.path.samefile(f"/proc/{process}/root", "/"):
                return held_bytes(f"/proc/{process}/root", folders)
    return 0


def held_bytes(root: str, folders: tuple[str, ...]) -> int:
    """Return what the file systems of these folders hold; each counts once, what cannot be read counts as empty."""
    used: dict[int, int] = {}
    for folder in folders:
        with contextlib.suppress(OSError):
            state = os.statvfs(f"{root}{folder}")
            used[os.stat(f"{root}{folder}").st_dev] = (state.f_blocks - state.f_bfree) * state.f_frsize
    return sum(used.values())
