"""What Python itself sees of files, addresses and processes (PEP 578): names of hosts, and the only watch where calls cannot be filtered.

Code in C goes past it. An audit hook cannot be taken off again.
"""

from __future__ import annotations

import ipaddress
import os
import socket
import sys
from collections.abc import Callable
from typing import Any, Final

from hyperscale.evaluate.preflight.trial_types import Said, TrialEvent
from hyperscale.evaluate.preflight.watching.call_table import WRITING

Tell = Callable[[TrialEvent], None]
_CHANGES: Final = {
    "os.mkdir": (0,),
    "os.remove": (0,),
    "os.rmdir": (0,),
    "os.rename": (0, 1),
    "os.link": (0, 1),
    "os.symlink": (1,),
    "os.truncate": (0,),
    "os.chmod": (0,),
    "os.chown": (0,),
}
"""Event to the arguments that name files which change."""
_FORKS: Final = ("os.fork", "os.forkpty", "os.posix_spawn", "subprocess.Popen")
_CONNECTS: Final = ("socket.connect", "socket.sendto", "socket.sendmsg")
_LOOKUPS: Final = ("socket.getaddrinfo", "socket.gethostbyname")
LOCAL: Final = ("", "localhost", "localhost.localdomain", "ip6-localhost")


class Audit:
    """The hook. It tells what it sees, and refuses it where nothing else does."""

    def __init__(self, tell: Tell, writable: tuple[str, ...], max_processes: int, *, alone: bool, reachable: frozenset[str]) -> None:
        """alone: no filter watches calls; reachable: names of hosts that may be asked for."""
        self._tell, self._writable, self._max, self._alone = tell, writable, max_processes, alone
        self._reachable = reachable
        self._started = 1
        self._name = socket.gethostname()

    def install(self) -> None:
        """From now on, for the life of the process."""
        sys.addaudithook(self._hook)

    def _hook(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event in _LOOKUPS:
            self._lookup(arguments[0], arguments[1] if len(arguments) > 1 else None)
        if not self._alone:
            return
        if event == "open":
            self._open(*arguments)
        elif event in _CHANGES:
            for place in _CHANGES[event]:
                self._change(arguments[place])
        elif event in _FORKS:
            self._fork()
        elif event in _CONNECTS:
            self._connect(arguments[1])

    def _lookup(self, host: object, port: object) -> None:
        name = host.decode(errors="replace") if isinstance(host, bytes) else str(host or "")
        if name in LOCAL or name == self._name or name in self._reachable or _is_number(name):
            return
        self._tell(TrialEvent(Said.ADDRESS, f"{name}:{port}" if port else name))
        if self._alone:
            raise ConnectionRefusedError(f"{name} is no address of this job's data")

    def _open(self, path: object, mode: object, flags: object) -> None:
        writes = any(letter in mode for letter in "wax+") if isinstance(mode, str) else False
        if isinstance(path, str | bytes) and (writes or (isinstance(flags, int) and flags & WRITING)):
            self._change(path)

    def _change(self, path: object) -> None:
        if not isinstance(path, str | bytes):
            return
        name = os.path.realpath(os.fsdecode(path))
        own = f"/proc/{os.getpid()}/"
        if name.startswith(own):
            name = f"/proc/self/{name.removeprefix(own)}"
        if any(name == allowed.rstrip("/") or (allowed.endswith("/") and name.startswith(allowed)) for allowed in self._writable):
            return
        self._tell(TrialEvent(Said.WROTE, name[:512]))
        raise PermissionError(f"{name} is outside the folders of this job")

    def _fork(self) -> None:
        self._started += 1
        if self._started > self._max:
            self._tell(TrialEvent(Said.PROCESSES, f"it asked for more than {self._max} processes"))
            raise BlockingIOError("more processes than this job may start")

    def _connect(self, address: object) -> None:
        if not isinstance(address, tuple) or not address or str(address[0]) in (*LOCAL, "127.0.0.1", "::1", *self._reachable):
            return
        self._tell(TrialEvent(Said.ADDRESS, ":".join(map(str, address[:2]))))
        raise ConnectionRefusedError(f"{address[0]} is no address of this job's data")


def _is_number(name: str) -> bool:
    try:
        ipaddress.ip_address(name.partition("%")[0])
    except ValueError:
        return False
    return True
