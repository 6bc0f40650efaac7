"""Reading the audit log while it is written."""

from __future__ import annotations

import json
from pathlib import Path

from e2e.cluster import audit


def line(name: str) -> bytes:
    event = {
        "stage": "ResponseComplete",
        "verb": "create",
        "objectRef": {"resource": "pods", "name": name},
        "responseStatus": {"code": 201},
    }
    return json.dumps(event).encode() + b"\n"


def names(path: Path, offset: int) -> list[str]:
    return [entry.name for entry in audit.entries(path, offset)]


def test_a_position_taken_while_a_line_is_half_written_begins_with_the_next_line(tmp_path: Path) -> None:
    log = tmp_path / "audit.log"
    log.write_bytes(line("a") + line("b")[:20])
    since = audit.position(log)
    log.write_bytes(line("a") + line("b") + line("c"))
    assert names(log, since) == ["c"]


def test_a_position_between_two_lines_loses_none(tmp_path: Path) -> None:
    log = tmp_path / "audit.log"
    log.write_bytes(line("a"))
    since = audit.position(log)
    log.write_bytes(line("a") + line("b") + line("c"))
    assert names(log, since) == ["b", "c"]
    assert names(log, 0) == ["a", "b", "c"]


def test_a_line_that_is_still_being_written_waits(tmp_path: Path) -> None:
    log = tmp_path / "audit.log"
    log.write_bytes(line("a") + line("b")[:20])
    assert names(log, 0) == ["a"]
