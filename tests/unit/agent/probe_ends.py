"""Two agents' probe ends on the loopback address, each with its own token."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from pathlib import Path

from hyperscale.agent.probe.peers import Peer
from hyperscale.agent.probe.probe_client import Client
from hyperscale.agent.probe.probe_server import ProbeServer
from hyperscale.agent.probe.probe_socket import Datagrams, SocketBudget
from hyperscale.agent.probe.probe_stream import PeerChannel
from hyperscale.agent.probe.tokens import TokenFile

SECRET = "0123456789abcdef0123456789abcdef"

OTHER = "fedcba9876543210fedcba9876543210"

HOST = "127.0.0.1"


def free_port() -> int:
    """A port that neither UDP nor TCP uses."""
    while True:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagrams, socket.socket() as stream:
            datagrams.bind((HOST, 0))
            try:
                stream.bind(datagrams.getsockname())
            except OSError:
                continue
            return int(datagrams.getsockname()[1])


class End:
    """One agent's server and socket."""

    def __init__(self, name: str, token: Path, capacity: float = 1e8) -> None:
        self.name, self.tokens, self.busy = name, TokenFile(token), False
        self.purse = SocketBudget(1e8, capacity)
        self.datagrams = Datagrams(HOST, free_port(), self.purse)
        self.server = ProbeServer(name, self.tokens, self.datagrams, self.purse, lambda: self.busy)
        self.peer = Peer(name, HOST, self.datagrams.port)

    def towards(self, other: End, name: str | None = None) -> Client:
        return Client(self.name, other.peer._replace(name=name or other.name), self.tokens, self.datagrams, self.purse)


@contextlib.asynccontextmanager
async def ends(folder: Path, second_token: str = SECRET, capacity: float = 1e8) -> AsyncIterator[tuple[End, End]]:
    """Two agents; the second with a token of its own."""
    for name, token in (("a", SECRET), ("b", second_token)):
        (folder / name).write_text(token)
    first, second = End("a", folder / "a"), End("b", folder / "b", capacity)
    try:
        for end in (first, second):
            await end.server.start(HOST, end.peer.port)
        yield first, second
    finally:
        for end in (first, second):
            await end.server.close()
            end.datagrams.close()


async def connection(end: End) -> PeerChannel:
    return PeerChannel(*await asyncio.open_connection(HOST, end.peer.port), role="client")


async def silent(end: End, number: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A connection that says nothing, from one of many addresses."""
    return await asyncio.open_connection(HOST, end.peer.port, local_addr=(f"127.0.1.{number + 1}", 0))
