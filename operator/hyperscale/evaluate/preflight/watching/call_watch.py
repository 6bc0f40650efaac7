"""The watcher's side of the filter: reads which file, address or process a call is about, and lets it happen or not.

A call's arguments lie in memory that its process can change after they were read. Where the kernel itself keeps files and network away
(bubblewrap, Landlock), the answer is only the record.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import platform
import socket
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from hyperscale.evaluate.preflight.trial_types import Said, TrialEvent
from hyperscale.evaluate.preflight.watching.addresses import DNS_PORT, Address, Reach, address_of, is_loopback
from hyperscale.evaluate.preflight.watching.call_table import (
    FORKS,
    LIMITING,
    MACHINES,
    PATH_CALLS,
    PRIORITIES,
    SCHEDULING,
    SHARED_MEMORY,
    SIGNALS,
    TALKS,
    WAITS,
)
from hyperscale.evaluate.preflight.watching.name_queries import leaves_machine, name_of, query_of
from hyperscale.evaluate.preflight.watching.own_sockets import PORTS, address_bound, bind_to_loopback, borrowed
from hyperscale.evaluate.preflight.watching.process_paths import AT_FDCWD, OWN, ProcessPaths, absolute, group_of, joined, shown
from hyperscale.evaluate.preflight.watching.process_tree import descendants
from hyperscale.evaluate.preflight.watching.shared_names import SharedNames

_RECEIVE: Final = 0xC0502100
_SEND: Final = 0xC0182101
_NOTICE: Final = struct.Struct("=QIIiIQ6Q")
_ANSWER: Final = struct.Struct("=QqiI")
_CONTINUE: Final = 1
_MAX_PATH: Final = 4096
_MAX_ADDRESS: Final = 128
_MAX_ASKING: Final = 1024
_MAX_MESSAGES: Final = 64
"""Of one sendmmsg."""
OWN_FILES: Final = ("mem", "clear_refs", "comm", "oom_score_adj", "coredump_filter", "timerslack_ns")
"""Below /proc/self and its threads; all end with the process."""
SPARE_PROCESSES: Final = 4
"""The sandbox's own."""
PRETENDED: Final = -1
"""Instead of an error: the call is not made, and its process hears that it worked."""
NAME_CACHES: Final = ("/var/run/nscd/socket", "/run/nscd/socket")
"""The C library asks there for names of users too; it is refused and means nothing."""


