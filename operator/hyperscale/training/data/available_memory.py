"""Memory that this process may use: the lowest limit of its control groups and of itself, or the machine's memory."""

from __future__ import annotations

import os
import resource
from pathlib import Path
from typing import Final

CGROUP: Final = Path("/sys/fs/cgroup")
UNLIMITED: Final = 2**60
"""cgroup v1 writes a number near 2**63 where nothing is limited."""


def limit_bytes(root: Path = CGROUP, groups: Path = Path("/proc/self/cgroup")) -> int:
    """Bytes: the lowest of memory.max (v2), memory.limit_in_bytes (v1) from this process's group up; ulimit -v; the machine's."""
    limits = [_machine_bytes(), _own_bytes(), *(_number(folder / name) for folder, name in _limit_files(root, groups))]
    return min(value for value in limits if value is not None)


def _machine_bytes() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _own_bytes() -> int | None:
    soft, _ = resource.getrlimit(resource.RLIMIT_AS)
    return None if soft == resource.RLIM_INFINITY else soft


def _limit_files(root: Path, groups: Path) -> list[tuple[Path, str]]:
    """Where limits may stand; the group's own folder and all above, since a pod's limit is above its container's."""
    files = [(root, "memory.max"), (root / "memory", "memory.limit_in_bytes")]
    try:
        lines = groups.read_text().splitlines()
    except OSError:
        return files
    for line in lines:
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        unified = number == "0" and not controllers
        if not unified and "memory" not in controllers.split(","):
            continue
        base, name = (root, "memory.max") if unified else (root / "memory", "memory.limit_in_bytes")
        parts = [part for part in path.split("/") if part and part != ".."]
        files += [(base.joinpath(*parts[: depth + 1]), name) for depth in range(len(parts))]
    return files


def _number(file: Path) -> int | None:
    """The limit in a file; None where it is absent or says "max"."""
    try:
        text = file.read_text().strip()
    except OSError:
        return None
    return int(text) if text.isdigit() and int(text) < UNLIMITED else None
