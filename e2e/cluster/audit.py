"""The API server's audit log: who asked for what. One JSON object a line, about 0.2 s or more after the request: `settled` waits for it."""

from __future__ import annotations

import json
import secrets
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from e2e.cluster.api import Api

WRITES: Final = frozenset({"create", "update", "patch", "delete", "deletecollection"})
PATIENCE_SECONDS: Final = 60.0


class AuditError(Exception):
    """The API server does not write its log."""


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
    return (entry for _, entry in _located(path, offset))


def settled(api: Api, path: Path, offset: int = 0) -> list[Entry]:
    """`entries` with every request that was answered before this call, and none of later ones. Raises AuditError when they never come."""
    return _until_mark(api, path, offset)[0]


def caught_up(api: Api, path: Path) -> int:
    """`position`, with every request that was answered before this call in front. Raises AuditError when they never come."""
    return _until_mark(api, path, position(path))[1]


def _until_mark(api: Api, path: Path, offset: int) -> tuple[list[Entry], int]:
    """What stands before a request of ours, and where its line ends: the log is written in order, so that it comes last."""
    mark = f"audit-{secrets.token_hex(8)}"
    api.find(f"/api/v1/namespaces/{mark}")
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        found = list(_located(path, offset))
        for index in range(len(found) - 1, -1, -1):
            if found[index][1].name == mark:
                return [entry for _, entry in found[:index]], found[index][0]
        time.sleep(0.1)
    raise AuditError(f"a request did not reach {path} within {PATIENCE_SECONDS:.0f} s")


def _located(path: Path, offset: int) -> Iterator[tuple[int, Entry]]:
    """Where each finished request's line ends, and the request."""
    with path.open("rb") as file:
        end = max(offset - 1, 0)
        file.seek(end)
        if offset:
            end += len(file.readline())  # the rest of a line that was being written when `position` was asked for
        for line in file:
            if not line.endswith(b"\n"):
                return
            end += len(line)
            entry = entry_of(line)
            if entry is not None:
                yield end, entry


def position(path: Path) -> int:
    """Where the log ends now, to count only what is written later; some that was answered before is among it."""
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
