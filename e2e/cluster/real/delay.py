"""The process behind a detour: holds every packet as long as its link's latency says. For kernels that were built without netem.

It reads packets from a tun device of its own and writes them back when they are due; order within a pair is kept. Delays may be
written again while it runs. At most MAX_WAITING packets wait: more are dropped, as a full queue would.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import heapq
import ipaddress
import json
import os
import select
import struct
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

TUN: Final = "/dev/net/tun"
MAX_WAITING: Final = 50_000
_TUNSETIFF: Final = 0x400454CA
_IFF_TUN: Final = 0x0001
_IFF_NO_PI: Final = 0x1000
_PACKET_BYTES: Final = 65_536
_READ_AT_ONCE: Final = 64
_LOOK_SECONDS: Final = 0.2
_PRIORITY: Final = 10


def write(file: Path, seconds: Mapping[tuple[str, str], float]) -> None:
    """Latency of packets by (network of the source, network of the destination), /24 both."""
    unfinished = file.with_name(f".{file.name}")
    unfinished.write_text(json.dumps([[source, destination, one] for (source, destination), one in seconds.items()]))
    unfinished.rename(file)


class Line:
    """Packets that wait."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._seen = 0
        self._delays: dict[bytes, float] = {}
        self._last: dict[bytes, float] = {}
        self._waiting: list[tuple[float, int, bytes]] = []
        self._number = 0
        self.look()

    def look(self) -> None:
        """Read the delays again where they were written again."""
        found = self._file.stat().st_mtime_ns
        if found != self._seen:
            self._seen = found
            rows = json.loads(self._file.read_text())
            self._delays = {_prefix(source) + _prefix(destination): seconds for source, destination, seconds in rows}

    def take(self, packet: bytes, now: float) -> None:
        """One packet that came."""
        if len(packet) < 20 or packet[0] >> 4 != 4 or len(self._waiting) >= MAX_WAITING:
            return
        pair = packet[12:15] + packet[16:19]
        due = max(now + self._delays.get(pair, 0.0), self._last.get(pair, 0.0))
        self._last[pair] = due
        self._number += 1
        heapq.heappush(self._waiting, (due, self._number, packet))

    def due(self, now: float) -> bytes | None:
        """The next packet that has waited long enough."""
        return heapq.heappop(self._waiting)[2] if self._waiting and self._waiting[0][0] <= now else None

    def wait_seconds(self, now: float) -> float:
        """Until the next packet is due, or it is time to look at the delays."""
        return min(_LOOK_SECONDS, max(0.0, self._waiting[0][0] - now)) if self._waiting else _LOOK_SECONDS


def _prefix(network: str) -> bytes:
    return ipaddress.ip_network(network).network_address.packed[:3]


def _serve(device: int, line: Line) -> None:
    looked = 0.0
    while True:
        now = time.monotonic()
        if now - looked > _LOOK_SECONDS:
            line.look()
            looked = now
        while (packet := line.due(time.monotonic())) is not None:
            with contextlib.suppress(OSError):  # a node that is just going away
                os.write(device, packet)
        if select.select([device], [], [], line.wait_seconds(time.monotonic()))[0]:
            with contextlib.suppress(BlockingIOError):
                for _ in range(_READ_AT_ONCE):
                    line.take(os.read(device, _PACKET_BYTES), time.monotonic())


def _open(name: str) -> int:
    device = os.open(TUN, os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(device, _TUNSETIFF, struct.pack("16sH22x", name.encode(), _IFF_TUN | _IFF_NO_PI))
    return device


def main() -> None:
    """Serve until killed; the device goes with the process."""
    parser = argparse.ArgumentParser(prog="python -m e2e.cluster.real.delay", description="Latencies of links.")
    parser.add_argument("--device", required=True)
    parser.add_argument("--delays", type=Path, required=True)
    arguments = parser.parse_args()
    line = Line(arguments.delays)
    with contextlib.suppress(OSError):  # without it a busy machine adds its own delays
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(_PRIORITY))
    _serve(_open(arguments.device), line)


if __name__ == "__main__":
    main()
