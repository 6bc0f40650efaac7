"""The API server's clock against this machine's."""

from __future__ import annotations

from collections.abc import Callable
from email.utils import parsedate_to_datetime


class ServerTime:
    """How the API server's clock compares with this machine's, by the Date of its answers."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """clock: Unix seconds of this machine."""
        self._clock = clock
        self.ahead_seconds = 0.0
        """As of the last answer, to about a second: Date has no fractions. 0 before the first."""

    def note(self, date: str | None) -> None:
        """The Date (RFC 9110) of an answer that has just come; what is none tells nothing."""
        try:
            server_seconds = parsedate_to_datetime(date or "").timestamp()
        except (ValueError, OverflowError):
            return
        self.ahead_seconds = server_seconds + 0.5 - self._clock()
