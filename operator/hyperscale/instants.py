"""Times on the wire (RFC 3339, UTC) and in the operator (Unix seconds)."""

from __future__ import annotations

from datetime import UTC, datetime


def timestamp(unix_seconds: float) -> str:
    """RFC 3339, whole seconds, as the API server writes times."""
    return datetime.fromtimestamp(unix_seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def unix_seconds(timestamp: str) -> float:
    """Unix seconds of an RFC 3339 time; +inf for an empty one, so that nothing counts as overdue."""
    return datetime.fromisoformat(timestamp.replace("Z", "+00:00")).timestamp() if timestamp else float("inf")
