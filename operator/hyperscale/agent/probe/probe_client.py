"""The end that measures: round trips to a peer and trains towards it, over one session that is kept open."""

from __future__ import annotations

import asyncio
import statistics
from typing import Final, NamedTuple

from hyperscale.agent.probe import probe_wire as wire
from hyperscale.agent.probe.peers import Peer
from hyperscale.agent.probe.probe_server import CONTROL_BYTES, train_bytes
from hyperscale.agent.probe.probe_socket import ECHO_BYTES, Datagrams, Outgoing, SocketBudget
from hyperscale.agent.probe.probe_stream import DEADLINE_SECONDS, PeerChannel, PeerRefusedError
from hyperscale.agent.probe.probe_train import IP_BYTES, PACE, PACKET_BYTES, limited, packets
from hyperscale.agent.probe.tokens import TokenError, TokenFile

PINGS: Final = 5
PING_SECONDS: Final = 1.0
"""No answer for so long: lost."""
GAP_SECONDS: Final = 0.002
ALIVE_SECONDS: Final = 60.0


class PeerError(Exception):
    """The peer cannot be measured now; the message says why in a few words."""

    def __init__(self, message: str, *, silent: bool = False) -> None:
        """silent: nothing came back. A machine that refuses a connection has answered: the link is there."""
        super().__init__(message)
        self.silent = silent


class Trips(NamedTuple):
    """Of one visit."""

    seconds: tuple[float, ...]
    """Each round trip that came back."""
    sent: int

    @property
    def median(self) -> float | None:
        """None where none came back."""
        return statistics.median(self.seconds) if self.seconds else None


class Burst(NamedTuple):
    """Of one train."""

    bytes_per_second: float
    limited: bool
    """It arrived as fast as it was sent: a lower bound, unless the link itself held the sender up."""
    blocked: bool
    """The link itself held the sender up."""
    packets: int
    lost: int
    """Datagrams of the train that did not cross the link: its queue was full."""


class Client:
    """Sessions of an agent towards one peer."""

    def __init__(self, name: str, peer: Peer, tokens: TokenFile, datagrams: Datagrams, purse: SocketBudget) -> None:
        """Connects when first needed."""
        self.peer = peer
        self._name, self._tokens, self._datagrams, self._purse = name, tokens, datagrams, purse
        self._channel: PeerChannel | None = None
        self._lock = asyncio.Lock()
        self._number = 0

    async def round_trips(self, count: int = PINGS) -> Trips:
        """A few round trips, one after the other; raises PeerError where the peer does not let itself be measured."""
        async with self._lock:
            channel = await self._connected()
            session = channel.session
            if session is None or not await self._alive(channel):
                raise PeerError("no session")
            round_trips, sent, lost = [], 0, 0
            while sent < count and lost < 2 and self._purse.take(ECHO_BYTES):
                if sent:
                    await asyncio.sleep(GAP_SECONDS)
                self._number += 1
                sent += 1
                try:
                    async with asyncio.timeout(PING_SECONDS):
                        round_trips.append(await self._datagrams.ping(session, self._number, self._address(channel)))
                except (TimeoutError, OSError):
                    lost += 1
                except KeyError as error:  # the peer left the list, and what is spawned to close its session does not wait
                    raise PeerError("closed meanwhile") from error
            if sent and not round_trips:
                await self.close()  # the session may be unknown there since a restart
            return Trips(tuple(round_trips), sent)

    async def burst(self, last_rate: float | None, paced: bool, reserve: float) -> Burst:
        """One train towards the peer; known: bytes a second last time; paced: not much faster than that. Raises PeerError."""
        count = packets(last_rate)
        if not self._purse.take(train_bytes(count), reserve):
            raise PeerError("own budget")
        async with self._lock:
            try:
                channel = await self._connected()
            except (PeerError, TokenError):
                self._purse.give_back(train_bytes(count))
                raise
            try:
                return await self._train(channel, last_rate if paced else None, count)
            except (OSError, EOFError, TimeoutError, asyncio.IncompleteReadError, wire.WireError) as error:
                await self.close()
                raise PeerError(f"broken off ({type(error).__name__})") from error
            except asyncio.CancelledError:
                await self.close()
                raise

    @property
    def open(self) -> bool:
        """A session is kept."""
        return self._channel is not None

    async def close(self) -> None:
        """Give the session up; the next measurement opens another."""
        channel, self._channel = self._channel, None
        if channel is not None:
            if channel.session is not None:
                self._datagrams.sessions.pop(channel.session.identity, None)
            await channel.close()

    def _address(self, channel: PeerChannel) -> tuple[str, int]:
        """Where datagrams go: a peer's name would be looked up for each of them, in the event loop, and count as round trip."""
        return channel.host, self.peer.port

    async def _train(self, channel: PeerChannel, pace: float | None, count: int) -> Burst:
        session = channel.session
        if session is None:
            raise PeerError("no session")
        self._number += 1
        await channel.send(wire.Request("train", self._number, count))
        granted = await channel.receive(wire.Reply)
        if granted.refused:
            self._purse.give_back(train_bytes(count) - CONTROL_BYTES)
            raise PeerError(f"refused: {granted.refused}")
        content = wire.train(session.identity, session.key, self._number, count, PACKET_BYTES)
        seconds = count * (PACKET_BYTES + IP_BYTES) / (PACE * pace) if pace else 0.0
        left = await asyncio.to_thread(self._datagrams.send_train, content, self._address(channel), min(1.0, seconds))
        await channel.send(wire.Request("done", self._number, count))
        reply = await channel.receive(wire.Reply)
        if reply.fault or not reply.bytes_per_second > 0:
            raise PeerError(f"no figure: {reply.fault}")
        sender_limited = limited(reply.bytes_per_second, count, left.seconds)
        return Burst(reply.bytes_per_second, sender_limited, left.blocked, count, max(0, count - reply.arrived))

    async def _alive(self, channel: PeerChannel) -> bool:
        """Tell the peer now and then that the session is in use: its end closes idle ones."""
        if channel.idle_seconds < ALIVE_SECONDS:
            return True
        try:
            await channel.send(wire.Request("alive"))
            await channel.receive(wire.Reply)
        except (OSError, EOFError, TimeoutError, asyncio.IncompleteReadError, wire.WireError):
            await self.close()
            return False
        return True

    async def _connected(self) -> PeerChannel:
        if self._channel is not None and self._channel.gone:
            await self.close()
        if self._channel is not None:
            return self._channel
        token = self._tokens.own()
        try:
            async with asyncio.timeout(DEADLINE_SECONDS):
                reader, writer = await asyncio.open_connection(self.peer.host, self.peer.port, limit=4096)
        except (OSError, TimeoutError) as error:
            silent = not isinstance(error, ConnectionRefusedError | ConnectionResetError)
            raise PeerError(f"cannot be reached ({type(error).__name__})", silent=silent) from error
        channel = PeerChannel(reader, writer, "client")
        try:
            await channel.connect(self._name, self.peer.name, token)
            await channel.receive(wire.Reply)
        except (OSError, EOFError, TimeoutError, asyncio.IncompleteReadError, wire.WireError, PeerRefusedError) as error:
            await channel.close()
            raise PeerError(f"handshake failed: {error or type(error).__name__}", silent=isinstance(error, TimeoutError)) from error
        if channel.session is None:
            raise PeerError("no session")
        self._datagrams.sessions[channel.session.identity] = Outgoing(channel.session.key, asyncio.get_running_loop())
        self._channel = channel
        return channel
