"""Frames over TCP and the handshake, for both ends. Bodies are bounded, every wait has a deadline."""

from __future__ import annotations

import asyncio
import secrets
from typing import Final, TypeVar

import msgspec

from hyperscale.agent.probe import probe_wire as wire
from hyperscale.agent.probe.tokens import Token, TokenFile

DEADLINE_SECONDS: Final = 5.0
Answer = TypeVar("Answer")


class PeerRefusedError(Exception):
    """The other end will not talk; the message is its one word for why."""


class PeerChannel:
    """One connection; sealed in both directions once the handshake is over."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, role: str) -> None:
        """role: client or server, whichever this end is."""
        self._reader, self._writer = reader, writer
        self._roles = (role, "client" if role == "server" else "server")
        self._counts = [0, 0]
        self.session: wire.Session | None = None
        self.peer = ""
        """Name of the other end, once proven."""
        self.key_id = ""
        """Of the token that the other end proved to know."""
        self._used = asyncio.get_running_loop().time()

    @property
    def host(self) -> str:
        """Address of the other end."""
        name = self._writer.get_extra_info("peername")
        return str(name[0]) if name else ""

    @property
    def gone(self) -> bool:
        """The other end closed the connection."""
        return self._reader.at_eof() or self._writer.is_closing()

    @property
    def idle_seconds(self) -> float:
        """Since the last frame was sent."""
        return asyncio.get_running_loop().time() - self._used

    async def send(self, message: msgspec.Struct) -> None:
        """One frame; raises OSError, TimeoutError."""
        body = msgspec.json.encode(message)
        if self.session is not None:
            body = wire.sealed(body, self.session.key, self._roles[0], self._counts[0])
            self._counts[0] += 1
        self._used = asyncio.get_running_loop().time()
        self._writer.write(wire.LENGTH.pack(len(body)) + body)
        async with asyncio.timeout(DEADLINE_SECONDS):
            await self._writer.drain()

    async def receive(self, kind: type[Answer], seconds: float = DEADLINE_SECONDS) -> Answer:
        """The next frame; raises WireError, OSError, EOFError, TimeoutError."""
        async with asyncio.timeout(seconds):
            (length,) = wire.LENGTH.unpack(await self._reader.readexactly(wire.LENGTH.size))
            if length > wire.MAX_FRAME_BYTES:
                raise wire.WireError(f"a frame of {length} bytes, more than {wire.MAX_FRAME_BYTES}")
            body = await self._reader.readexactly(length)
        if self.session is not None:
            body = wire.opened(body, self.session.key, self._roles[1], self._counts[1])
            self._counts[1] += 1
        try:
            return msgspec.json.decode(body, type=kind)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise wire.WireError(f"a frame that is no {kind.__name__}") from error

    async def connect(self, name: str, expected: str, token: Token) -> None:
        """Prove oneself as `name` to `expected`, which must prove itself too; raises WireError, RefusedError and as `receive`."""
        hello = wire.Hello(wire.VERSION, name, secrets.token_hex(wire.NONCE_BYTES), token.key_id)
        await self.send(hello)
        welcome = await self.receive(wire.Welcome)
        if welcome.refused:
            raise PeerRefusedError(welcome.refused)
        right = wire.proof(token.secret, "server", hello, welcome.name, welcome.nonce)
        if not wire.same(welcome.proof, right):
            raise wire.WireError("the peer does not know the token")
        if welcome.name != expected:
            raise wire.WireError("the peer is another node than the list of peers says")
        await self.send(wire.TokenProof(wire.proof(token.secret, "client", hello, welcome.name, welcome.nonce)))
        self.session, self.peer = wire.session(token.secret, hello, welcome.name, welcome.nonce), welcome.name

    async def accept(self, name: str, tokens: TokenFile) -> None:
        """Let someone prove itself; raises WireError and as `receive`."""
        hello = await self.receive(wire.Hello)
        token = tokens.token_of(hello.key)
        well_formed = hello.version == wire.VERSION and 0 < len(hello.name) <= wire.MAX_NAME and len(hello.nonce) == 2 * wire.NONCE_BYTES
        if token is None or not well_formed:
            await self.send(wire.Welcome(refused="token" if well_formed else "version"))
            raise wire.WireError("an unknown token" if well_formed else "another version of the protocol")
        nonce = secrets.token_hex(wire.NONCE_BYTES)
        await self.send(wire.Welcome(name, nonce, wire.proof(token.secret, "server", hello, name, nonce)))
        proof = await self.receive(wire.TokenProof)
        if not wire.same(proof.proof, wire.proof(token.secret, "client", hello, name, nonce)):
            raise wire.WireError("a wrong proof of the token")
        self.session, self.peer, self.key_id = wire.session(token.secret, hello, name, nonce), hello.name, token.key_id

    async def close(self) -> None:
        """Never raises."""
        self._writer.close()
        try:
            async with asyncio.timeout(1.0):
                await self._writer.wait_closed()
        except (OSError, TimeoutError, asyncio.IncompleteReadError):
            self._writer.transport.abort()
