"""Generated pages are those of today's code, and the commands that a page shows are run."""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

import pytest

from tests.reference import transcripts
from tests.reference.__main__ import DOCS, PAGES
from tests.unit.chart.test_locks import pins

ROOT = Path(__file__).resolve().parents[3]
TRY = (DOCS / "try.md").read_text()


@pytest.mark.parametrize("name", sorted(PAGES))
def test_a_generated_page_is_current(name: str) -> None:
    if name == "reference/commands.md" and sys.version_info[:2] != (3, 11):
        pytest.skip("argparse lays help out in another way on each Python; the page is that of 3.11")
    assert PAGES[name]() == (DOCS / name).read_text(), "run: python -m tests.reference"


@pytest.mark.parametrize("command", transcripts.commands(TRY))
def test_a_command_of_the_first_page_prints_what_the_page_shows(command: str) -> None:
    assert f"$ {command}\n{transcripts.printed(command)}```" in TRY


def test_the_first_page_shows_every_command_as_a_transcript() -> None:
    assert len(transcripts.commands(TRY)) == TRY.count("\n$ ") >= 3


def test_the_first_page_installs_the_locked_versions_of_dependencies_of_the_project() -> None:
    line = next(line for line in TRY.splitlines() if "pip install" in line)
    installed = dict(part.split("==") for part in line.split() if "==" in part)
    assert installed.items() <= pins(ROOT / "requirements/dev.lock").items()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    assert set(installed) <= {re.split(r"[<>=!~\[ ]", requirement)[0] for requirement in project}
