"""A token bucket: a bounded burst, and a bounded rate ever after. Time is a parameter; a token is a byte, a write or a request."""

from __future__ import annotations


class TokenBucket:
    """Grants at most `capacity + rate × t` tokens in any interval of t seconds.

    A clock that goes backwards adds nothing; the bucket fills again from the new time.
    """

    def __init__(self, rate: float, capacity: float, now: float) -> None:
        """Full at `now` (seconds); rate: tokens per second. Raises ValueError unless rate and capacity are above 0."""
        if not (rate > 0 and capacity > 0):
            raise ValueError("token bucket: rate and capacity must be above 0")
        self._rate = rate
        self._capacity = capacity
        self._left = capacity
        self._at = now

    def left(self, now: float) -> float:
        """Return the tokens that `take` would grant now."""
        self._left = min(self._capacity, self._left + max(0.0, now - self._at) * self._rate)
        self._at = now
        return self._left

    def take(self, count: float, now: float, reserve: float = 0.0) -> bool:
        """Spend `count` tokens if at least `reserve` remain; otherwise spend none and return False."""
        if count < 0 or self.left(now) < count + reserve:
            return False
        self._left -= count
        return True

    def give_back(self, count: float) -> None:
        """Return tokens that were taken and not used."""
        self._left = min(self._capacity, self._left + max(0.0, count))

    def seconds_until(self, count: float, now: float, reserve: float = 0.0) -> float:
        """Return the time until `take` grants this; infinite where the bucket cannot hold as much."""
        if count + reserve > self._capacity:
            return float("inf")
        return max(0.0, (count + reserve - self.left(now)) / self._rate)
