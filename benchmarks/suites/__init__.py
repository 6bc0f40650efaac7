"""Suites of the placement benchmark: modules with `run(options) -> list[Row]`, found by name."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

CASES: Final = "cases"
"""Folder inside the dump with what each case is."""


@dataclass(frozen=True)
class Options:
    """What a suite is asked for."""

    quick: bool = False
    """Fewer and smaller cases: some seconds a suite."""
    seeds: tuple[int, ...] = (0, 1, 2)
    dump: Path | None = None
    """Folder for every method's assignment."""
    topology: Path | None = None
    """A cluster never seen: snapshot JSON, Hulk folder or matrix file."""
    placements: Path | None = None
    """A table of measured step times instead of Pollux's; see suites/pollux.py."""
    keep: Path | None = None
    """Folder for the outcomes of a long suite's questions; see suites/together.py."""

    def dump_assignment(self, case: str, method: str, assignment: Mapping[str, Sequence[str]]) -> None:
        """Write one method's answer to one case, nodes by task in rank order; nothing without a folder."""
        if self.dump is None:
            return
        self.dump.mkdir(parents=True, exist_ok=True)
        document = {"case": case, "method": method, "assignment": {task: list(nodes) for task, nodes in assignment.items()}}
        (self.dump / f"{file_name(f'{case} {method}')}.json").write_text(json.dumps(document, indent=1) + "\n")

    def dump_case(self, case: str, document: Callable[[], object]) -> None:
        """Write what a case is, once, so that its assignments can be scored again; `document` is asked only where it is needed."""
        if self.dump is None:
            return
        file = self.dump / CASES / f"{file_name(case)}.json"
        if not file.exists():
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(msgspec.json.encode(document()))


def file_name(text: str) -> str:
    """Letters, digits and dashes."""
    return re.sub(r"[^A-Za-z0-9]+", "-", text).strip("-").lower()
