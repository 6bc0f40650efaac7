"""Suites of the placement benchmark: modules with `run(options) -> list[Row]`, found by name."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path


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

    def dump_assignment(self, case: str, method: str, assignment: Mapping[str, Sequence[str]]) -> None:
        """Write one method's answer to one case, nodes by task in rank order; nothing without a folder."""
        if self.dump is None:
            return
        self.dump.mkdir(parents=True, exist_ok=True)
        document = {"case": case, "method": method, "assignment": {task: list(nodes) for task, nodes in assignment.items()}}
        name = re.sub(r"[^A-Za-z0-9]+", "-", f"{case} {method}").strip("-").lower()
        (self.dump / f"{name}.json").write_text(json.dumps(document, indent=1) + "\n")
