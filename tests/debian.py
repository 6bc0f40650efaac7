"""Programs of Debian's packages, unpacked into the cache as the current user. Nothing is installed."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Final

from e2e.cluster.binaries import cache_directory

_APT_SECONDS: Final = 300.0


class PackagesMissingError(Exception):
    """Debian's packages cannot be had here; the message says why."""


def unpacked(name: str, packages: tuple[str, ...], kept: re.Pattern[str]) -> Path:
    """Return the folder `name` of the cache with the packages' files whose path matches `kept`; fetched once.

    Raises PackagesMissingError where this is no Debian system, or nothing can be downloaded or unpacked.
    """
    target = cache_directory() / name
    if target.is_dir():
        return target
    if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
        raise PackagesMissingError("this is not a Debian system")
    sys.stderr.write(f"fetching the Debian packages {', '.join(packages)} (once)\n")
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{name}-") as scratch:
        folder = Path(scratch)
        _fetch(folder, packages)
        for package in sorted(folder.glob("*.deb")):
            _keep(package, folder / "out", kept)
        try:
            (folder / "out").rename(target)
        except OSError:  # another process was first
            if not target.is_dir():
                raise
    return target


def bring_bubblewrap() -> None:
    """Put Debian's bwrap on PATH where there is none, and it can be had."""
    if shutil.which("bwrap") is not None:
        return
    with contextlib.suppress(PackagesMissingError):
        programs = unpacked("bubblewrap-debian", ("bubblewrap",), re.compile(r"usr/bin/bwrap")) / "usr/bin"
        os.environ["PATH"] = os.pathsep.join([os.environ.get("PATH", os.defpath), str(programs)])


def _fetch(folder: Path, packages: tuple[str, ...]) -> None:
    """Download with the machine's package lists, else with lists of its own."""
    if _download(folder, packages, ()):
        return
    (folder / "state" / "lists" / "partial").mkdir(parents=True)
    own = ("-o", f"Dir::State={folder}/state", "-o", "Dir::State::status=/var/lib/dpkg/status", "-o", f"Dir::Cache={folder}/cache")
    _finishes(["apt-get", "-qq", *own, "update"], folder)
    if not _download(folder, packages, own):
        raise PackagesMissingError(f"the Debian packages {', '.join(packages)} cannot be downloaded")


def _keep(package: Path, out: Path, kept: re.Pattern[str]) -> None:
    """Unpack the files that match alone."""
    command = ["dpkg-deb", "--fsys-tarfile", str(package)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as unpacking, tarfile.open(fileobj=unpacking.stdout, mode="r|") as files:
        for member in files:
            name = member.name.removeprefix("./")
            content = files.extractfile(member) if member.isfile() and kept.fullmatch(name) else None
            if content is not None:
                place = out / name
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_bytes(content.read())
                place.chmod(member.mode)
    if unpacking.returncode != 0:
        raise PackagesMissingError(f"{package.name} cannot be unpacked: free disk space below {out.parent}")


def _download(folder: Path, packages: tuple[str, ...], options: tuple[str, ...]) -> bool:
    command = ["apt-get", "-qq", *options, "-o", "APT::Sandbox::User=", "download", *packages]
    return _finishes(command, folder) and len(list(folder.glob("*.deb"))) == len(packages)


def _finishes(command: list[str], folder: Path) -> bool:
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    try:
        finished = subprocess.run(command, cwd=folder, env=environment, capture_output=True, timeout=_APT_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return False
    return finished.returncode == 0
