"""Run a page's command in a shell as a person does: with kubectl, helm and hyperscale on PATH, next to the repository's files."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tests.reference.page_commands import ROOT, Run

LINKED: Final = ("examples", "charts", "crds", "images", "docs")
_SECONDS: Final = 120.0


def prepare(folder: Path, binaries: Mapping[str, Path]) -> None:
    """Link the repository's folders into an empty one, and put `hyperscale` next to them."""
    for name in LINKED:
        (folder / name).symlink_to(ROOT / name)
    tools = folder / "bin"
    tools.mkdir()
    for name in ("kubectl", "helm"):
        (tools / name).symlink_to(binaries[name])
    program = tools / "hyperscale"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -W ignore -m hyperscale.cli.main "$@"\n')
    program.chmod(0o755)


def run(folder: Path, kubeconfig: Path, command: str, form: Run) -> str:
    """Return what a command prints; raises AssertionError for another exit code than its form allows."""
    path = os.pathsep.join([str(folder / "bin"), os.environ["PATH"]])
    environment = {**os.environ, "PATH": path, "KUBECONFIG": str(kubeconfig), "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    ran = subprocess.run(
        ["/bin/bash", "-euc", form.run or command],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=_SECONDS,
    )
    assert ran.returncode in form.codes, f"{command}\n{ran.stdout}\n{ran.stderr}"
    return ran.stdout
