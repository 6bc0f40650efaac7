"""The rate of a link from the arrival times of a train of datagrams. Pure.

The bottleneck spreads the train out: what arrives between two moments, divided by the time between them, is its rate, however fast the
train was sent and however much a full queue dropped on the way. The start does not count: shapers let a burst pass unshaped.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from itertools import groupby
from operator import itemgetter
from typing import Final, NamedTuple

PACKET_BYTES: Final = 1400
"""Payload that fits the MTU of overlay networks (1450) too."""
IP_BYTES: Final = 28
"""IPv4 and UDP headers, which cross the link as well."""
SKIP_BYTES: Final = 160_000
"""Start of a train that does not count: more than twice the 64 KiB burst usual for htb."""
MIN_BYTES: Final = 96_000
"""Least that must arrive after the start."""
MAX_BYTES: Final = 288_000
MEASURED_SECONDS: Final = 0.02
PACE: Final = 2.0
"""Rate of a train divided by the link's last measured rate; a train is unpaced where that is unknown."""
LIMITED_RATIO: Final = 0.85
"""Arrival rate divided by sending rate; above this the sender, not the link, limited the train."""


class Arrival(NamedTuple):
    """One datagram of a train."""

    nanoseconds: int
    """Arrival, by the receiver's own clock."""
    number: int
    """Place in the train, from 0."""
    dropped: int
    """Datagrams that the receiver's own socket buffer had dropped before this one: they had crossed the link."""


class Rate(NamedTuple):
    """What a train showed."""

    bytes_per_second: float
    """Of IP packets; 0 where the train says nothing."""
    arrived: int
    """Datagrams that crossed the link."""
    fault: str
    """Why it says nothing, or ""."""


def packets(rate: float | None) -> int:
    """Length of the next train for a link of `rate` bytes a second; a link of unknown rate gets the longest."""
    measured = MAX_BYTES if rate is None else min(MAX_BYTES, max(MIN_BYTES, rate * MEASURED_SECONDS))
    return round((SKIP_BYTES + measured) / PACKET_BYTES)


def measure(arrivals: Sequence[Arrival], sent: int) -> Rate:
    """The rate behind `arrivals` (in order of arrival) of `sent` datagrams."""
    if not arrivals:
        return Rate(0.0, 0, "nothing arrived")
    crossed = _crossed(arrivals, sent)
    total = crossed[-1]
    if total > sent:
        return Rate(0.0, len(arrivals), "disturbed")
    marks = _steady_part(_marks(arrivals, crossed), total)
    if not marks:
        return Rate(0.0, total, "too little arrived")
    slope = _slope(marks)
    if slope <= 0:
        return Rate(0.0, total, "no time between arrivals")
    return Rate(slope * (PACKET_BYTES + IP_BYTES) * 1e9, total, "")


def _marks(arrivals: Sequence[Arrival], crossed: Sequence[int]) -> list[tuple[int, int]]:
    """Moments (nanoseconds) with the number of datagrams that had crossed the link by then.

    Datagrams handed over together carry one time: the count is that of the last of them.
    """
    counted = zip((arrival.nanoseconds for arrival in arrivals), crossed, strict=True)
    return [list(together)[-1] for _, together in groupby(counted, key=itemgetter(0))]


def _steady_part(marks: Sequence[tuple[int, int]], total: int) -> Sequence[tuple[int, int]]:
    """Marks without the start that shapers let pass: SKIP_BYTES, or the first half of a short train; empty where too little is left."""
    for skipped, least_bytes in ((SKIP_BYTES / PACKET_BYTES, MIN_BYTES / 2), (total / 2, MIN_BYTES / 4)):
        start = next((at for at, (_, count) in enumerate(marks) if count >= skipped), None)
        if start is not None and (total - marks[start][1]) * PACKET_BYTES >= least_bytes:
            return marks[start:]
    return ()


def _slope(marks: Sequence[tuple[int, int]]) -> float:
    """Datagrams a nanosecond: the median over windows of a quarter of the train.

    A sender that was off its processor for a moment leaves one gap, and a shaper that saved up meanwhile one burst; neither is the link.
    """
    window = (marks[-1][1] - marks[0][1]) / 4
    slopes, end = [], 0
    for nanoseconds, count in marks:
        while end < len(marks) and marks[end][1] - count < window:
            end += 1
        if end == len(marks):
            break
        if marks[end][0] > nanoseconds:
            slopes.append((marks[end][1] - count) / (marks[end][0] - nanoseconds))
    return statistics.median(slopes) if slopes else 0.0


def limited(rate: float, sent: int, send_seconds: float) -> bool:
    """True where the sender, not the link, set the rate: the figure is a lower bound."""
    return send_seconds > 0 and rate > LIMITED_RATIO * sent * (PACKET_BYTES + IP_BYTES) / send_seconds


def _crossed(arrivals: Sequence[Arrival], sent: int) -> list[int]:
    """Datagrams that had crossed the link up to each arrival, those the receiver's buffer dropped included.

    Buffer drops count at most as far as numbers are missing: others may send to the port too.
    """
    missing = max(0, sent - len(arrivals))
    first = arrivals[0].dropped
    return [at + 1 + min(missing, max(0, arrival.dropped - first)) for at, arrival in enumerate(arrivals)]
