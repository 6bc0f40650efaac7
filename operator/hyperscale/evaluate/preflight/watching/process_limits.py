"""Limits that a process sets for itself before it runs code that it does not trust, and what it knows of its own memory."""

from __future__ import annotations

import contextlib
import ctypes
import resource
import signal
from pathlib import Path
from typing import Final

from hyperscale.evaluate.preflight.trial_types import Limits

_STATUS: Final = Path("/proc/self/status")
_CLEAR: Final = Path("/proc/self/clear_refs")
_PR_SET_PDEATHSIG: Final = 1
STACK_BYTES: Final = 8 << 20
"""Of a thread's stack, which counts as soon as the thread exists."""
MAX_OPEN_FILES: Final = 1024


def end_with_parent() -> None:
    """Have the kernel kill this process when its parent is gone."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def set_limits(limits: Limits) -> list[str]:
    """Limit processor time, files and processes; return the names of what holds from now on. Memory has its own limit later."""
    seconds = max(1, int(limits.seconds * 16))  # threads add up
    wanted = (
        ("cpu time", resource.RLIMIT_CPU, seconds),
        ("file size", resource.RLIMIT_FSIZE, limits.file_bytes),
        ("core dumps", resource.RLIMIT_CORE, 0),
        ("open files", resource.RLIMIT_NOFILE, MAX_OPEN_FILES),
    )
    return [name for name, kind, most in wanted if _limited(kind, most)]


def _limited(kind: int, most: int) -> bool:
    hard = resource.getrlimit(kind)[1]
    most = most if hard == resource.RLIM_INFINITY else min(most, hard)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(kind, (most, most))
        return True
    return False


def set_memory_limit(memory_bytes: int, threads: int) -> list[str]:
    """Let this process write that number of bytes in all; what it has now counts with what is resident. Return the names of what holds.

    threads: whose stacks may still come; they count as soon as they are reserved
    """
    now = status_bytes("VmData") - status_bytes("RssAnon", "VmRSS")
    most = memory_bytes + max(0, now) + threads * STACK_BYTES
    return ["memory"] if _limited(resource.RLIMIT_DATA, most) else []


def status_bytes(*names: str) -> int:
    """Return the first of these figures that this kernel states of the process; 0 where it states none."""
    with contextlib.suppress(OSError, ValueError):
        lines = dict(line.split(":", 1) for line in _STATUS.read_text().splitlines() if ":" in line)
        for name in names:
            if name in lines:
                return int(lines[name].split()[0]) << 10
    return 0


def restart_peak() -> int:
    """Let the kernel's own peak of memory begin again, where it can; return what is resident now."""
    with contextlib.suppress(OSError):
        _CLEAR.write_text("5")
    return status_bytes("VmRSS")
