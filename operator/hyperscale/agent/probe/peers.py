"""Who the other agents are: a list, or the endpoints of the agents' headless Service."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

import msgspec

from hyperscale.agent.agent_settings import is_address

MAX_PEERS: Final = 20_000
_WORD: Final = re.compile(r"[^\s\x00-\x1f\x7f]{1,253}")
"""No name of a node or host is longer, or holds blanks."""


class PeersError(ValueError):
    """A list of peers cannot be read."""


class Peer(NamedTuple):
    """One agent."""

    name: str
    """Of its node."""
    host: str
    port: int
    group: str = ""


class _Endpoint(msgspec.Struct, rename="camel"):
    addresses: tuple[str, ...] = ()
    node_name: str | None = None
    zone: str | None = None


class _Slice(msgspec.Struct, rename="camel"):
    address_type: str = "IPv4"
    endpoints: tuple[_Endpoint, ...] | None = None


class _PeerMetadata(msgspec.Struct):
    name: str = ""
    labels: dict[str, str] | None = None


class _Object(msgspec.Struct):
    metadata: _PeerMetadata = msgspec.field(default_factory=_PeerMetadata)


class _ListMetadata(msgspec.Struct, rename="camel"):
    continue_: str = msgspec.field(default="", name="continue")


class EndpointSlices(msgspec.Struct):
    """An EndpointSliceList, as far as it is read."""

    items: tuple[_Slice, ...] = ()
    metadata: _ListMetadata = msgspec.field(default_factory=_ListMetadata)


class Objects(msgspec.Struct):
    """A PartialObjectMetadataList, as far as it is read."""

    items: tuple[_Object, ...] = ()
    metadata: _ListMetadata = msgspec.field(default_factory=_ListMetadata)


def parse(text: str) -> tuple[Peer, ...]:
    """Peers in `name=host:port` or `name@group=host:port`, separated by commas, sorted by name; raises PeersError."""
    peers = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        head, equals, address = part.partition("=")
        name, _, group = head.partition("@")
        host, colon, port = address.rpartition(":")
        words = equals and colon and all(_WORD.fullmatch(word) for word in (name, host))
        if not (words and port.isascii() and port.isdecimal() and 0 < int(port[:6]) < 65536):
            raise PeersError(f"{part[:100]!r} is no name=host:port")
        if name in peers:
            raise PeersError(f"{name[:100]!r} is there twice")
        peers[name] = Peer(name, host.strip("[]"), int(port), group)
    return tuple(peers[name] for name in sorted(peers))


def of_slices(pages: tuple[EndpointSlices, ...], groups: dict[str, str], port: int) -> tuple[Peer, ...]:
    """Peers in EndpointSlices, one a node, sorted by name; group of a node without one in `groups`: its zone.

    Endpoints that are not ready count too: an agent that is starting answers or does not. Addresses that are none are left out.
    """
    peers: dict[str, Peer] = {}
    for endpoint in (endpoint for page in pages for slice_ in page.items for endpoint in slice_.endpoints or ()):
        if (peer := _peer_at(endpoint, groups, port)) is not None:
            peers[peer.name] = min(peer, peers.get(peer.name, peer))
    return tuple(peers[name] for name in sorted(peers)[:MAX_PEERS])


def _peer_at(endpoint: _Endpoint, groups: dict[str, str], port: int) -> Peer | None:
    """The agent at an endpoint; None where it has no node, or no address that is one."""
    address = next(filter(is_address, endpoint.addresses), None)
    if not endpoint.node_name or address is None:
        return None
    return Peer(endpoint.node_name, address, port, groups.get(endpoint.node_name) or endpoint.zone or "")


def groups_of(pages: tuple[Objects, ...], labels: tuple[str, ...]) -> dict[str, str]:
    """Group by node: the first of `labels` that it has, under its zone, for rack numbers repeat in every zone."""
    groups = {}
    for node in (entry.metadata for page in pages for entry in page.items):
        values = node.labels or {}
        key = next((key for key in labels if values.get(key)), None)
        if key is not None:
            groups[node.name] = f"{values.get('topology.kubernetes.io/zone', '')}/{key}={values[key]}"
    return groups
