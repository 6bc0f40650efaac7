"""Commands on pages and their output: blocks of code whose first line is `$ hyperscale ...`."""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from hyperscale.cli.main import main

ROOT: Final = Path(__file__).resolve().parents[2]
_BLOCK: Final = re.compile(r"^```console\n\$ (hyperscale [^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_AGE: Final = re.compile(r"taken .* ago")


def commands(page: str) -> list[str]:
    """Return all commands of a page, in its order."""
    return [match.group(1) for match in _BLOCK.finditer(page)]


def refreshed(page: str) -> str:
    """Return the page with what its commands print today; the age of a file's figures stays as `taken … ago`."""
    return _BLOCK.sub(lambda match: f"```console\n$ {match.group(1)}\n{printed(match.group(1))}```", page)


def printed(command: str) -> str:
    """Return what a command prints in the root of the repository; raises AssertionError where it fails."""
    out, err = io.StringIO(), io.StringIO()
    with _in_root(), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert main(shlex.split(command)[1:]) == 0, err.getvalue()
    return _AGE.sub("taken … ago", "".join(f"{line.rstrip()}\n" for line in out.getvalue().splitlines()))


@contextlib.contextmanager
def _in_root() -> Iterator[None]:
    before = Path.cwd()
    os.chdir(ROOT)
    try:
        yield
    finally:
        os.chdir(before)
