"""The tried process hands every call that writes, connects, forks or signals to its watcher (seccomp_unotify(2)).

Only the watcher can answer such a call, and nothing that runs in the process can take the filter off again.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import queue
import socket
import struct
import threading
from typing import Final

from hyperscale.evaluate.preflight.watching.call_table import (
    CLONE_NAMESPACES,
    CLONE_THREAD,
    FORKS,
    LIMITING,
    MACHINES,
    OWNERS,
    PATH_CALLS,
    PRIORITIES,
    REFUSED,
    SCHEDULING,
    SIGNALS,
    TALKS,
    WAITS,
    WRITING,
    Machine,
)

_LOAD: Final = 0x20
_EQUAL: Final = 0x15
_ANY_BIT: Final = 0x45
_AT_LEAST: Final = 0x35
_RETURN: Final = 0x06
_ALLOW: Final = 0x7FFF0000
_NOTIFY: Final = 0x7FC00000
_ERROR: Final = 0x00050000
_KILL: Final = 0x80000000
_X32: Final = 0x40000000
"""Numbers from here on are those of another table of x86-64."""
_ARGUMENTS: Final = 16
"""Where seccomp_data has them, 8 bytes each."""
_PR_SET_NO_NEW_PRIVS: Final = 38
_SET_MODE_FILTER: Final = 1
_NEW_LISTENER: Final = 8

Instruction = tuple[int, int, int, int]


class FilterError(Exception):
    """Calls cannot be watched on this kernel; the message says why."""


def program(machine: Machine) -> list[Instruction]:
    """Return the BPF program: architecture first, then one block for each call, each with its own return."""
    lines: list[Instruction] = [
        (_LOAD, 0, 0, 4), (_EQUAL, 1, 0, machine.audit), (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, 0), (_AT_LEAST, 0, 1, _X32), (_RETURN, 0, 0, _ERROR | 38),
    ]  # fmt: skip
    for name, number in machine.calls.items():
        block = _block(name)
        lines += [(_LOAD, 0, 0, 0), (_EQUAL, 0, len(block), number), *block]
    return [*lines, (_RETURN, 0, 0, _ALLOW)]


def _block(name: str) -> list[Instruction]:
    """What is done with one call; every way through it returns."""
    if name in REFUSED:
        return [(_RETURN, 0, 0, _ERROR | REFUSED[name])]
    if name in OWNERS:
        values = [line for value in OWNERS[name] for line in ((_EQUAL, 0, 1, value), (_RETURN, 0, 0, _ERROR | errno.EPERM))]
        return [(_LOAD, 0, 0, _ARGUMENTS + 8), *values, (_RETURN, 0, 0, _ALLOW)]
    if name == "clone":
        closed = [(_LOAD, 0, 0, _ARGUMENTS), (_ANY_BIT, 0, 1, CLONE_NAMESPACES), (_RETURN, 0, 0, _ERROR | errno.EPERM)]
        return [*closed, *_tested(0, CLONE_THREAD, _ALLOW, _NOTIFY)]
    if name in SCHEDULING:
        return _tested(0, 0xFFFFFFFF, _NOTIFY, _ALLOW)
    if name == LIMITING:
        every, pointer = 0xFFFFFFFF, _ARGUMENTS + 8 * 2
        return [
            (_LOAD, 0, 0, _ARGUMENTS), (_ANY_BIT, 1, 0, every), (_RETURN, 0, 0, _ALLOW),
            (_LOAD, 0, 0, pointer), (_ANY_BIT, 2, 0, every), (_LOAD, 0, 0, pointer + 4), (_ANY_BIT, 0, 1, every),
            (_RETURN, 0, 0, _NOTIFY), (_RETURN, 0, 0, _ALLOW),
        ]  # fmt: skip
    flags = PATH_CALLS[name].flags if name in PATH_CALLS else None
    if flags is not None:
        return _tested(flags, WRITING, _NOTIFY, _ALLOW)
    watched = name in PATH_CALLS or name in (*FORKS, *SIGNALS, *TALKS, *WAITS, *PRIORITIES)
    return [(_RETURN, 0, 0, _NOTIFY if watched else _ALLOW)]


def _tested(argument: int, bits: int, where: int, otherwise: int) -> list[Instruction]:
    return [(_LOAD, 0, 0, _ARGUMENTS + 8 * argument), (_ANY_BIT, 0, 1, bits), (_RETURN, 0, 0, where), (_RETURN, 0, 0, otherwise)]


def _install() -> int:
    """Filter this thread and all that it starts; return the descriptor on which a watcher hears."""
    machine = MACHINES.get(platform.machine())
    if machine is None:
        raise FilterError(f"no table of calls for {platform.machine()}")
    code = b"".join(struct.pack("=HBBI", *line) for line in program(machine))
    lines = ctypes.create_string_buffer(code, len(code))
    head = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", len(code) // 8, ctypes.addressof(lines)))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        raise FilterError(f"no_new_privs: {os.strerror(ctypes.get_errno())}")
    listener = libc.syscall(machine.calls["seccomp"], _SET_MODE_FILTER, _NEW_LISTENER, head)
    if listener < 0:
        raise FilterError(f"seccomp: {os.strerror(ctypes.get_errno())}")
    return int(listener)


def install_watched(control: socket.socket) -> None:
    """Filter this process, and hand the descriptor to the watcher, which answers from then on. Raises FilterError.

    Call it while this process has one thread. A second one sends the descriptor: it has no filter, so nothing needs to answer it yet.
    """
    listeners: queue.Queue[int] = queue.Queue()
    sender = threading.Thread(target=_send, args=(listeners, control))
    sender.start()
    listener = -1
    try:
        listener = _install()
    finally:
        listeners.put(listener)
        sender.join()
        control.close()


def _send(listeners: queue.Queue[int], control: socket.socket) -> None:
    listener = listeners.get()
    if listener >= 0:
        socket.send_fds(control, [b"f"], [listener])
        os.close(listener)
