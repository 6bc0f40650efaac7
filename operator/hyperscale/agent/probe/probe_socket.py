"""The agent's one UDP socket: echoes round trips, collects trains, and measures with the kernel's arrival times.

A thread of its own reads it, so that neither the event loop nor a scrape delays an echo. What Python still adds is taken out: each end
tells how long it held the message, by its own clock, from the kernel's arrival time to the moment of sending (as NTP does), so clocks need
not agree.
"""

from __future__ import annotations

import asyncio
import contextlib
import resource
import socket
import statistics
import struct
import threading
import time
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final, NamedTuple

from hyperscale.agent.probe import probe_wire as wire
from hyperscale.agent.probe.probe_train import PACKET_BYTES, Arrival
from hyperscale.util.token_bucket import TokenBucket

_SO_TIMESTAMPNS: Final = 35
_SO_RXQ_OVFL: Final = 40
_UDP_SEGMENT: Final = 103
_TIMESPEC: Final = struct.Struct("@qq")
_COUNT: Final = struct.Struct("@I")
_SEGMENTS: Final = 16
"""Datagrams handed to the kernel at once: 22 KB keep the train fine-grained, one at a time would make Python the bottleneck."""
_BLOCKED_PART: Final = 4
"""A train that waited in more than one of this number of calls was held up by the link; fewer waits are chance."""
RECEIVE_BUFFER_BYTES: Final = 4 * 1024 * 1024
"""Asked for; the kernel gives what net.core.rmem_max allows."""
ECHO_BYTES: Final = 2 * (wire.PING_BYTES + wire.DATAGRAM_OVERHEAD_BYTES)
"""What one round trip costs each end."""


class Sent(NamedTuple):
    """How a train left."""

    seconds: float
    """At the usual pace of its calls."""
    blocked: bool
    """The kernel made the sender wait again and again: this machine's own link is the narrow place."""


class SocketBudget:
    """A token bucket of bytes that threads share, with a count of what it granted."""

    def __init__(self, bytes_per_second: float, capacity_bytes: float) -> None:
        """Starts full."""
        self._bucket = TokenBucket(bytes_per_second, capacity_bytes, time.monotonic())
        self._lock = threading.Lock()
        self.spent_bytes = 0.0
        """Never falls, as a counter must not: what was given back counts against what is taken next."""
        self._unspent = 0.0

    def take(self, count: float, reserve: float = 0.0) -> bool:
        """As TokenBucket.take."""
        with self._lock:
            granted = self._bucket.take(count, time.monotonic(), reserve)
            if granted:
                covered = min(count, self._unspent)
                self._unspent -= covered
                self.spent_bytes += count - covered
            return granted

    def give_back(self, count: float) -> None:
        """What was taken for something that did not happen."""
        with self._lock:
            self._bucket.give_back(count)
            self._unspent += count

    def seconds_until(self, count: float, reserve: float = 0.0) -> float:
        """As TokenBucket.seconds_until."""
        with self._lock:
            return self._bucket.seconds_until(count, time.monotonic(), reserve)


@dataclass
class Train:
    """Datagrams of one train, as they arrive."""

    number: int
    packets: int
    arrivals: list[Arrival] = field(default_factory=list)
    places: set[int] = field(default_factory=set)
    """Of the datagrams that have arrived."""


@dataclass
class Incoming:
    """A session that a peer opened."""

    key: bytes
    host: str
    last: int = -1
    """Number of the last ping; none is answered twice."""
    train: Train | None = None


@dataclass
class Outgoing:
    """A session that this agent opened."""

    key: bytes
    loop: asyncio.AbstractEventLoop
    waiting: dict[int, tuple[int, int, asyncio.Future[float]]] = field(default_factory=dict)
    """By number: wall clock and monotonic clock at sending, and who waits for the round trip in seconds."""


