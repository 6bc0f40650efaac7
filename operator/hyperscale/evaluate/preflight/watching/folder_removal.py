"""Removes a trial's folder, however deep it is and whatever modes the code left in it."""

from __future__ import annotations

import contextlib
import os
import secrets
from typing import Final

_FOLDER: Final = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def remove_folder(folder: str) -> bool:
    """Remove the folder with everything in it; whether it is gone. Nothing may work in it meanwhile, and no link is followed.

    Every folder below moves up into the outermost one, so that no path grows long and three are open at most.
    """
    with contextlib.suppress(OSError):
        top = _opened(folder, None)
        try:
            waiting = _emptied(top, top)
            while waiting:
                waiting += _emptied_below(waiting.pop(), top)
        finally:
            os.close(top)
        os.rmdir(folder)
    return not os.path.lexists(folder)


def _emptied_below(name: str, top: int) -> list[str]:
    """Remove a folder of the outermost one; return the names that its own folders have there now."""
    moved: list[str] = []
    with contextlib.suppress(OSError):
        place = _opened(name, top)
        try:
            moved = _emptied(place, top)
        finally:
            os.close(place)
        os.rmdir(name, dir_fd=top)
    return moved


def _emptied(place: int, top: int) -> list[str]:
    """Remove the files and move the folders to the outermost one; return the names that they have there."""
    moved: list[str] = []
    with os.scandir(place) as entries:
        for entry in list(entries):
            with contextlib.suppress(OSError):
                if not entry.is_dir(follow_symlinks=False):
                    os.unlink(entry.name, dir_fd=place)
                    continue
                os.close(_opened(entry.name, place))  # to move a folder takes the right to write to it
                name = secrets.token_hex(16)
                os.rename(entry.name, name, src_dir_fd=place, dst_dir_fd=top)
                moved.append(name)
    return moved


def _opened(name: str, folder: int | None) -> int:
    """Open a folder to which this process has every right from now on. Raises OSError."""
    handle = os.open(name, os.O_PATH | _FOLDER, dir_fd=folder)
    try:
        os.chmod(f"/proc/self/fd/{handle}", 0o700)
        return os.open(".", os.O_RDONLY | _FOLDER, dir_fd=handle)
    finally:
        os.close(handle)
