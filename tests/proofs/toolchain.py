"""Coq and OCaml for tests: those on PATH, else Debian's packages unpacked into the cache. Nothing is installed.

Coq 8.16 loads its plugins from the unpacked folder. OCaml compiles to bytecode, so that no C compiler is needed.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from tests.debian import PackagesMissingError, unpacked

PACKAGES: Final = ("coq", "libcoq-core-ocaml", "libcoq-stdlib", "ocaml", "ocaml-base")
"""Debian 12: coq 8.16.1 and OCaml 4.13.1, 210 MB to download."""
KEPT: Final = re.compile(
    r"usr/bin/(coqc|ocamlc\.opt|ocamlrun)"
    r"|usr/lib/ocaml/(coq/theories/.*\.vo|coq-core/(META|plugins/.*\.(cmxs|cma)))"
    r"|usr/lib/ocaml/([^/]*\.(cmi|cma|cmo)|camlheader[^/]*|ld\.conf|stublibs/[^/]*)"
)
"""Files that compiling a proof and its extracted program reads: 120 of 870 MB."""
_RUN_SECONDS: Final = 120.0


class ToolchainMissingError(Exception):
    """Neither PATH nor Debian's packages give Coq; the message says what to install."""


@dataclass(frozen=True)
class Toolchain:
    """Where coqc, ocamlc and ocamlrun are, and the environment that they run in."""

    folder: Path | None
    """Of the unpacked packages; None: the programs on PATH."""

    def run(self, program: str, *arguments: str, folder: Path, given: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        """Run one of the programs in a folder with bytes on its standard input; the caller looks at the exit code."""
        name = str(self.folder / "usr/bin" / program) if self.folder is not None else program.removesuffix(".opt")
        return subprocess.run(
            [name, *arguments], cwd=folder, env=self._environment(), input=given, capture_output=True, timeout=_RUN_SECONDS, check=False
        )

    def _environment(self) -> dict[str, str]:
        if self.folder is None:
            return dict(os.environ)
        library = self.folder / "usr/lib/ocaml"
        return {
            **os.environ,
            "COQLIB": str(library / "coq"),
            "COQCORELIB": str(library / "coq-core"),
            "OCAMLFIND_CONF": str(self.folder / "findlib.conf"),
            "OCAMLPATH": str(library),
            "OCAMLLIB": str(library),
            "CAML_LD_LIBRARY_PATH": str(library / "stublibs"),
        }


@cache
def toolchain() -> Toolchain:
    """Return Coq and OCaml, fetched once; raises ToolchainMissingError."""
    if all(shutil.which(name) for name in ("coqc", "ocamlc", "ocamlrun")):
        return Toolchain(None)
    try:
        folder = unpacked("coq-debian", PACKAGES, KEPT)
    except PackagesMissingError as error:
        raise ToolchainMissingError(f"coqc is not on PATH, and {error}: install Coq 8.16 and OCaml 4.13 or newer") from error
    library = folder / "usr/lib/ocaml"
    if not (folder / "findlib.conf").is_file():
        (folder / "findlib.conf").write_text(f'destdir="{library}"\npath="{library}"\n')
    return Toolchain(folder)
