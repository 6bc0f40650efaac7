"""Coq and OCaml for tests: those on PATH, else Debian's packages unpacked into the cache. Nothing is installed.

Coq 8.16 loads its plugins from the unpacked folder. OCaml compiles to bytecode, so that no C compiler is needed.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from e2e.cluster.binaries import cache_directory

PACKAGES: Final = ("coq", "libcoq-core-ocaml", "libcoq-stdlib", "ocaml", "ocaml-base")
"""Debian 12: coq 8.16.1 and OCaml 4.13.1, 210 MB to download."""
KEPT: Final = re.compile(
    r"usr/bin/(coqc|ocamlc\.opt|ocamlrun)"
    r"|usr/lib/ocaml/(coq/theories/.*\.vo|coq-core/(META|plugins/.*\.(cmxs|cma)))"
    r"|usr/lib/ocaml/([^/]*\.(cmi|cma|cmo)|camlheader[^/]*|ld\.conf|stublibs/[^/]*)"
)
"""Files that compiling a proof and its extracted program reads: 120 of 870 MB."""
_APT_SECONDS: Final = 300.0
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
    folder = cache_directory() / "coq-debian"
    if not folder.is_dir():
        _unpack(folder)
    return Toolchain(folder)


def _unpack(target: Path) -> None:
    """Download the packages with apt-get as the current user and keep the files of `KEPT`."""
    if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
        raise ToolchainMissingError("coqc is not on PATH and this is not a Debian system: install Coq 8.16 and OCaml 4.13 or newer")
    sys.stderr.write("fetching the Debian packages of Coq and OCaml (once, 210 MB)\n")
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".coq-") as scratch:
        folder = Path(scratch)
        if not _download(folder, ()):
            (folder / "state" / "lists" / "partial").mkdir(parents=True)
            own = ("-o", f"Dir::State={folder}/state", "-o", "Dir::State::status=/var/lib/dpkg/status", "-o", f"Dir::Cache={folder}/cache")
            _finishes(["apt-get", "-qq", *own, "update"], folder)
            if not _download(folder, own):
                raise ToolchainMissingError("the Debian packages of Coq cannot be downloaded: install coq and put coqc on PATH")
        for package in sorted(folder.glob("*.deb")):
            _keep(package, folder / "out")
        _move(folder / "out", target)


def _keep(package: Path, out: Path) -> None:
    """Unpack the files of `KEPT` alone."""
    command = ["dpkg-deb", "--fsys-tarfile", str(package)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as unpacking, tarfile.open(fileobj=unpacking.stdout, mode="r|") as files:
        for member in files:
            name = member.name.removeprefix("./")
            content = files.extractfile(member) if member.isfile() and KEPT.fullmatch(name) else None
            if content is not None:
                place = out / name
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_bytes(content.read())
                place.chmod(member.mode)
    if unpacking.returncode != 0:
        raise ToolchainMissingError(f"{package.name} cannot be unpacked: free disk space below {out.parent}")


def _move(out: Path, target: Path) -> None:
    library = target / "usr/lib/ocaml"
    (out / "findlib.conf").write_text(f'destdir="{library}"\npath="{library}"\n')
    try:
        out.rename(target)
    except OSError:  # another process was first
        if not target.is_dir():
            raise


def _download(folder: Path, options: tuple[str, ...]) -> bool:
    command = ["apt-get", "-qq", *options, "-o", "APT::Sandbox::User=", "download", *PACKAGES]
    return _finishes(command, folder) and len(list(folder.glob("*.deb"))) == len(PACKAGES)


def _finishes(command: list[str], folder: Path) -> bool:
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    try:
        finished = subprocess.run(command, cwd=folder, env=environment, capture_output=True, timeout=_APT_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return False
    return finished.returncode == 0