class Datagrams:
    """The socket and its thread."""

    def __init__(self, host: str, port: int, purse: SocketBudget) -> None:
        """Binds; raises OSError."""
        self.sessions: dict[bytes, Incoming | Outgoing] = {}
        self._purse = purse
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._socket = socket.socket(family, socket.SOCK_DGRAM)
        self._drops = 0
        self._segmented = True
        try:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER_BYTES)
            for option in (_SO_TIMESTAMPNS, _SO_RXQ_OVFL):
                self._try_option(option)
            self._socket.bind((host, port))
        except BaseException:
            self._socket.close()
            raise
        self.port: int = self._socket.getsockname()[1]
        self._closed = False
        self._thread = threading.Thread(target=self._read, name="link-datagrams", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Ends the thread; waits for it."""
        self._closed = True
        try:
            # A datagram to itself wakes the thread wherever shutdown of an unconnected socket does not.
            self._socket.sendto(b"", self._socket.getsockname())
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self._thread.join(timeout=2.0)
        self._socket.close()

    def ping(self, session: wire.Session, number: int, address: tuple[str, int]) -> asyncio.Future[float]:
        """Send one; the future holds the round trip in seconds. Raises OSError, KeyError where the session is gone."""
        outgoing = self.sessions[session.identity]
        if not isinstance(outgoing, Outgoing):
            raise KeyError(session.identity)
        future: asyncio.Future[float] = outgoing.loop.create_future()
        content = wire.ping(wire.Ping(wire.PING, session.identity, number), session.key)
        outgoing.waiting[number] = (time.time_ns(), time.monotonic_ns(), future)
        future.add_done_callback(lambda _: outgoing.waiting.pop(number, None))
        self._socket.sendto(content, address)
        return future

    def send_train(self, content: bytearray, address: tuple[str, int], seconds: float) -> Sent:
        """Send datagrams of PACKET_BYTES, spread over `seconds`. Blocks; raises OSError."""
        view = memoryview(content)
        step = _SEGMENTS * PACKET_BYTES
        blocked = resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw
        began = time.perf_counter()
        marks = [began]
        for start in range(0, len(view), step):
            due = began + seconds * start / len(view)
            while (left := due - time.perf_counter()) > 0:
                time.sleep(left if left > 2e-4 else 0)
            self._send(view[start : start + step], address)
            marks.append(time.perf_counter())
        # A moment off the processor is no slower way of sending: the usual pause between two calls counts.
        usual = statistics.median(later - earlier for earlier, later in pairwise(marks))
        waits = resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw - blocked
        return Sent(usual * len(view) / step, waits * _SEGMENTS * PACKET_BYTES * _BLOCKED_PART > len(view))

    def _send(self, chunk: memoryview, address: tuple[str, int]) -> None:
        if self._segmented and len(chunk) > PACKET_BYTES:
            try:
                self._socket.sendmsg([chunk], [(socket.IPPROTO_UDP, _UDP_SEGMENT, struct.pack("@H", PACKET_BYTES))], 0, address)
                return
            except OSError:
                self._segmented = False  # kernel or device cannot; one by one from now on
        for start in range(0, len(chunk), PACKET_BYTES):
            self._socket.sendto(chunk[start : start + PACKET_BYTES], address)

    def _try_option(self, option: int) -> None:
        # A sandboxed kernel may lack it: arrival is then when Python reads the datagram.
        with contextlib.suppress(OSError):
            self._socket.setsockopt(socket.SOL_SOCKET, option, 1)

    def _read(self) -> None:
        while not self._closed:
            try:
                content, extra, _, address = self._socket.recvmsg(2048, 256)
            except OSError:
                if self._closed:
                    return
                time.sleep(0.01)
                continue
            arrived = self._arrival(extra)
            claimed = wire.kind_and_session(content)
            session = self.sessions.get(claimed[1]) if claimed else None
            if claimed is None or session is None:
                continue
            try:
                self._handle(claimed[0], session, content, arrived, address)
            except (OSError, RuntimeError):
                continue  # the peer is unreachable, or the loop that waited is closed: one echo less

    def _arrival(self, extra: list[tuple[int, int, bytes]]) -> int:
        """Wall clock at arrival in nanoseconds; notes the buffer's drops."""
        arrived = 0
        for level, kind, content in extra:
            if level == socket.SOL_SOCKET and kind == _SO_TIMESTAMPNS:
                seconds, nanoseconds = _TIMESPEC.unpack(content[: _TIMESPEC.size])
                arrived = seconds * 1_000_000_000 + nanoseconds
            elif level == socket.SOL_SOCKET and kind == _SO_RXQ_OVFL:
                self._drops = _COUNT.unpack(content[: _COUNT.size])[0]
        return arrived or time.time_ns()

    def _handle(self, kind: int, session: Incoming | Outgoing, content: bytes, arrived: int, address: tuple[str, int]) -> None:
        if isinstance(session, Outgoing):
            if kind == wire.PONG:
                self._pong(session, content, arrived)
        elif kind == wire.TRAIN:
            self._train(session, content, arrived)
        elif kind == wire.PING and address[0] == session.host:
            self._echo(session, content, arrived, address)

    def _echo(self, session: Incoming, content: bytes, arrived: int, address: tuple[str, int]) -> None:
        ping = wire.read_ping(content, session.key)
        if ping is None or ping.kind != wire.PING or ping.number <= session.last or not self._purse.take(ECHO_BYTES):
            return
        session.last = ping.number
        pong = wire.Ping(wire.PONG, ping.session, ping.number, arrived, time.time_ns())
        self._socket.sendto(wire.ping(pong, session.key), address)

    def _pong(self, session: Outgoing, content: bytes, arrived: int) -> None:
        pong = wire.read_ping(content, session.key)
        entry = session.waiting.pop(pong.number, None) if pong is not None and pong.kind == wire.PONG else None
        if pong is None or entry is None:
            return
        sent, sent_monotonic, future = entry
        turnaround = pong.sent_nanoseconds - pong.received_nanoseconds
        elapsed = time.monotonic_ns() - sent_monotonic
        trip = arrived - sent - turnaround
        # A clock that was set meanwhile, here or there, gives nonsense: then what this end saw, the time held included, is the answer.
        seconds = (trip if 0 < trip <= elapsed and turnaround >= 0 else elapsed) / 1e9
        session.loop.call_soon_threadsafe(_resolve, future, seconds)

    def _train(self, session: Incoming, content: bytes, arrived: int) -> None:
        train = session.train
        place = wire.read_train(content, session.key) if train is not None else None
        if train is None or place is None or place[0] != train.number:
            return
        if place[1] < train.packets and place[1] not in train.places:
            train.places.add(place[1])
            train.arrivals.append(Arrival(arrived, place[1], self._drops))


def _resolve(future: asyncio.Future[float], seconds: float) -> None:
    if not future.done():
        future.set_result(seconds)
