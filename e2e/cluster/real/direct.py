"""`python -m e2e.cluster.real.direct ADDRESS COUNT`: round trips by ICMP from where it runs; prints seconds, one a line. Needs root.

What the agents measure is held against this: 64 bytes, answered by the other kernel, timed by this kernel at arrival.
"""

from __future__ import annotations

import os
import socket
import struct
import sys
import time
from typing import Final

_ECHO_REQUEST: Final = 8
_ECHO_REPLY: Final = 0
_HEADER: Final = struct.Struct("!BBHHH")
_PAYLOAD: Final = bytes(56)
_SO_TIMESTAMPNS: Final = 35
_TIMESPEC: Final = struct.Struct("@qq")
_TIMEOUT_SECONDS: Final = 1.0
_PAUSE_SECONDS: Final = 0.01


def round_trip(endpoint: socket.socket, address: str, number: int) -> float | None:
    """Seconds of one echo; None where it does not come back in time."""
    identity = os.getpid() & 0xFFFF
    unsummed = _HEADER.pack(_ECHO_REQUEST, 0, 0, identity, number) + _PAYLOAD
    request = _HEADER.pack(_ECHO_REQUEST, 0, _checksum(unsummed), identity, number) + _PAYLOAD
    sent, deadline = time.time_ns(), time.monotonic() + _TIMEOUT_SECONDS
    endpoint.sendto(request, (address, 0))
    while (left := deadline - time.monotonic()) > 0:
        endpoint.settimeout(left)
        try:
            packet, extra, _, _ = endpoint.recvmsg(2048, 128)
        except TimeoutError:
            return None
        header = _HEADER.unpack_from(packet, (packet[0] & 0x0F) * 4)
        if (header[0], *header[3:]) == (_ECHO_REPLY, identity, number):
            seconds, nanoseconds = _TIMESPEC.unpack(extra[0][2][: _TIMESPEC.size])
            return float(seconds * 1_000_000_000 + nanoseconds - sent) / 1e9
    return None


def _checksum(content: bytes) -> int:
    total: int = sum(struct.unpack(f"!{len(content) // 2}H", content))
    total = (total >> 16) + (total & 0xFFFF)
    return ~(total + (total >> 16)) & 0xFFFF


def main() -> None:
    """Measure and print."""
    address, count = sys.argv[1], int(sys.argv[2])
    with socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP) as endpoint:
        endpoint.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
        for number in range(count):
            found = round_trip(endpoint, address, number)
            if found is not None:
                print(f"{found:.9f}", flush=True)
            time.sleep(_PAUSE_SECONDS)


if __name__ == "__main__":
    main()
