"""Every command in the code blocks of the pages on trying, installing and tasks is run by a test, or listed with the reason why not."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from e2e import installpage
from tests.reference import page_commands, transcripts

ROOT = page_commands.ROOT
TRY = (ROOT / "docs/try.md").read_text()


def executed(page: str) -> dict[str, str]:
    """Commands of a page that some test runs, with the place that runs them."""
    run: dict[str, str] = {}
    if page == "try.md":
        run |= dict.fromkeys(transcripts.commands(TRY), "test_reference_pages.py") | dict.fromkeys(page_commands.TRY, __name__)
    if page == "install.md":
        text = installpage.PAGE.read_text()
        steps = [*installpage.commands(text), *installpage.commands(text, installpage.UNINSTALL)]
        run |= dict.fromkeys((" ".join(command.written.split()) for command in steps), "e2e/install.py")
    if page == "tasks/upgrade.md":
        run |= dict.fromkeys(page_commands.FORMER, "tests/api/test_upgrade.py")
    run |= dict.fromkeys(page_commands.FILES.get(page, {}), "tests/unit/cli/test_commands_of_pages.py")
    return run | dict.fromkeys(page_commands.SERVER.get(page, {}), "tests/api/test_commands_of_pages.py")


@pytest.mark.parametrize("page", page_commands.PAGES)
def test_every_command_of_a_page_is_run_or_says_why_not(page: str) -> None:
    run, shown = executed(page), page_commands.of_page(page)
    print(*(f"{run.get(command, 'NOT RUN: ' + page_commands.NOT_RUN.get(command, '?')):<42} {command[:90]}" for command in shown), sep="\n")
    assert [command for command in shown if command not in run and command not in page_commands.NOT_RUN] == []
    assert sorted(set(run) - set(shown)) == [], "the page does not show it any more"


def test_a_command_without_a_test_is_a_command_of_some_page() -> None:
    shown = {command for page in page_commands.PAGES for command in page_commands.of_page(page)}
    run = {command for page in page_commands.PAGES for command in executed(page)}
    print(f"{len(shown)} commands, {len(shown & run)} run, {len(page_commands.NOT_RUN)} not")
    assert set(page_commands.NOT_RUN) <= shown - run
    assert all(page_commands.NOT_RUN.values())


@pytest.mark.parametrize(
    "block", ["    hyperscale topology --new\n", "```sh\nhyperscale topology --new\n```\n", "    $ hyperscale topology --new\n    out\n"]
)
def test_a_command_that_a_page_gains_is_noticed(block: str) -> None:
    assert page_commands.commands(f"Text.\n\n{block}\nText.\n") == ["hyperscale topology --new"]


def test_a_long_command_is_one_and_a_comment_is_none_of_it() -> None:
    assert page_commands.commands("    helm upgrade a \\\n      --set b=c\n\n    kubectl get pods    # all of them\n") == [
        "helm upgrade a --set b=c",
        "kubectl get pods",
    ]


def test_files_of_other_languages_and_formulas_show_no_command() -> None:
    assert page_commands.commands("```yaml\na: b\n```\n\n    now    = predicted epoch of it\n\n    then   = later\n") == []


def test_what_the_first_page_installs_plans(tmp_path: Path) -> None:
    for name in ("operator", "examples"):
        (tmp_path / name).symlink_to(ROOT / name)
    create, alias = page_commands.TRY
    assert page_commands.TRY[create].run.startswith("python ")
    subprocess.run([sys.executable, *page_commands.TRY[create].run.split()[1:]], cwd=tmp_path, check=True)
    (packages,) = (tmp_path / ".venv-try/lib").glob("python*/site-packages")
    (packages / "packages.pth").write_text(sysconfig.get_paths()["purelib"])
    script = "\n".join(["shopt -s expand_aliases", alias, transcripts.commands(TRY)[-1]])
    ran = subprocess.run(["/bin/bash", "-ec", script], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.splitlines()[0] in TRY
