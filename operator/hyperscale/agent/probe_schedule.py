"""Who is measured by whom, and how often: O(n log n) pairs, the same for everyone who knows the same names. Pure.

All pairs inside a group; across groups each node measures ⌈log2 n⌉ others a round. All nodes of a round use the same offsets in the
sorted list of names, so that each node is also measured by as many as it measures: nobody's budget is spent by chance.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Mapping
from typing import Final, NamedTuple

SMALL: Final = 24
"""Up to so many nodes every pair is measured all the time."""
BLOCK: Final = 16
"""A larger group (a zone without racks) is cut into blocks of at most so many: pairs within a group grow with its square."""
FAR_ROUND_SECONDS: Final = 60.0
"""How long the sample across groups stays the same."""

MIN_ROUND_TRIP_SECONDS: Final = 1.0
MIN_BURST_SECONDS: Final = 8.0
ROUND_TRIP_SHARE: Final = 0.2
"""Part of the budget that round trips may use; bursts get what is left."""
_DIGITS: Final = re.compile(r"(\d+)")


class Targets(NamedTuple):
    """Whom one node measures in one round; sorted by name."""

    near: tuple[str, ...]
    far: tuple[str, ...]


class Cadence(NamedTuple):
    """Seconds between two measurements of the same pair."""

    round_trip_seconds: float
    burst_seconds: float


def targets(me: str, groups: Mapping[str, str], round_number: int) -> Targets:
    """Whom `me` measures in this round. groups: group by node name, `me` included; "" is a group as any other."""
    names = sorted(groups, key=natural)
    if me not in groups or len(names) < 2:
        return Targets((), ())
    if len(names) <= SMALL:
        return Targets(tuple(name for name in names if name != me), ())
    near = _block(me, [name for name in names if groups[name] == groups[me]])
    position, far = names.index(me), set()
    for offset in offsets(len(names), round_number):
        name = names[(position + offset) % len(names)]
        if name != me and name not in near:
            far.add(name)
    return Targets(tuple(name for name in near if name != me), tuple(sorted(far, key=natural)))


def offsets(count: int, round_number: int) -> tuple[int, ...]:
    """⌈log2 count⌉ steps in the list of names, 1..count-1, all different, drawn from the number of the round."""
    wanted = min(count - 1, math.ceil(math.log2(count)))
    found: list[int] = []
    draw = 0
    while len(found) < wanted:
        digest = hashlib.sha256(f"{count} {round_number} {draw}".encode()).digest()
        offset = 1 + int.from_bytes(digest[:8]) % (count - 1)
        if offset not in found:
            found.append(offset)
        draw += 1
    return tuple(found)


def cadence(peers: int, budget_bytes_per_second: float, round_trip_bytes: float, burst_bytes: float) -> Cadence:
    """How often each of `peers` can be measured.

    round_trip_bytes, burst_bytes: what one measurement costs one end. Every node is measured as often as it measures, so each costs twice.
    """
    round_trip = 2 * peers * round_trip_bytes / (ROUND_TRIP_SHARE * budget_bytes_per_second)
    burst = 2 * peers * burst_bytes / ((1 - ROUND_TRIP_SHARE) * budget_bytes_per_second)
    return Cadence(max(MIN_ROUND_TRIP_SECONDS, round_trip), max(MIN_BURST_SECONDS, burst))


def natural(name: str) -> tuple[tuple[int, int, str], ...]:
    """Sort key that puts node-9 before node-10; names that differ have different keys."""
    parts = _DIGITS.split(name)
    return tuple((1, int(part), part) if index % 2 else (0, 0, part) for index, part in enumerate(parts))


def _block(me: str, members: list[str]) -> tuple[str, ...]:
    """The even share of at most BLOCK `members`, neighbours in name order, that has `me` in it."""
    blocks = math.ceil(len(members) / BLOCK)
    position = members.index(me)
    number = position * blocks // len(members)
    return tuple(name for at, name in enumerate(members) if at * blocks // len(members) == number)
