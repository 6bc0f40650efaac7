"""Signs of life: on a terminal while a command runs long, nowhere else, and never in the answer."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec

import pytest

from hyperscale import __version__
from hyperscale.cli import spinner
from hyperscale.cli.main import main
from tests.unit.cli.cli_samples import Files, files_fixture, run

__all__ = ["files_fixture"]


@contextmanager
def terminal(*, output: bool) -> Iterator[Callable[[], str]]:
    """A real terminal as standard error, and as standard output too where `output`; gives what a person's screen received so far."""
    master, slave = os.openpty()
    before = sys.stdout, sys.stderr
    opened = os.fdopen(slave, "w", buffering=1)
    os.set_blocking(master, False)
    received = bytearray()

    def screen() -> str:
        opened.flush()
        while True:
            try:
                received.extend(os.read(master, 65536))
            except BlockingIOError:
                return received.decode()

    sys.stderr = opened
    if output:
        sys.stdout = opened
    try:
        yield screen
    finally:
        sys.stdout, sys.stderr = before
        opened.close()
        os.close(master)


@pytest.fixture(name="at_once")
def at_once_fixture(monkeypatch: pytest.MonkeyPatch) -> None:
    """Signs of life without the first second, so that no timing decides."""
    monkeypatch.setattr(spinner, "AFTER_SECONDS", 0.0)
    monkeypatch.setenv("TERM", "xterm")


@pytest.mark.usefixtures("at_once")
def test_a_command_on_a_terminal_says_what_it_does_and_leaves_only_its_answer_on_the_screen(files: Files) -> None:
    with terminal(output=True) as screen:
        assert main(["plan", "-f", files.job, "--snapshot", files.snapshot]) == 0
        shown = screen()
    first, *_ = shown.split("Job  ")
    assert "plan … 0 s" in first
    assert first.endswith(spinner.ERASE), "the line is gone before the answer begins"
    assert "…" not in shown[len(first) :]


@pytest.mark.usefixtures("at_once")
def test_an_error_on_a_terminal_stands_on_a_line_of_its_own() -> None:
    with terminal(output=True) as screen:
        assert main(["plan", "-f", "nowhere.yaml"]) == 2
        shown = screen()
    assert f"{spinner.ERASE}hyperscale: nowhere.yaml: no such file" in shown


@pytest.mark.usefixtures("at_once")
def test_a_pipe_gets_the_answer_and_nothing_else(files: Files, capsys: pytest.CaptureFixture[str]) -> None:
    with terminal(output=False) as screen:
        assert main(["plan", "-f", files.job, "--snapshot", files.snapshot, "-o", "json"]) == 0
        assert "plan … 0 s" in screen()
    json.loads(capsys.readouterr().out)
    ran = run("plan", "-f", files.job, "--snapshot", files.snapshot, "-o", "json")
    assert ran.err == ""
    json.loads(ran.out)


def test_a_command_that_answers_within_the_second_shows_nothing(monkeypatch: pytest.MonkeyPatch, files: Files) -> None:
    monkeypatch.setattr(spinner, "AFTER_SECONDS", 600.0)
    with terminal(output=False) as screen:
        assert main(["plan", "-f", files.job, "--snapshot", files.snapshot, "-o", "json"]) == 0
        assert screen() == ""


@pytest.mark.usefixtures("at_once")
def test_a_dumb_terminal_gets_no_control_characters(monkeypatch: pytest.MonkeyPatch, files: Files) -> None:
    monkeypatch.setenv("TERM", "dumb")
    with terminal(output=False) as screen:
        assert main(["plan", "-f", files.job, "--snapshot", files.snapshot, "-o", "json"]) == 0
        assert screen() == ""


@pytest.mark.usefixtures("at_once")
def test_analyzing_a_model_shows_a_sign_of_life_before_torch_is_loaded() -> None:
    if find_spec("dgl") is None:
        pytest.skip("DGL is not installed")
    with terminal(output=False) as screen:
        assert main(["analyze", "GCN", "-o", "json"]) == 0
        assert "loading torch and DGL" in screen()


def test_the_version_is_an_option_too() -> None:
    assert run("--version").out == f"hyperscale {__version__}\n"
    assert run("--version").code == 0
