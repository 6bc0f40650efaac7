"""`--help`, `version` and the name of the program."""

from __future__ import annotations

import sys

import pytest

from hyperscale import __version__
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