@dataclass
class CallWatch:
    """Answers the calls of one trial."""

    listener: int
    writable: tuple[str, ...]
    """Files, and folders that end with a slash."""
    reach: Reach
    max_processes: int
    own_processes: bool
    """Whether the trial has process ids of its own, so that it can signal no other process."""
    own_network: bool = False
    """Whether no other program is on its network, as in a pod."""
    shared: SharedNames = field(default_factory=SharedNames)
    """Its names in /dev/shm, where it has none of its own."""
    forks: int = 0
    """Processes that it has started."""

    def __post_init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._asking: set[tuple[int, int]] = set()
        self._names = {number: name for name, number in MACHINES[platform.machine()].calls.items()}

    def answer(self) -> list[TrialEvent]:
        """Answer the call that waits; return what must be said about the call. Nothing where its process is gone."""
        buffer = ctypes.create_string_buffer(_NOTICE.size)
        if self._libc.ioctl(self.listener, ctypes.c_ulong(_RECEIVE), buffer) != 0:
            return []
        notice, process, _, number, _, _, *arguments = _NOTICE.unpack(buffer.raw)
        events: list[TrialEvent] = []
        try:
            error = self._judge(self._names.get(number, ""), process, arguments, events)
        except (OSError, ValueError, struct.error):
            error = errno.EPERM  # what cannot be read is not allowed
        reply = _ANSWER.pack(notice, 0, -max(error, 0), 0 if error else _CONTINUE)
        self._libc.ioctl(self.listener, ctypes.c_ulong(_SEND), ctypes.create_string_buffer(reply, len(reply)))
        return events

    def _judge(self, name: str, process: int, arguments: list[int], events: list[TrialEvent]) -> int:
        """The error that the call gets; 0 lets it happen, PRETENDED says that it did."""
        if name in PATH_CALLS:
            return self._paths(name, process, arguments, events)
        if name == "clone" or name in FORKS:
            return self._fork(events)
        if name == LIMITING or name in SIGNALS:
            return self._signal(process, _signed(arguments[0]))
        if name in SCHEDULING:
            return self._schedule(_signed(arguments[0]))
        if name in PRIORITIES:
            return self._schedule(_signed(arguments[1])) if _signed(arguments[0]) in PRIORITIES[name] else self._schedule(None)
        if name in TALKS:
            return self._talk(name, process, arguments, events)
        if name in WAITS:
            return self._wait(name, process, arguments, events)
        return errno.EPERM

    def _paths(self, name: str, process: int, arguments: list[int], events: list[TrialEvent]) -> int:
        call, error = PATH_CALLS[name], 0
        for folder, path in call.paths:
            at = AT_FDCWD if folder is None else _signed(arguments[folder])
            text = _text(process, arguments[path])
            if not self._may_write(joined(process, at, text), process):
                events.append(TrialEvent(Said.WROTE, shown(absolute(process, at, text))))
                error = errno.EACCES
        return error

    def _may_write(self, file: str, process: int) -> bool:
        """By its name in the folder where it really is, and by where the link leads that it may be."""
        paths = ProcessPaths(process, own_root=self.own_processes)
        place, leads_to = paths.resolved(file, last=False), paths.resolved(file)
        if place.startswith(f"{OWN}/"):
            return self._is_writable(leads_to)  # nothing there can be removed
        return self._is_writable(place) and self._is_writable(leads_to)

    def _is_writable(self, name: str) -> bool:
        if not name.startswith("/"):
            return True  # a pipe, a socket, memory: nothing that stays
        if name.startswith(f"{OWN}/"):
            return name.rpartition("/")[2] in OWN_FILES
        if name.startswith(SHARED_MEMORY) and not self.own_processes:
            return self.shared.claim(name)
        return any(_within(name, allowed) for allowed in self.writable)

    def _goal(self, process: int, place: int, length: int) -> Address | None:
        """The address in the process's memory, of a socket in a folder where its links lead."""
        address = address_of(_read(process, place, min(length, _MAX_ADDRESS)))
        if address is None or not address.is_path:
            return address
        return Address(self._real(process, joined(process, AT_FDCWD, address.host)), None)

    def _real(self, process: int, path: str, *, last: bool = True) -> str:
        return ProcessPaths(process, own_root=self.own_processes).resolved(path, last=last)

    def _fork(self, events: list[TrialEvent]) -> int:
        if len(descendants(os.getpid())) < self.max_processes:
            self.forks += 1
            return 0
        events.append(TrialEvent(Said.PROCESSES, f"it asked for more than {self.max_processes - SPARE_PROCESSES} processes at once"))
        return errno.EAGAIN

    def _signal(self, process: int, target: int) -> int:
        if self.own_processes or target == process or target in descendants(os.getpid()):
            return 0
        return errno.EPERM

    def _schedule(self, target: int | None) -> int:
        """target: a process, a thread or the first process of a group, 0 for the caller; None for all processes of a user."""
        if self.own_processes or target == 0:
            return 0
        return 0 if target is not None and int(group_of(target)) in descendants(os.getpid()) else errno.EPERM

    def _wait(self, name: str, process: int, arguments: list[int], events: list[TrialEvent]) -> int:
        """Sockets in folders are files; others wait on loopback, or in a network of their own."""
        if self.own_processes and name == "listen":
            return 0
        own: socket.socket | None = None
        with contextlib.suppress(OSError):
            own = None if self.own_processes else borrowed(process, _signed(arguments[0]))
        try:
            return self._listen(own, arguments, events) if name == "listen" else self._bind(own, process, arguments, events)
        finally:
            if own is not None:
                own.close()

    def _bind(self, own: socket.socket | None, process: int, arguments: list[int], events: list[TrialEvent]) -> int:
        sockaddr = _read(process, arguments[1], min(arguments[2] & 0xFFFFFFFF, _MAX_ADDRESS))
        address = address_of(sockaddr)
        if address is None:  # the kernel takes a family of 0 for the internet's
            return 0 if self.own_processes or sockaddr[:2] != bytes(2) else errno.EAFNOSUPPORT
        if address.is_path:
            address = Address(self._real(process, joined(process, AT_FDCWD, address.host), last=False), None)
        if own is not None and address.port in PORTS:
            return bind_to_loopback(own, address) or PRETENDED
        if self._may_wait(address):
            return 0
        events.append(TrialEvent(Said.ADDRESS, shown(address.text)))
        return errno.EACCES

    def _may_wait(self, address: Address) -> bool:
        """Whether the process itself may bind a socket there."""
        if address.is_path or self.own_processes:
            return self.reach.allows(address) if address.is_path else True
        return address.port in PORTS and (self.own_network or is_loopback(address.host))

    def _listen(self, own: socket.socket | None, arguments: list[int], events: list[TrialEvent]) -> int:
        """What was never bound would wait on every address of the machine."""
        if own is None:
            return 0 if self.own_network else errno.EACCES
        address = address_bound(own)
        if address is None or not (address.is_path or is_loopback(address.host)):
            events.append(TrialEvent(Said.ADDRESS, f"{shown(address.text) if address else 'a socket'} (to listen)"))
            return errno.EACCES
        own.listen(max(0, _signed(arguments[1])))
        return PRETENDED

    def _talk(self, name: str, process: int, arguments: list[int], events: list[TrialEvent]) -> int:
        named = False
        for place, length in _addresses(name, process, arguments):
            named = True
            address = self._goal(process, place, length)
            if address is None or self.reach.allows(address):
                continue
            if address.host in NAME_CACHES:
                return errno.ECONNREFUSED
            if name == "connect" and address.port == DNS_PORT:
                if len(self._asking) >= _MAX_ASKING:
                    self._asking.clear()  # their queries go nowhere either: nothing is connected
                self._asking.add((process, arguments[0]))
                return PRETENDED
            events.append(TrialEvent(Said.ADDRESS, shown(address.text)))
            return errno.ECONNREFUSED
        if name == "connect":
            self._asking.discard((process, arguments[0]))
        elif not named and (process, arguments[0]) in self._asking:
            host = name_of(query_of(name, arguments, lambda place, length: _read(process, place, length)))
            if leaves_machine(host):
                events.append(TrialEvent(Said.ADDRESS, host))
            return errno.ECONNREFUSED
        return 0


