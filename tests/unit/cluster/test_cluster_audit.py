"""Reading the audit log while it is written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

from e2e.cluster import audit
from e2e.cluster.api import Api


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


class LateLog:
    """An API server whose log has an earlier answer only now, then the request that asks, then what came meanwhile."""

    def __init__(self, log: Path) -> None:
        self.log = log

    def find(self, path: str) -> dict[str, Any] | None:
        """Of the object at that path."""
        with self.log.open("ab") as file:
            file.write(line("late") + line(path.rsplit("/", 1)[1]) + line("meanwhile"))
        return None


def test_what_was_answered_before_lies_in_front_of_a_caught_up_position_and_what_came_after_behind_it(tmp_path: Path) -> None:
    log = tmp_path / "audit.log"
    log.write_bytes(line("a"))
    too_early = audit.position(log)
    since = audit.caught_up(cast(Api, LateLog(log)), log)
    assert names(log, since) == ["meanwhile"]
    assert names(log, too_early)[0] == "late"


def test_settled_ends_before_the_request_that_asks(tmp_path: Path) -> None:
    log = tmp_path / "audit.log"
    log.write_bytes(line("a"))
    found = audit.settled(cast(Api, LateLog(log)), log)
    assert [entry.name for entry in found] == ["a", "late"]
