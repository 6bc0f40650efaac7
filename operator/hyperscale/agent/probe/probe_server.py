"""The end that is measured: lets peers prove themselves, answers their round trips, times their trains."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from hyperscale.agent.probe import probe_wire as wire
from hyperscale.agent.probe.probe_socket import Datagrams, Incoming, SocketBudget, Train
from hyperscale.agent.probe.probe_stream import PeerChannel
from hyperscale.agent.probe.probe_train import MAX_BYTES, PACKET_BYTES, SKIP_BYTES, measure
from hyperscale.agent.probe.tokens import TokenFile

LOGGER: Final = logging.getLogger("hyperscale.agent.probe.probe")
MAX_SESSIONS: Final = 512
MAX_STRANGERS: Final = 32
"""Connections that have not proven themselves yet; each may take DEADLINE_SECONDS."""
MAX_STRANGERS_OF_HOST: Final = 8
"""Unproven connections from one address: a single host must not lock all others out."""
IDLE_SECONDS: Final = 300.0
MAX_PACKETS: Final = (SKIP_BYTES + MAX_BYTES) // PACKET_BYTES + 1
TOLD_SECONDS: Final = 60.0
QUIET_SECONDS: Final = 0.1
"""Nothing of a train came for so long: it is over."""
TRAIN_SECONDS: Final = 2.0
RESERVE_BYTES: Final = 64 * 1024
"""What trains leave in the budget: round trips must not starve."""
Busy = Callable[[], bool]
CONTROL_BYTES: Final = 4 * (wire.SEGMENT_OVERHEAD_BYTES + 200)
"""Control frames and their acknowledgements around one train."""


def train_bytes(packets: int) -> int:
    """What a train costs each end, control frames included."""
    return packets * (PACKET_BYTES + wire.DATAGRAM_OVERHEAD_BYTES) + CONTROL_BYTES


class ProbeServer:
    """Listens until closed."""

    def __init__(self, name: str, tokens: TokenFile, datagrams: Datagrams, purse: SocketBudget, busy: Busy) -> None:
        """busy: whether this node's training communicates right now; trains are then refused."""
        self._name, self._tokens, self._datagrams, self._purse, self._busy = name, tokens, datagrams, purse, busy
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._collecting = asyncio.Lock()
        self.strangers = 0
        self._strangers_of: dict[str, int] = {}
        """By address."""
        self.sessions = 0
        self._told_at = -float("inf")
        self.refused: dict[str, int] = {}
        """Connections and requests refused, by reason."""

    async def start(self, host: str, port: int) -> None:
        """Raises OSError."""
        self._server = await asyncio.start_server(self._connected, host, port, limit=4096)

    async def close(self) -> None:
        """End all connections."""
        if self._server is not None:
            self._server.close()
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # A task of our own: the one that asyncio would make logs a traceback when it is cancelled (python/cpython#113538).
        task = asyncio.get_running_loop().create_task(self._talk(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        channel = PeerChannel(reader, writer, "server")
        try:
            if await self._proven(channel):
                await self._serve(channel)
        except (OSError, EOFError, TimeoutError, asyncio.IncompleteReadError):
            pass  # the peer is gone; it will be back
        except wire.WireError as error:
            self._refuse("protocol")
            self._tell(logging.INFO, channel.peer or channel.host, error)
        finally:
            await channel.close()

    async def _proven(self, channel: PeerChannel) -> bool:
        host = channel.host
        alike = self._strangers_of.get(host, 0)
        if self.strangers >= MAX_STRANGERS or alike >= MAX_STRANGERS_OF_HOST or self.sessions >= MAX_SESSIONS:
            self._refuse("full")
            return False
        self._strangers_of[host] = alike + 1
        self.strangers += 1
        try:
            await channel.accept(self._name, self._tokens)
        except wire.WireError as error:
            self._refuse("token")
            self._tell(logging.WARNING, channel.host, error)
            return False
        finally:
            self.strangers -= 1
            self._strangers_of[host] -= 1
            if not self._strangers_of[host]:
                del self._strangers_of[host]
        return True

    async def _serve(self, channel: PeerChannel) -> None:
        session = channel.session
        if session is None:
            return
        incoming = Incoming(session.key, channel.host)
        self._datagrams.sessions[session.identity] = incoming
        self.sessions += 1
        try:
            await channel.send(wire.Reply())  # from now on its datagrams are known here
            while True:
                request = await channel.receive(wire.Request, IDLE_SECONDS)
                if self._tokens.token_of(channel.key_id) is None:
                    self._refuse("token")  # replaced meanwhile: a peer with the current token connects again
                    return
                if request.kind == "train":
                    await self._train(channel, incoming, request)
                else:
                    await channel.send(wire.Reply())
        finally:
            self.sessions -= 1
            self._datagrams.sessions.pop(session.identity, None)

    async def _train(self, channel: PeerChannel, incoming: Incoming, request: wire.Request) -> None:
        reason = self._objection(request)
        if reason:
            self._refuse(reason)
            await channel.send(wire.Reply(refused=reason))
            return
        async with self._collecting:  # free, or `_objection` had said so: nothing awaited in between
            train = Train(request.train, request.packets)
            incoming.train = train
            try:
                await channel.send(wire.Reply())
                done = await channel.receive(wire.Request)
                if done.kind != "done" or done.train != request.train:
                    raise wire.WireError("no end of its train")
                await _arrived(train)
            finally:
                incoming.train = None
        rate = measure(train.arrivals, train.packets)
        await channel.send(wire.Reply(bytes_per_second=rate.bytes_per_second, arrived=rate.arrived, fault=rate.fault))

    def _objection(self, request: wire.Request) -> str:
        if not 0 < request.packets <= MAX_PACKETS:
            return "size"
        if self._collecting.locked():
            return "occupied"
        if self._busy():
            return "busy"
        return "" if self._purse.take(train_bytes(request.packets), RESERVE_BYTES) else "budget"

    def _tell(self, level: int, who: str, error: wire.WireError) -> None:
        """Once a minute, or a stranger could fill the log; all of them are counted."""
        now = asyncio.get_running_loop().time()
        if now - self._told_at >= TOLD_SECONDS:
            self._told_at = now
            LOGGER.log(level, "link probe: refused %s: it sent %s", who, error)

    def _refuse(self, reason: str) -> None:
        self.refused[reason] = self.refused.get(reason, 0) + 1


async def _arrived(train: Train) -> None:
    """Until the whole train is there, or nothing more comes."""
    loop = asyncio.get_running_loop()
    end, quiet, arrived = loop.time() + TRAIN_SECONDS, loop.time() + QUIET_SECONDS, len(train.arrivals)
    while len(train.arrivals) < train.packets and loop.time() < min(end, quiet):
        await asyncio.sleep(0.005)
        if len(train.arrivals) != arrived:
            quiet, arrived = loop.time() + QUIET_SECONDS, len(train.arrivals)
