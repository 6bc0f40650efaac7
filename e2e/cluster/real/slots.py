"""A place for the real nodes of one cluster on this machine: addresses, device names and cgroups that no other cluster here uses.

A slot is taken by a file below /run that holds the cluster's directory: it outlives a killed `up`, so that `down` knows what to take away,
and it is gone after a reboot, as all that it stands for.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final

RUN: Final = Path("/run/hyperscale")
SLOTS: Final = 16
MAX_NODES: Final = 4
DOMAIN: Final = "cluster.local"


class SlotError(Exception):
    """No slot is free."""


@dataclass(frozen=True, slots=True)
class Place:
    """One real node of a slot: its names and addresses."""

    slot: int
    letter: str
    number: int
    """0 up to MAX_NODES - 1."""

    @property
    def link(self) -> str:
        """The host's end of its cable, its network namespace, and its cgroup: at most 15 characters."""
        return f"hs{self.slot}{self.letter}"

    @property
    def _third(self) -> int:
        return self.slot * MAX_NODES + self.number

    @property
    def gateway(self) -> str:
        """The host's address on the cable."""
        return f"10.87.{self._third}.1"

    @property
    def address(self) -> str:
        """The node's."""
        return f"10.87.{self._third}.2"

    @property
    def node_network(self) -> str:
        """Of the cable."""
        return f"10.87.{self._third}.0/24"

    @property
    def pod_network(self) -> str:
        """Of its pods."""
        return f"10.88.{self._third}.0/24"

    @property
    def run(self) -> Path:
        """For sockets, whose paths must be short."""
        return RUN / self.link


@dataclass(frozen=True, slots=True)
class Slot:
    """Addresses of one cluster."""

    number: int

    @property
    def services(self) -> str:
        """The range of cluster IPs."""
        return f"10.96.{self.number}.0/24"

    @property
    def server(self) -> str:
        """The API server, at the first address of the range: it is the service `kubernetes`, without a proxy."""
        return f"10.96.{self.number}.1"

    @property
    def dns(self) -> str:
        """CoreDNS."""
        return f"10.96.{self.number}.10"

    def place(self, number: int) -> Place:
        """The node of that number."""
        return Place(self.number, "abcd"[number], number)

    @property
    def places(self) -> tuple[Place, ...]:
        """All that a cluster may have."""
        return tuple(map(self.place, range(MAX_NODES)))

    @property
    def networks(self) -> tuple[str, str]:
        """All cables, all pods."""
        first = self.number * MAX_NODES
        return f"10.87.{first}.0/22", f"10.88.{first}.0/22"

    @property
    def detour(self) -> str:
        """The device behind which packets wait."""
        return f"hs{self.number}t"

    @property
    def table(self) -> int:
        """Of routes to it. Rules take this and the next number as their preference."""
        return 8700 + 2 * self.number

    @property
    def chain(self) -> str:
        """Of the firewall."""
        return f"HYPERSCALE-{self.number}"


def take(directory: Path) -> Slot:
    """A free slot for the cluster, or the one that it holds; raises SlotError."""
    found = held(directory)
    if found is not None:
        return found
    RUN.mkdir(mode=0o755, exist_ok=True)
    used = _addresses()
    for number in range(SLOTS):
        slot = Slot(number)
        networks = (f"10.96.{number}.", *(place.gateway.rpartition(".")[0] + "." for place in slot.places))
        if any(network in used for network in networks):
            continue
        with contextlib.suppress(FileExistsError):
            handle = os.open(_record(number), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            os.write(handle, str(directory).encode())
            os.close(handle)
            return slot
    raise SlotError(f"all {SLOTS} places for clusters with real nodes are taken: see {RUN}, and run `down` for those that you do not need")


def held(directory: Path) -> Slot | None:
    """The slot that the cluster of this directory holds."""
    for number in range(SLOTS):
        with contextlib.suppress(OSError):
            if _record(number).read_text() == str(directory):
                return Slot(number)
    return None


def free(slot: Slot) -> None:
    """Give it back."""
    _record(slot.number).unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        RUN.rmdir()


def _record(number: int) -> Path:
    return RUN / f"slot-{number}"


def _addresses() -> str:
    """Every address and route of this machine."""
    commands = (["ip", "-4", "-o", "address"], ["ip", "-4", "route"])
    return "".join(subprocess.run(command, capture_output=True, text=True, check=True).stdout for command in commands)
