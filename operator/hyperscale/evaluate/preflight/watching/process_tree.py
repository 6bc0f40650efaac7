"""The processes below one process, the memory that they take, and their end."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path
from typing import Final

_PROC: Final = Path("/proc")
END_SECONDS: Final = 5.0
"""Longest wait for killed processes to be gone."""


def descendants(root: int) -> list[int]:
    """Return the ids of all processes below `root`, without it, parents first."""
    below = _by_parent()
    ordered = list(below.get(root, ()))
    for each in ordered:  # grows while it is read
        ordered += below.get(each, ())
    return ordered


def children(root: int) -> list[int]:
    """Return the ids of the processes that `root` is the parent of, with those that only wait to be asked how they ended."""
    return _by_parent(ended=True).get(root, [])


def _by_parent(*, ended: bool = False) -> dict[int, list[int]]:
    below: dict[int, list[int]] = {}
    for entry in os.listdir(_PROC):
        if entry.isdigit():
            parent = _parent(int(entry), ended=ended)
            if parent is not None:
                below.setdefault(parent, []).append(int(entry))
    return below


def _parent(process: int, *, ended: bool) -> int | None:
    """None for one that is gone, and where `ended` is False for one that only waits to be asked how it ended.

    One whose first thread ended looks like that too, though its other threads run.
    """
    try:
        fields = (_PROC / str(process) / "stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return None
    return None if not ended and fields[0] in (b"Z", b"X") and not _other_threads(process) else int(fields[1])


def _other_threads(process: int) -> list[str]:
    with contextlib.suppress(OSError):
        return [each for each in os.listdir(_PROC / str(process) / "task") if each != str(process)]
    return []


def resident_bytes(processes: list[int]) -> int:
    """Return the memory that they wrote; pages that several share count once where there are several. Files of libraries do not count."""
    if len(processes) == 1:
        return _figures(processes[0], "status", (b"RssAnon:", b"RssShmem:"))
    # A process can close its maps, but not its status.
    shared = (b"Pss_Anon:", b"Pss_Shmem:"), (b"RssAnon:", b"RssShmem:")
    return sum(_figures(each, "smaps_rollup", shared[0]) or _figures(each, "status", shared[1]) for each in processes)


def _figures(process: int, file: str, fields: tuple[bytes, ...]) -> int:
    """0 for a process that is gone; a first thread that ended has no memory, and its other threads have everything."""
    places = (_PROC / str(process), *(_PROC / str(process) / "task" / each for each in _other_threads(process)))
    for place in places:
        with contextlib.suppress(OSError, ValueError):
            lines = [line for line in (place / file).read_bytes().splitlines() if line.startswith(fields)]
            if lines:
                return sum(int(line.split()[1]) << 10 for line in lines)
    return 0


def end_below(root: int) -> bool:
    """Kill all processes below `root` and wait for their end; whether they are gone. Those that are started meanwhile are killed too."""
    deadline = time.monotonic() + END_SECONDS
    while alive := descendants(root):
        for each in alive:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(each, signal.SIGKILL)
        _reap()
        if time.monotonic() > deadline:
            return False
        time.sleep(0.005)
    _reap()
    return True


def _reap() -> None:
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