def _within(name: str, allowed: str) -> bool:
    return name == allowed.rstrip("/") or (allowed.endswith("/") and name.startswith(allowed))


def _addresses(name: str, process: int, arguments: list[int]) -> Iterator[tuple[int, int]]:
    """(place, bytes) of each address that a call names."""
    if name == "connect":
        yield arguments[1], arguments[2] & 0xFFFFFFFF
    elif name == "sendto":
        if arguments[4]:
            yield arguments[4], arguments[5] & 0xFFFFFFFF
    else:
        count = 1 if name == "sendmsg" else arguments[2] & 0xFFFFFFFF
        if count > _MAX_MESSAGES:
            raise ValueError(f"{count} messages at once")
        for index in range(count):
            place, length = struct.unpack("=QI", _read(process, arguments[1] + 64 * index, 12))
            if place:
                yield place, length


def _read(process: int, place: int, length: int) -> bytes:
    with open(f"/proc/{process}/mem", "rb", buffering=0) as memory:
        memory.seek(place)
        return memory.read(length) or b""


def _text(process: int, place: int) -> str:
    """A string that ends with a zero; read up to the end of its page first, since the next one may not be there."""
    text = b""
    while b"\0" not in text and len(text) < _MAX_PATH:
        text += _read(process, place + len(text), 4096 - (place + len(text)) % 4096)
    return text.partition(b"\0")[0].decode(errors="surrogateescape")


def _signed(number: int) -> int:
    return int(ctypes.c_int32(number & 0xFFFFFFFF).value)


def receive_listener(control: socket.socket) -> int | None:
    """Return the descriptor that the tried process sends; None where it ended its side without one."""
    with contextlib.suppress(OSError):
        _, descriptors, _, _ = socket.recv_fds(control, 1, 1)
        if descriptors:
            return descriptors[0]
    return None
