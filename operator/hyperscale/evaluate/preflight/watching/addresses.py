"""Which addresses the tried code may reach: its own, and those of its data."""

from __future__ import annotations

import ipaddress
import socket
import struct
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

DNS_PORT: Final = 53
STORE_PORT: Final = 29500
"""Of torch.distributed's store, as hyperscale.training.worker.script sets it."""

Resolve = Callable[[str, int], Iterable[str]]


class Address(NamedTuple):
    """Where a call wants to go."""

    host: str
    """An IP address, or the path of a socket; an abstract name begins with a zero byte."""
    port: int | None
    """None for a socket of this machine."""

    @property
    def is_path(self) -> bool:
        """Whether it is a socket in a folder."""
        return self.port is None and not self.is_abstract

    @property
    def is_abstract(self) -> bool:
        """Whether it is a socket of this machine's network, in no folder."""
        return self.port is None and self.host.startswith("\0")

    @property
    def text(self) -> str:
        """host:port."""
        if self.port is None:
            return f"unix:{'@' + self.host[1:] if self.is_abstract else self.host}"
        text = f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"
        return f"{text} (name server)" if self.port == DNS_PORT else text


def address_of(sockaddr: bytes) -> Address | None:
    """Return the address in a C structure; None for families that leave no machine (netlink). Raises struct.error for a broken one."""
    family = struct.unpack_from("=H", sockaddr)[0]
    if family == socket.AF_INET:
        return Address(socket.inet_ntop(socket.AF_INET, sockaddr[4:8]), struct.unpack_from("!H", sockaddr, 2)[0])
    if family == socket.AF_INET6:
        host = ipaddress.IPv6Address(sockaddr[8:24])
        return Address(str(host.ipv4_mapped or host), struct.unpack_from("!H", sockaddr, 2)[0])
    if family == socket.AF_UNIX:
        name = sockaddr[2:]
        path = name if name[:1] == b"\0" else name.partition(b"\0")[0]
        return Address(path.decode(errors="surrogateescape"), None)
    return None if family in (socket.AF_UNSPEC, socket.AF_NETLINK) else Address(f"family {family}", 0)


def _resolved(host: str, port: int) -> Iterable[str]:
    return {str(entry[4][0]) for entry in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)}


class Reach:
    """The addresses of one trial."""

    def __init__(
        self,
        allowed: tuple[str, ...],
        *,
        isolated: bool,
        folders: tuple[str, ...] = (),
        closed: tuple[str, ...] = (),
        resolve: Resolve = _resolved,
    ) -> None:
        """allowed: host:port of the data; isolated: no other machine is in its network; folders: of its sockets; closed: of others."""
        self._allowed = [(host.strip("[]"), int(port)) for host, _, port in (each.rpartition(":") for each in allowed)]
        self._isolated, self._folders, self._closed, self._resolve = isolated, folders, closed, resolve

    def allows(self, address: Address) -> bool:
        """Whether it may go there. The path of a socket has no links left, and no `..`.

        A network of its own keeps no path away: sockets of other programs below readable folders are there too.
        """
        if address.is_path:
            return _is_below(address.host, self._folders) and not _is_below(address.host, self._closed)
        if address.port is None:
            return self._isolated
        if address.port == DNS_PORT:
            return bool(self._allowed)  # names of the data's address are looked up too
        if is_loopback(address.host) and (self._isolated or address.port == STORE_PORT):
            return True
        return any(port == address.port and address.host in self._hosts(host, port) for host, port in self._allowed)

    def _hosts(self, host: str, port: int) -> set[str]:
        """Looked up again each time: object stores answer with other addresses every few seconds."""
        try:
            return {host, *self._resolve(host, port)}
        except OSError:
            return {host}


def _is_below(path: str, folders: tuple[str, ...]) -> bool:
    return any(path.startswith(f"{folder.rstrip('/')}/") for folder in folders)


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches it."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
