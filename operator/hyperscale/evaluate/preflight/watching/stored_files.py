"""What the files of a trial hold together."""

from __future__ import annotations

import contextlib
import os
from typing import Final

MAX_FILES: Final = 10_000
"""Files and folders that are looked at; more count as too much."""
_BLOCK: Final = 512
_TOO_MUCH: Final = 1 << 62


def folder_bytes(folder: str) -> int:
    """Return what all files below a folder hold on the disk, links not followed; more than any limit where they are too many."""
    total, looked, waiting = 0, 0, [folder]
    while waiting:
        with contextlib.suppress(OSError), os.scandir(waiting.pop()) as entries:
            for entry in entries:
                looked += 1
                if looked > MAX_FILES:
                    return _TOO_MUCH
                with contextlib.suppress(OSError):
                    total += entry.stat(follow_symlinks=False).st_blocks * _BLOCK
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
    return total


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
