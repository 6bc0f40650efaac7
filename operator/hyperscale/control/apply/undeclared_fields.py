"""Fields of the status that the CRD in force does not know: the API server refuses a server-side apply with any of them."""

from __future__ import annotations

import copy
import logging
import re
from typing import Any, Final

_LOG = logging.getLogger(__name__)

Json = dict[str, Any]
_UNDECLARED: Final = re.compile(r"\.status((?:\.\w+)+): field not declared in schema")
RETRY_SECONDS: Final = 3600.0
"""After which a field is written again: the CRD may have been upgraded."""


class UndeclaredFields:
    """What the API server has said that it does not know."""

    def __init__(self) -> None:
        self._until: dict[tuple[str, ...], float] = {}
        """By path below the status, Unix seconds until which it is left out."""

    def learn(self, message: str, now: float) -> bool:
        """Take in a refusal; False where it names no field of the status."""
        paths = [tuple(path.split(".")[1:]) for path in _UNDECLARED.findall(message)]
        for path in paths:
            _LOG.warning("the CRD of GNNTrainingJob does not know status.%s, which is left out; upgrade the CRDs", ".".join(path))
            self._until[path] = now + RETRY_SECONDS
        return bool(paths)

    def left_out(self, status: Json, now: float) -> Json:
        """Return the status without the fields that the API server does not know."""
        paths = [path for path, until in self._until.items() if now < until]
        if not paths:
            return status
        kept = copy.deepcopy(status)
        for *holders, last in paths:
            inner: Any = kept
            for holder in holders:
                inner = inner.get(holder) if isinstance(inner, dict) else None
            if isinstance(inner, dict):
                inner.pop(last, None)
        return kept
