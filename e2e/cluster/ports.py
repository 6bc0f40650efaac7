"""Free TCP ports on loopback, outside the range from which the kernel takes ports for outgoing connections."""

from __future__ import annotations

import contextlib
import secrets
import socket
from typing import Final

LOOPBACK: Final = "127.0.0.1"
_FIRST: Final = 20000
_LAST: Final = 32000
_ATTEMPTS: Final = 500


def free_ports(count: int) -> list[int]:
    """`count` different ports that no process listens on now; raises OSError when the machine has none left."""
    with contextlib.ExitStack() as held:
        found: list[int] = []
        for _ in range(_ATTEMPTS):
            port = _FIRST + secrets.randbelow(_LAST - _FIRST)
            candidate = held.enter_context(socket.socket())
            try:
                candidate.bind((LOOPBACK, port))
            except OSError:
                continue
            found.append(port)
            if len(found) == count:
                return found
    raise OSError(f"no {count} free ports between {_FIRST} and {_LAST}")
