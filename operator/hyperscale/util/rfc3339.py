"""Times on the wire (RFC 3339, UTC) and in the operator (Unix seconds), and durations as text."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

_UNITS: Final = ((1e-3, 1e6, "µs"), (1.0, 1e3, "ms"), (120.0, 1.0, "s"), (7200.0, 1 / 60, "min"), (172800.0, 1 / 3600, "h"))
"""Durations below this number of seconds, what they are multiplied with, and their unit; longer ones are in days."""
_LAST_SECONDS: Final = 253_402_300_799.0
"""9999-12-31T23:59:59Z."""
CLOCK_SKEW_SECONDS: Final = 120.0
"""How far ahead of the operator's clock a machine's may be: a later time is no time of anything that has happened."""
PREDICTED_DIGITS: Final = 2
"""Significant digits of predicted times: the range of a prediction is wider than the third."""


def timestamp(unix_seconds: float) -> str:
    """RFC 3339, whole seconds, as the API server writes times."""
    return datetime.fromtimestamp(unix_seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def shown_timestamp(unix_seconds: float) -> str:
    """The same of a number that anyone may have written: what lies beyond the years 1970 to 9999 is shown as their end."""
    return timestamp(min(max(unix_seconds, 0.0), _LAST_SECONDS)) if unix_seconds == unix_seconds else ""


def unix_seconds(timestamp: str) -> float:
    """Unix seconds of an RFC 3339 time; +inf for an empty one, so that nothing counts as overdue."""
    return datetime.fromisoformat(timestamp.replace("Z", "+00:00")).timestamp() if timestamp else float("inf")


def is_future(timestamp: str, now: float) -> bool:
    """Whether a time lies ahead of `now` (Unix seconds) by more than clocks differ; an empty one does not. Raises ValueError."""
    return bool(timestamp) and unix_seconds(timestamp) > now + CLOCK_SKEW_SECONDS


def duration_text(seconds: float, digits: int = 3) -> str:
    """Seconds with this number of significant digits and the unit that reads best, e.g. `7.2 ms`."""
    rounded = float(f"{seconds:.{digits}g}")
    factor, unit = next(((factor, unit) for limit, factor, unit in _UNITS if rounded < limit), (1 / 86400, "d"))
    return f"{float(f'{rounded * factor:.{digits}g}'):g} {unit}"
