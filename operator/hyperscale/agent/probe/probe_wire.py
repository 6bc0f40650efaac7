"""What agents say to each other: proofs of the shared token, control frames, and the datagrams of round trips and trains. Pure.

Both ends send a fresh nonce, and each proves that it knows the token over both nonces and both names, in its own role: nothing recorded
can be played again or back. All that follows is authenticated with a key that comes from the token and both nonces.
"""

from __future__ import annotations

import hashlib
import hmac
import struct
from typing import Final, NamedTuple

import msgspec

VERSION: Final = 1
NONCE_BYTES: Final = 16
MAX_FRAME_BYTES: Final = 1024
MAX_NAME: Final = 253
LENGTH: Final = struct.Struct(">I")
TAG_BYTES: Final = 16
DATAGRAM_OVERHEAD_BYTES: Final = 42
"""Ethernet, IPv4 and UDP headers of one datagram."""
SEGMENT_OVERHEAD_BYTES: Final = 66
"""Ethernet, IPv4 and TCP headers with timestamps of one segment."""

PING: Final = 1
PONG: Final = 2
TRAIN: Final = 3
_MAGIC: Final = b"HL"
_PING: Final = struct.Struct(">2sBB8sIQQ16x")
_TRAIN: Final = struct.Struct(">2sBB8sII")
PING_BYTES: Final = _PING.size + TAG_BYTES
TRAIN_HEAD_BYTES: Final = _TRAIN.size + TAG_BYTES


class WireError(ValueError):
    """A peer said something that it must not; the connection ends."""


class Hello(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """First frame, from who connects."""

    version: int
    name: str
    nonce: str
    key: str
    """Name of the token that it will prove."""


class Welcome(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Answer of who was connected to; `refused` alone where it will not talk."""

    name: str = ""
    nonce: str = ""
    proof: str = ""
    refused: str = ""


class TokenProof(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Third frame."""

    proof: str


class Request(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """May I send a train; or, it has been sent."""

    kind: str
    """train, done or alive."""
    train: int = 0
    packets: int = 0


class Reply(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """To a request."""

    refused: str = ""
    """busy, budget, unknown; "" where granted."""
    bytes_per_second: float = 0.0
    arrived: int = 0
    fault: str = ""


class Session(NamedTuple):
    """What both ends know after the handshake."""

    identity: bytes
    """8 bytes in every datagram."""
    key: bytes


class Ping(NamedTuple):
    """A datagram of 64 bytes, there (times 0) or back."""

    kind: int
    session: bytes
    number: int
    received_nanoseconds: int = 0
    sent_nanoseconds: int = 0


def proof(secret: bytes, role: str, hello: Hello, name: str, nonce: str) -> str:
    """Proof of the token by `role` (client or server) over both names and nonces, hexadecimal."""
    return _derived(secret, role, hello, name, nonce).hex()


def session(secret: bytes, hello: Hello, name: str, nonce: str) -> Session:
    """The key that only the two ends of this handshake can know."""
    key = _derived(secret, "session", hello, name, nonce)
    return Session(hashlib.sha256(b"identity\0" + key).digest()[:8], key)


def same(left: str, right: str) -> bool:
    """Equal or not, in a time that does not tell how far."""
    return hmac.compare_digest(left.encode(), right.encode())


def sealed(body: bytes, key: bytes, role: str, count: int) -> bytes:
    """A frame's body followed by its tag; `count` numbers the frames of one direction."""
    return body + _frame_tag(body, key, role, count)


def opened(content: bytes, key: bytes, role: str, count: int) -> bytes:
    """The body of a sealed frame; raises WireError where its tag is wrong."""
    body, tag = content[:-TAG_BYTES], content[-TAG_BYTES:]
    if len(content) < TAG_BYTES or not hmac.compare_digest(tag, _frame_tag(body, key, role, count)):
        raise WireError("a frame is not authentic")
    return body


def ping(message: Ping, key: bytes) -> bytes:
    """PING_BYTES on the wire."""
    head = _PING.pack(
        _MAGIC, VERSION, message.kind, message.session, message.number, message.received_nanoseconds, message.sent_nanoseconds
    )
    return head + _tag(head, key)


def kind_and_session(datagram: bytes) -> tuple[int, bytes] | None:
    """What a datagram claims to be; None where it is none of ours."""
    if len(datagram) < TRAIN_HEAD_BYTES or datagram[:3] != _MAGIC + bytes([VERSION]):
        return None
    return datagram[3], datagram[4:12]


def read_ping(datagram: bytes, key: bytes) -> Ping | None:
    """The ping or pong; None where it is not authentic."""
    if len(datagram) != PING_BYTES or not hmac.compare_digest(datagram[_PING.size :], _tag(datagram[: _PING.size], key)):
        return None
    _, _, kind, identity, number, received, sent = _PING.unpack(datagram[: _PING.size])
    return Ping(kind, identity, number, received, sent)


def train(identity: bytes, key: bytes, number: int, packets: int, packet_bytes: int) -> bytearray:
    """All datagrams of a train, one after the other."""
    content = bytearray(packets * packet_bytes)
    for place in range(packets):
        head = _TRAIN.pack(_MAGIC, VERSION, TRAIN, identity, number, place)
        content[place * packet_bytes : place * packet_bytes + TRAIN_HEAD_BYTES] = head + _tag(head, key)
    return content


def read_train(datagram: bytes, key: bytes) -> tuple[int, int] | None:
    """(number of the train, place in it); None where it is not authentic."""
    head = datagram[: _TRAIN.size]
    if len(datagram) < TRAIN_HEAD_BYTES or not hmac.compare_digest(datagram[_TRAIN.size : TRAIN_HEAD_BYTES], _tag(head, key)):
        return None
    *_, number, place = _TRAIN.unpack(head)
    return number, place


def _derived(secret: bytes, role: str, hello: Hello, name: str, nonce: str) -> bytes:
    # JSON keeps fields apart: no choice of names and nonces means the same bytes as another.
    said = msgspec.json.encode(["hyperscale link", VERSION, role, hello.name, hello.nonce, hello.key, name, nonce])
    return hmac.new(secret, said, hashlib.sha256).digest()


def _frame_tag(body: bytes, key: bytes, role: str, count: int) -> bytes:
    return _tag(msgspec.json.encode([role, count]) + b"\0" + body, key)


def _tag(content: bytes, key: bytes) -> bytes:
    return hashlib.blake2s(content, key=key, digest_size=TAG_BYTES).digest()
