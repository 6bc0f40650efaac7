"""How fast requests go to the API server, and its clock against this machine's."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable
from email.utils import parsedate_to_datetime
from typing import Final, Protocol

HOLD_SECONDS: Final = 0.05
"""Between two looks whether the Lease was renewed, which happens in another thread."""


class Term(Protocol):
    """What a writer must know of its Lease."""

    def seconds_left(self) -> float:
        """How long this process may still write; 0 or less where another may hold the Lease."""

    def overdue(self) -> bool:
        """Whether a renewal is under way that should have been answered by now."""


class Pace:
    """The rate limit in requests a second, and how many seconds' worth of them may be sent at once."""

    def __init__(self, per_second: float, burst_seconds: float, clock: Callable[[], float]) -> None:
        """per_second: 0 sets no limit; clock: seconds."""
        self._gap_seconds = 1.0 / per_second if per_second > 0 else 0.0
        self._burst_seconds = burst_seconds
        self._clock = clock
        self._next = -math.inf

    def delay_seconds(self) -> float:
        """Take a turn; how long to wait for it."""
        now = self._clock()
        self._next = max(self._next, now - self._burst_seconds) + self._gap_seconds
        return max(0.0, self._next - now)


async def turn(pace: Pace, term: Term) -> None:
    """Return when a request may be sent.

    The API server queues the requests of one account together (API Priority and Fairness): what the operator sends meanwhile delays its
    own renewal. Requests that were held take new turns afterwards, so that they do not all come at once.
    """
    while True:
        if (delay := pace.delay_seconds()) > 0:
            await asyncio.sleep(delay)
        if not term.overdue():
            return
        while term.overdue():  # noqa: ASYNC110 - the Lease is renewed in another thread
            await asyncio.sleep(HOLD_SECONDS)


class ServerTime:
    """What the API server's clock says, by the Date of its answers: no step of this machine's clock moves it."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        """monotonic: seconds of a clock that is never set."""
        self._monotonic = monotonic
        self._ahead_of_monotonic: float | None = None

    def note(self, date: str | None) -> None:
        """The Date (RFC 9110) of an answer that has just come; what is none tells nothing."""
        try:
            server_seconds = parsedate_to_datetime(date or "").timestamp()
        except (ValueError, OverflowError):
            return
        self._ahead_of_monotonic = server_seconds + 0.5 - self._monotonic()

    def now(self) -> float:
        """Unix seconds by the API server's clock; by this machine's before an answer.

        History goes by it: a clock of this machine that is ahead deletes nothing.
        """
        now = time.time()
        return now + self.ahead_seconds(now)

    def ahead_seconds(self, now: float) -> float:
        """By how much it is ahead of `now` (Unix seconds of this machine), to about a second: Date has no fractions. 0 before an answer."""
        return 0.0 if self._ahead_of_monotonic is None else self._ahead_of_monotonic + self._monotonic() - now
