"""Who is measured by whom, and how often: a fixed number of destinations a node, the same for everyone who knows the same names. Pure.

A node that joins or leaves changes the destinations of a few others only: choices go by hashes of names, not by places in a list.
"""

from __future__ import annotations

import bisect
import hashlib
import itertools
import re
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

MAX_DESTINATIONS: Final = 22
"""Of a node. Two series each, with those of the agent itself, are 60 (probe_metrics.py)."""
MIN_DESTINATIONS: Final = 12
MAX_PAIRS: Final = 64_000
"""Of a cluster, as long as MIN_DESTINATIONS allow: an answer with this number of series is 25 MiB, and the operator reads 32."""
NEAR_SHARE: Final = 0.3
"""Part of the destinations that are the next ones in the ring of the node's own group.

6 of 22 measure all pairs of a group of 13, one way at least.
"""
LARGE: Final = 24
"""Members. In a larger group as many destinations again are drawn from the group: neighbours alone would show too little."""
ROUND_SECONDS: Final = 3600.0
"""How long the one destination that is drawn stays the same."""

MIN_ROUND_TRIP_SECONDS: Final = 1.0
MIN_BURST_SECONDS: Final = 8.0
ROUND_TRIP_SHARE: Final = 0.2
"""Part of the budget that round trips may use; bursts get what is left."""
_DIGITS: Final = re.compile(r"(\d+)")


class Targets(NamedTuple):
    """Whom one node measures in one round; those that matter most first."""

    near: tuple[str, ...]
    far: tuple[str, ...]


class Cadence(NamedTuple):
    """Seconds between two measurements of the same pair."""

    round_trip_seconds: float
    burst_seconds: float


class ProbeSchedule:
    """Of all nodes that are known."""

    def __init__(self, groups: Mapping[str, str]) -> None:
        """groups: group by node name; "" is a group as any other."""
        self._groups = groups
        self._names = sorted(groups, key=natural)
        self._members: dict[str, list[str]] = {}
        for name in self._names:
            self._members.setdefault(groups[name], []).append(name)
        self._rings: dict[tuple[str, str | None], list[tuple[int, str]]] = {}
        self._envoys_known: dict[tuple[str, str], str] = {}

    def targets(self, me: str, round_number: int) -> Targets:
        """Whom `me` measures in this round: all others, or the next ones in the ring of names where that covers all pairs."""
        others = len(self._names) - 1
        if me not in self._groups or others < 1:
            return Targets((), ())
        if others <= 2 * MAX_DESTINATIONS:
            return Targets(_after(me, self._names, MAX_DESTINATIONS), ())
        wanted = max(MIN_DESTINATIONS, min(MAX_DESTINATIONS, MAX_PAIRS // len(self._names)))
        near = _after(me, self._members[self._groups[me]], int(NEAR_SHARE * wanted))
        far: list[str] = []
        for name in self._far(me, wanted):
            if len(near) + len(far) == wanted - 1:
                break
            if name not in near and name not in far:
                far.append(name)
        drawn = self._ring(me, f"round {round_number}")
        return Targets(near, (*far, next(name for name in drawn if name not in near and name not in far)))

    def _far(self, me: str, wanted: int) -> Iterator[str]:
        """Others of a large group, then one node of each group that `me` looks after, then anyone."""
        mine = self._groups[me]
        if len(self._members[mine]) > LARGE:
            for at in range(int(NEAR_SHARE * wanted)):
                yield next(self._ring(me, f"within {at}", mine))
        yield from self._envoys(me)
        for at in range(wanted):
            yield from itertools.islice(self._ring(me, f"all {at}"), 2)

    def _ring(self, me: str, salt: str, group: str | None = None) -> Iterator[str]:
        """All others, or those of the group, in a ring from `me` on; the salt decides the order."""
        key = (salt, group)
        if key not in self._rings:
            self._rings[key] = sorted((_hash(salt, name), name) for name in (self._names if group is None else self._members[group]))
        ring = self._rings[key]
        at = bisect.bisect_left(ring, (_hash(salt, me), me))
        return (ring[(at + step) % len(ring)][1] for step in range(1, len(ring)))

    def _envoys(self, me: str) -> Iterator[str]:
        """Between two groups one pair of nodes is measured, one way: its ends are the envoys of each group to the other.

        So the destinations of a group are spread over as many other groups as they can be.
        """
        mine = self._groups[me]
        destinations = []
        for group in self._members:
            if group == mine:
                continue
            order = _hash("order", *sorted((mine, group)))
            if (order & 1) == (mine < group) and me == self._envoy(mine, group):
                destinations.append((order, self._envoy(group, mine)))
        yield from (name for _, name in sorted(destinations))

    def _envoy(self, of: str, to: str) -> str:
        members = self._members[of]
        if len(members) == 1:
            return members[0]
        if (of, to) not in self._envoys_known:
            self._envoys_known[of, to] = max(members, key=lambda name: _hash("envoy", name, to))
        return self._envoys_known[of, to]


def cadence(peers: int, budget_bytes_per_second: float, round_trip_bytes: float, burst_bytes: float) -> Cadence:
    """How often each of `peers` can be measured.

    round_trip_bytes, burst_bytes: what one measurement costs one end. A node is measured about as often as it measures: each costs twice.
    """
    round_trip = 2 * peers * round_trip_bytes / (ROUND_TRIP_SHARE * budget_bytes_per_second)
    burst = 2 * peers * burst_bytes / ((1 - ROUND_TRIP_SHARE) * budget_bytes_per_second)
    return Cadence(max(MIN_ROUND_TRIP_SECONDS, round_trip), max(MIN_BURST_SECONDS, burst))


def natural(name: str) -> tuple[tuple[int, int, str], ...]:
    """Sort key that puts node-9 before node-10; names that differ have different keys."""
    parts = _DIGITS.split(name)
    return tuple((1, int(part), part) if index % 2 else (0, 0, part) for index, part in enumerate(parts))


def _after(me: str, names: list[str], count: int) -> tuple[str, ...]:
    """The next `count` names after `me` in the ring of `names`, fewer where there are no more."""
    at = names.index(me)
    return tuple(names[(at + step) % len(names)] for step in range(1, min(count, len(names) - 1) + 1))


def _hash(*words: str) -> int:
    digest = hashlib.blake2b("\0".join(words).encode("utf-8", "surrogatepass"), digest_size=8)
    return int.from_bytes(digest.digest())
