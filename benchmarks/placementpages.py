"""The pages of the placement benchmark: one for every suite, and an overview with the goals that each missed.

A suite's page is of the run that it names, so that one suite is measured again without the others.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from benchmarks import documents
from benchmarks.common import Row
from benchmarks.summary import markdown

RUN: Final = "placement"
"""Benchmark of the rows that name command and machine."""
MISSED: Final = re.compile(r"^Missed, (\d+) of (\d+):$", re.MULTILINE)
HELD: Final = re.compile(r"^All (\d+) goals hold\.$", re.MULTILINE)


def write(folder: Path, suites: Mapping[str, str], rows: Sequence[Row], notes: Sequence[str]) -> None:
    """Write a page for every suite that has rows, and the overview of all pages there are.

    folder: of the suites' pages; the overview lies beside it, under the same name
    """
    folder.mkdir(parents=True, exist_ok=True)
    run = [row for row in rows if row.benchmark == RUN]
    for name, sentence in suites.items():
        if own := [row for row in rows if row.benchmark == name]:
            (folder / f"{name}.md").write_text(documents.page(f"Placement: {name}", {name: sentence}, [*run, *own]))
    folder.with_suffix(".md").write_text(overview(folder, suites, notes))


def overview(folder: Path, suites: Mapping[str, str], notes: Sequence[str]) -> str:
    """Every suite with its goals, as its page has them."""
    pages = {name: page.read_text() for name in suites if (page := folder / f"{name}.md").is_file()}
    cells = [(f"[{name}]({folder.name}/{name}.md)", suites[name], *_goals(page)) for name, page in pages.items()]
    head = "Written by the command below; edit the benchmark, not these pages. Each is of the run that it names."
    command = "    python benchmarks/placement.py --write-docs"
    return "\n\n".join(["# Placement benchmark", head, command, markdown(("suite", "what", "goals", "missed"), cells), *notes]) + "\n"


def _goals(page: str) -> tuple[str, str]:
    """How many goals a page has, and how many were missed."""
    if missed := MISSED.search(page):
        return missed[2], missed[1]
    held = HELD.search(page)
    return (held[1], "0") if held else ("0", "")
