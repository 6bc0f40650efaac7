"""Names that code in C looks up: the query is read where it would be sent, and goes nowhere.

`connect` to a name server is answered as if it had worked. The C library then sends its query without an address, which can be read.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable
from typing import Final

Read = Callable[[int, int], bytes]
"""(place, bytes) -> memory of the process."""
_HEADER: Final = 12
_MAX_QUERY: Final = 512
_REVERSE: Final = (".in-addr.arpa", ".ip6.arpa")
_OWN: Final = ("localhost", "localhost.localdomain")


def name_of(query: bytes) -> str:
    """Return the first name of a DNS query (RFC 1035, 4.1); "" for what is none."""
    labels, place = [], _HEADER
    while place < len(query) and (length := query[place]):
        if length > 63:
            return ""
        labels.append(query[place + 1 : place + 1 + length].decode(errors="replace"))
        place += 1 + length
    return ".".join(labels)


def leaves_machine(name: str) -> bool:
    """Whether it is the name of another machine: not this one's own, and no address that is turned into a name."""
    own = (*_OWN, socket.gethostname().lower())
    lowered = name.lower()
    return bool(name) and not lowered.endswith(_REVERSE) and lowered.split(".")[0] not in own and lowered not in own


def query_of(call: str, arguments: list[int], read: Read) -> bytes:
    """Return what a call without an address would send, the first message of several. Raises struct.error for what cannot be read."""
    if call == "sendto":
        return read(arguments[1], min(arguments[2], _MAX_QUERY))
    vector, count = struct.unpack("=QQ", read(arguments[1] + 16, 16))
    if not count:
        return b""
    base, length = struct.unpack("=QQ", read(vector, 16))
    return read(base, min(length, _MAX_QUERY))
