"""`--help`, `version` and the name of the program."""

from __future__ import annotations

import shlex
import sys

import pytest

from hyperscale import __version__
from hyperscale.cli.arguments.parser import build_parser
from hyperscale.cli.main import COMMANDS
from tests.unit.cli.cli_samples import run


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_every_command_has_help_with_an_example_and_the_exit_codes(command: str) -> None:
    ran = run(command, "--help")
    assert ran.code == 0
    assert "example:" in ran.out
    assert f"hyperscale {command}" in ran.out
    assert "exit codes:" in ran.out


def test_the_plugin_of_kubectl_calls_itself_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["/usr/local/bin/kubectl-gnn"])
    assert "kubectl gnn plan -f" in run("plan", "--help").out
    assert run("nonsense").err.startswith("kubectl gnn: ")


def test_version_is_one_line() -> None:
    assert run("version").out == f"hyperscale {__version__}\n"


def examples(*argv: str) -> list[str]:
    """Command lines of this program in a command's help, without what stands before a pipe or after a redirection."""
    lines = run(*argv, "--help").out.partition("example:")[2].splitlines()
    return [line.rpartition("| ")[2].partition(" > ")[0].strip() for line in lines if line.strip()]


@pytest.mark.parametrize("argv", [(), *((command,) for command in sorted(COMMANDS)), ("data", "inspect"), ("data", "generate")], ids=str)
def test_every_example_is_of_its_own_command_and_parses(argv: tuple[str, ...]) -> None:
    lines = examples(*argv)
    assert lines
    for line in lines:
        words = shlex.split(line)
        assert words[: 1 + len(argv)] == ["hyperscale", *argv]
        build_parser("hyperscale").parse_args(words[1:])


@pytest.mark.parametrize("command", sorted({*COMMANDS} - {"snapshot", "data"}))
def test_every_command_offers_json_and_says_so(command: str) -> None:
    assert "-o {table,json" in run(command, "--help").out
