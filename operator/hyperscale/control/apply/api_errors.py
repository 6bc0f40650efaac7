"""Errors of the Kubernetes API in the kinds that the operator tells apart, made from an answer's status, body and headers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

MAX_MESSAGE: Final = 4096
"""Characters of an error's message."""


class ApiError(Exception):
    """The API server refused; `status` is the HTTP code, `message` the server's own sentence."""

    def __init__(self, status: int, message: str, reason: str = "", retry_after_seconds: float | None = None) -> None:
        super().__init__(f"{status} {reason}: {message}" if reason else f"{status}: {message}")
        self.status = status
        self.message = message
        self.reason = reason
        self.retry_after_seconds = retry_after_seconds


class NotFoundError(ApiError):
    """404: what was asked for does not exist; for a level-based operator that is an answer, not a failure."""


class GoneError(ApiError):
    """410: the version, or the page of a list, is too old; list from the beginning."""


class ConflictError(ApiError):
    """409, or 422 on a patch whose `test` failed: the cache moved; read again and decide again."""


class TransientError(ApiError):
    """429, 5xx or no answer: the same request may succeed later; `retry_after_seconds` when the server said so."""


class TooLargeError(ApiError):
    """The answer is longer than MAX_BODY_BYTES."""


_KINDS: Final = {404: NotFoundError, 409: ConflictError, 410: GoneError}


def check_status(status: int, body: bytes, headers: Mapping[str, str]) -> None:
    """Raise the error of an answer whose status is not a success."""
    if not 200 <= status < 300:
        raise error_of(status, body, headers)


def error_of(status: int, body: bytes | str, headers: Mapping[str, str]) -> ApiError:
    """The error of its kind, with the API server's own reason and message where the body is a v1.Status."""
    text = body.decode(errors="replace") if isinstance(body, bytes) else body
    reason, message = "", text[:500]
    try:
        parsed = json.loads(text)
        reason, message = str(parsed.get("reason", "")), str(parsed.get("message", message))[:MAX_MESSAGE]
    except (ValueError, AttributeError, RecursionError):
        pass
    if status == 429 or status >= 500:
        return TransientError(status, message, reason, _seconds(headers.get("Retry-After")))
    return _KINDS.get(status, ApiError)(status, message, reason)


def _seconds(text: str | None) -> float | None:
    try:
        return max(0.0, float(text)) if text else None
    except ValueError:
        return None
