"""Bytes that probing may cost a node: a token bucket over what it sends and what it receives. Pure."""

from __future__ import annotations

from typing import Final

WIRE_OVERHEAD_BYTES: Final = 42
"""Ethernet, IPv4 and UDP headers of one datagram."""
SEGMENT_OVERHEAD_BYTES: Final = 66
"""Ethernet, IPv4 and TCP headers with timestamps of one segment."""


class Budget:
    """At most `capacity_bytes` at once and `bytes_per_second` for ever; never in debt.

    In any interval of t seconds at most capacity + rate × t bytes are granted.
    """

    def __init__(self, bytes_per_second: float, capacity_bytes: float, now: float) -> None:
        """Starts full. Raises ValueError unless both figures are positive."""
        if not (bytes_per_second > 0 and capacity_bytes > 0):
            raise ValueError("budget: rate and capacity must be above 0")
        self.bytes_per_second = bytes_per_second
        self.capacity_bytes = capacity_bytes
        self._left = capacity_bytes
        self._at = now

    def left(self, now: float) -> float:
        """Bytes that may be spent now. A clock that goes backwards adds nothing."""
        if now > self._at:
            self._left = min(self.capacity_bytes, self._left + (now - self._at) * self.bytes_per_second)
            self._at = now
        return self._left

    def take(self, count: float, now: float, reserve: float = 0.0) -> bool:
        """Spend `count` bytes if that leaves at least `reserve` of them; False, and nothing is spent, otherwise."""
        if count < 0 or self.left(now) - count < reserve:
            return False
        self._left -= count
        return True

    def give_back(self, count: float) -> None:
        """Return what was taken and not used."""
        self._left = min(self.capacity_bytes, self._left + max(0.0, count))

    def seconds_until(self, count: float, now: float, reserve: float = 0.0) -> float:
        """How long until `take` grants this; infinite where the bucket can never hold so much."""
        if count + reserve > self.capacity_bytes:
            return float("inf")
        return max(0.0, (count + reserve - self.left(now)) / self.bytes_per_second)
