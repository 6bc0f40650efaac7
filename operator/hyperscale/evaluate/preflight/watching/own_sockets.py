"""Sockets on which the tried code waits for others, where it shares the network of this machine: on loopback alone.

torch.distributed binds its store to every address of the machine. So the watcher binds the process's socket itself (pidfd_getfd(2)), to
loopback. That leaves the process no time to change the address after it was read.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import ipaddress
import os
import socket
from typing import Final

from hyperscale.evaluate.preflight.watching.addresses import STORE_PORT, Address, is_loopback
from hyperscale.evaluate.preflight.watching.process_paths import group_of

PORTS: Final = (0, STORE_PORT)
"""That it may wait on; 0 is any free one."""
_GET: Final = 438
_ANY_THREAD: Final = os.O_EXCL
"""For pidfd_open(2) of Linux 6.9 and later."""


def borrowed(process: int, descriptor: int) -> socket.socket:
    """Return a socket of another process. Raises OSError, where it is no socket too."""
    try:
        place = os.pidfd_open(process, _ANY_THREAD)
    except OSError:
        place = os.pidfd_open(int(group_of(process)))
    try:
        libc = ctypes.CDLL(None, use_errno=True)
        copy = libc.syscall(_GET, place, descriptor, 0)
        if copy < 0:
            raise OSError(ctypes.get_errno(), "pidfd_getfd")
    finally:
        os.close(place)
    try:
        return socket.socket(fileno=copy)
    except OSError:
        os.close(copy)
        raise


def bind_to_loopback(own: socket.socket, address: Address) -> int:
    """Bind it to the port that was asked for; return the error, 0 for none."""
    try:
        own.bind((_loopback_of(own, address.host), address.port or 0))
    except (OSError, OverflowError) as error:
        return getattr(error, "errno", None) or errno.EINVAL
    return 0


def _loopback_of(own: socket.socket, host: str) -> str:
    if own.family == socket.AF_INET:
        return host if is_loopback(host) else "127.0.0.1"
    if own.family != socket.AF_INET6:
        raise OSError(errno.EAFNOSUPPORT, "no address of the internet")
    if is_loopback(host):
        return str(host) if ":" in host else f"::ffff:{host}"
    only = own.getsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY)
    return "::1" if only else "::ffff:127.0.0.1"  # where clients of an address of either kind look last


def address_bound(own: socket.socket) -> Address | None:
    """Return where it waits; None where that is no place of this machine's programs."""
    with contextlib.suppress(OSError, ValueError):
        name = own.getsockname()
        if own.family == socket.AF_UNIX:
            return Address(os.fsdecode(name), None)
        if own.family in (socket.AF_INET, socket.AF_INET6):
            host = ipaddress.ip_address(name[0].partition("%")[0])
            return Address(str(getattr(host, "ipv4_mapped", None) or host), name[1])
    return None
