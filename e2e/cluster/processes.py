"""Background processes of one cluster directory: started in their own group, recorded, found again, and ended to the last.

A process belongs to a directory in two ways: by a record `run/<name>.json` (pid and start time, so that a recycled pid is
never touched), and by the variable MARKER in its environment, which finds what a killed `up` had no time to record.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

MARKER: Final = "HYPERSCALE_CLUSTER_DIRECTORY"
_PROC: Final = Path("/proc")
_POLL_SECONDS: Final = 0.02


class ProcessError(Exception):
    """A process ended, or did not get ready; the message carries the end of its log."""


@dataclass(frozen=True, slots=True)
class Identity:
    """One process of this boot of the machine."""

    pid: int
    start_ticks: int
    """Field 22 of /proc/PID/stat: clock ticks from boot to the start of the process."""


class Record(msgspec.Struct, frozen=True):
    """What run/<name>.json holds."""

    pid: int
    start_ticks: int
    command: tuple[str, ...]


def identity_of(pid: int) -> Identity | None:
    """Who runs under this pid now; None for no process or a zombie."""
    try:
        text = (_PROC / str(pid) / "stat").read_text()
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()
    return None if fields[0] in "ZX" else Identity(pid, int(fields[19]))


class ProcessTable:
    """The processes of one cluster directory."""

    def __init__(self, directory: Path) -> None:
        self._records = directory / "run"
        self._logs = directory / "logs"
        self._marker = str(directory)

    def start(self, name: str, command: Sequence[str], environment: Mapping[str, str] | None = None) -> Identity:
        """Start `command` in a session of its own, output to logs/<name>.log; replaces the record of that name."""
        for folder in (self._records, self._logs):
            folder.mkdir(parents=True, exist_ok=True)
        variables = {**os.environ, **(environment or {}), MARKER: self._marker}
        append = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        pid = os.posix_spawnp(
            command[0],
            list(command),
            variables,
            setsid=True,
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_OPEN, 1, str(self.log(name)), append, 0o644),
                (os.POSIX_SPAWN_DUP2, 1, 2),
            ],
        )
        identity = identity_of(pid) or Identity(pid, 0)
        record = Record(identity.pid, identity.start_ticks, tuple(command))
        unfinished = self._records / f".{name}"
        unfinished.write_bytes(msgspec.json.encode(record))
        unfinished.rename(self._records / f"{name}.json")
        return identity

    def log(self, name: str) -> Path:
        """Where the process of that name writes."""
        return self._logs / f"{name}.log"

    def names(self) -> tuple[str, ...]:
        """Names with a record, sorted."""
        return tuple(sorted(path.stem for path in self._records.glob("[!.]*.json")))

    def identity(self, name: str) -> Identity | None:
        """The running process of that name; None when it ended or never was."""
        try:
            record = msgspec.json.decode((self._records / f"{name}.json").read_bytes(), type=Record)
        except (OSError, msgspec.DecodeError):
            return None
        _reap(record.pid)
        found = identity_of(record.pid)
        return found if found == Identity(record.pid, record.start_ticks) else None

    def tail(self, name: str, lines: int = 8) -> str:
        """The last lines of a log, for messages."""
        try:
            return "\n".join(self.log(name).read_text(errors="replace").splitlines()[-lines:])
        except OSError:
            return "(no log)"

    def require(self, name: str) -> None:
        """Raises ProcessError with the end of the log when the process is not running."""
        if self.identity(name) is None:
            raise ProcessError(f"{name} ended unexpectedly; the end of {self.log(name)}:\n{self.tail(name)}")

    def stop(self, name: str, signal_number: int = signal.SIGTERM, grace_seconds: float = 5.0) -> None:
        """End one process and its group: `signal_number` first, SIGKILL after the grace. Forgets the record."""
        found = self.identity(name)
        if found is not None:
            _end([found], signal_number, grace_seconds)
        (self._records / f"{name}.json").unlink(missing_ok=True)

    def stop_all(self, grace_seconds: float = 5.0) -> None:
        """End everything that belongs to the directory, recorded or not."""
        _end(sorted(set(self._recorded()) | set(self._marked()), key=lambda one: one.pid), signal.SIGTERM, grace_seconds)
        _end(sorted(self._marked(), key=lambda one: one.pid), signal.SIGKILL, grace_seconds)
        for name in self.names():
            (self._records / f"{name}.json").unlink(missing_ok=True)

    def kill_named(self, prefix: str) -> None:
        """SIGKILL what belongs to the directory and whose program's name begins so: shims, which ignore anything milder."""
        _end([one for one in self._marked() if _program(one.pid).startswith(prefix)], signal.SIGKILL, 5.0)

    def _recorded(self) -> Iterator[Identity]:
        for name in self.names():
            found = self.identity(name)
            if found is not None:
                yield found

    def _marked(self) -> Iterator[Identity]:
        wanted = f"{MARKER}={self._marker}".encode()
        for entry in _PROC.iterdir():
            if not entry.name.isdigit() or int(entry.name) == os.getpid():
                continue
            with contextlib.suppress(OSError):
                if wanted in (entry / "environ").read_bytes().split(b"\0"):
                    found = identity_of(int(entry.name))
                    if found is not None:
                        yield found


def _program(pid: int) -> str:
    """The first 15 characters of its program's name; empty when it has ended."""
    try:
        return (_PROC / str(pid) / "comm").read_text().strip()
    except OSError:
        return ""


def _end(processes: Sequence[Identity], signal_number: int, grace_seconds: float) -> None:
    """Signal all, wait until all are gone, SIGKILL what remains."""
    for one in processes:
        _send(one, signal_number)
    if not _wait_gone(processes, grace_seconds):
        for one in processes:
            _send(one, signal.SIGKILL)
        _wait_gone(processes, grace_seconds)


def _send(one: Identity, signal_number: int) -> None:
    """Signal the process's group when it leads one, else the process, and only while the pid is still its own."""
    if identity_of(one.pid) != one:
        return
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if os.getpgid(one.pid) == one.pid:
            os.killpg(one.pid, signal_number)
        else:
            os.kill(one.pid, signal_number)


def _wait_gone(processes: Sequence[Identity], seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while True:
        for one in processes:
            _reap(one.pid)
        if not any(identity_of(one.pid) == one for one in processes):
            return True
        if time.monotonic() >= deadline:
            return False
        time.sleep(_POLL_SECONDS)


def _reap(pid: int) -> None:
    """Collect an ended child of this very process; other processes' children are collected by init."""
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)
