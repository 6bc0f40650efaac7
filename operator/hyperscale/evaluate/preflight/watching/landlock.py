"""Keeps a process from writing files outside its folders without any right of its own (landlock(7), Linux 5.13 and later)."""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Iterable
from typing import Final

from hyperscale.evaluate.preflight.watching.addresses import STORE_PORT

_CREATE: Final = 444
_ADD: Final = 445
_RESTRICT: Final = 446
_VERSION: Final = 1
_PATH_BENEATH: Final = 1
_PR_SET_NO_NEW_PRIVS: Final = 38
_WRITE_FILE: Final = 1 << 1
_TRUNCATE: Final = 1 << 14
_MAKE: Final = sum(1 << bit for bit in range(4, 13))
"""Remove and make files, folders, devices, sockets, links."""
_REFER: Final = 1 << 13
_TCP_BIND: Final = 1 << 0
_TCP_CONNECT: Final = 1 << 1
_OTHERS: Final = 1 << 0 | 1 << 1
"""Abstract sockets and signals of processes outside."""
_NET_PORT: Final = 2


def restrict(writable: Iterable[str], *, network: bool) -> list[str]:
    """Let this process write below these paths alone; return what holds now.

    It binds TCP sockets to its store's port, or to any free one. Where network is False it connects to its own store alone.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    version = libc.syscall(_CREATE, None, 0, _VERSION)
    if version < 1:
        return []
    files = _WRITE_FILE | _MAKE | (_REFER if version >= 2 else 0) | (_TRUNCATE if version >= 3 else 0)
    tcp = 0 if version < 4 else _TCP_BIND if network else _TCP_BIND | _TCP_CONNECT
    # A kernel refuses attributes that it has no name for, so the structure is as long as its version has it.
    rules = _attributes(version, files, tcp)
    ruleset = libc.syscall(_CREATE, ctypes.create_string_buffer(rules, len(rules)), len(rules), 0)
    if ruleset < 0:
        return []
    try:
        for path in writable:
            _allow(libc, ruleset, path, files)
        _allow_ports(libc, ruleset, tcp)
        libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
        if libc.syscall(_RESTRICT, ruleset, 0) != 0:
            return []
    finally:
        os.close(ruleset)
    return [
        "files (Landlock)",
        *(["TCP (Landlock)"] if tcp & _TCP_CONNECT else []),
        *(["signals (Landlock)"] if version >= 6 else []),
    ]


def _attributes(version: int, files: int, tcp: int) -> bytes:
    fields = (files, tcp, _OTHERS)[: 3 if version >= 6 else 2 if version >= 4 else 1]
    return struct.pack(f"={len(fields)}Q", *fields)


def _allow_ports(libc: ctypes.CDLL, ruleset: int, tcp: int) -> None:
    for rights, port in ((tcp, STORE_PORT), (tcp & _TCP_BIND, 0)):
        rule = struct.pack("=QQ", rights, port)
        libc.syscall(_ADD, ruleset, _NET_PORT, ctypes.create_string_buffer(rule, len(rule)), 0)


def _allow(libc: ctypes.CDLL, ruleset: int, path: str, rights: int) -> None:
    """Nothing where there is no such path."""
    try:
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    try:
        single = _WRITE_FILE | _TRUNCATE
        rule = struct.pack("=Qi", rights if os.path.isdir(path) else rights & single, place)
        libc.syscall(_ADD, ruleset, _PATH_BENEATH, ctypes.create_string_buffer(rule, len(rule)), 0)
    finally:
        os.close(place)
