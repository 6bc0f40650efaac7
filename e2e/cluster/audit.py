"""The API server's audit log: who asked for what. One JSON object a line; entries appear about 0.2 s after the request."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

WRITES: Final = frozenset({"create", "update", "patch", "delete", "deletecollection"})


@dataclass(frozen=True, slots=True)
class Entry:
    """One finished request."""

    user: str
    verb: str
    resource: str
    """Plural name with subresource, e.g. pods/status."""
    namespace: str
    name: str
    code: int
    """HTTP status of the answer; 0 when there was none."""
    received: str
    """RFC 3339 with microseconds, UTC."""


def entries(path: Path, offset: int = 0) -> Iterator[Entry]:
    """Finished requests from a byte offset on (`position` gives one); a line that is still being written is left out."""
    with path.open("rb") as file:
        if offset:
            file.seek(offset - 1)
            file.readline()  # the rest of a line that was being written when `position` was asked for
        for line in file:
            if not line.endswith(b"\n"):
                return
            entry = entry_of(line)
            if entry is not None:
                yield entry


def position(path: Path) -> int:
    """Where the log ends now, to count only what comes later."""
    return path.stat().st_size


def entry_of(line: bytes) -> Entry | None:
    """One line; None for the start of a long-running request and for a panic."""
    event = json.loads(line)
    if event.get("stage") != "ResponseComplete":
        return None
    about = event.get("objectRef") or {}
    resource = about.get("resource", "")
    if about.get("subresource"):
        resource = f"{resource}/{about['subresource']}"
    code = int((event.get("responseStatus") or {}).get("code", 0))
    user = event.get("user", {}).get("username", "")
    # fmt: off
    return Entry(user, event.get("verb", ""), resource, about.get("namespace", ""), about.get("name", ""), code,
                 event.get("requestReceivedTimestamp", ""))
    # fmt: on


def writes(path: Path, user: str | None = None, offset: int = 0) -> Counter[tuple[str, str, str]]:
    """Successful and refused writes by (user, verb, resource), of one user or of all."""
    counted: Counter[tuple[str, str, str]] = Counter()
    for entry in entries(path, offset):
        if entry.verb in WRITES and user in (None, entry.user):
            counted[entry.user, entry.verb, entry.resource] += 1
    return counted
