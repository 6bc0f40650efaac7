"""Commands that pages and the README show exist: flags are parsed, files are there, chart values and make targets are known."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml

from hyperscale.cli.arguments.parser import build_parser

ROOT = Path(__file__).resolve().parents[3]
PAGES = [ROOT / "README.md", *(ROOT / "docs").glob("*.md"), *(ROOT / "docs/tasks").glob("*.md")]
TEXTS = {str(page.relative_to(ROOT)): page.read_text() for page in PAGES}
CHART = yaml.safe_load((ROOT / "charts/hyperscale/values.yaml").read_text())
FREE = ("commonLabels", "nodeSelector", "affinity", "annotations", "extraEnv")
"""Values below which any key may stand."""


def shown(text: str) -> list[str]:
    """Commands of a page: lines of code blocks, and inline code, without comments and with continued lines joined."""
    joined = text.replace("\\\n", " ")
    blocks = re.findall(r"^(?: {4,}|)(?:\$ )?((?:hyperscale|kubectl|helm|make|docker) .*)$", joined, re.MULTILINE)
    return [line.split(" #")[0].strip() for line in [*blocks, *re.findall(r"`((?:hyperscale|make|helm) [^`]+)`", joined)]]


COMMANDS = sorted({(name, line) for name, text in TEXTS.items() for line in shown(text)})


def of(program: str) -> list[Any]:
    return [pytest.param(line, id=f"{name}: {line[:60]}") for name, line in COMMANDS if line.split()[0] == program]


def is_whole(line: str) -> bool:
    """Not a mention of a command without its arguments, and no choice written as A|B."""
    words = line.split()
    return len(words) > 1 and "…" not in line and "|" not in line and (words[1] != "plan" or "-f" in words)


@pytest.mark.parametrize("line", of("hyperscale"))
def test_a_command_of_ours_parses(line: str) -> None:
    words = shlex.split(line.split(" > ")[0].split(";")[0])[1:]
    if len(words) == 1 or not is_whole(line):
        assert words[0] in {*build_parser("hyperscale").format_help().split(), "COMMAND", "--version"}
        return
    if "--help" not in words:
        build_parser("hyperscale").parse_args([word.replace("N", "1") if word.isupper() and len(word) == 1 else word for word in words])


@pytest.mark.parametrize("line", of("kubectl") + of("hyperscale") + of("docker") + of("helm"))
def test_a_file_that_a_command_names_is_there(line: str) -> None:
    for path in re.findall(r"\b(?:examples|charts|images|crds)/[\w./-]*[\w-]", line):
        assert (ROOT / path).exists(), path


@pytest.mark.parametrize("line", of("helm"))
def test_a_value_that_a_command_sets_is_one_of_the_chart(line: str) -> None:
    for path in re.findall(r"--set(?:-string)? ([\w.]+)=", line):
        below: Any = CHART
        for step in path.split("."):
            assert step in below, path
            below = below[step]
            if step in FREE:
                break


@pytest.mark.parametrize("line", of("make"))
def test_a_target_that_a_page_names_is_in_the_makefile(line: str) -> None:
    target = shlex.split(line)[1]
    assert re.search(rf"^{re.escape(target)}:", (ROOT / "Makefile").read_text(), re.MULTILINE), target
