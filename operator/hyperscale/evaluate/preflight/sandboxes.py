"""Command lines of the sandboxes, and whether they work on this machine."""

from __future__ import annotations

import functools
import os
import shutil
import site
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import hyperscale
from hyperscale.evaluate.preflight.trial_types import Limits, Sandbox, TrialRequest

SCRATCH: Final = "/scratch"
"""Working directory inside bubblewrap."""
DATA: Final = "/data"
CHECKPOINTS: Final = "/checkpoints"
TRIAL_SECONDS: Final = 20.0
"""Longest try of a sandbox that does nothing."""
SYSTEM: Final = (
    "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt", "/etc/alternatives", "/etc/ld.so.cache", "/etc/ld.so.conf",
    "/etc/ld.so.conf.d", "/etc/hosts", "/etc/nsswitch.conf", "/etc/passwd", "/etc/group", "/etc/localtime", "/etc/ssl/certs",
    "/sys/devices/system",
)  # fmt: skip
"""What a Python program reads of a system; nothing in it is secret."""
IN_MEMORY: Final = (SCRATCH, CHECKPOINTS, "/tmp", "/dev/shm")  # noqa: S108 - inside
"""Folders that bubblewrap has in memory; all that the code may write to."""
MAX_LINKS: Final = 256
GVISOR: Final = ("runsc", "--rootless", "--platform=ptrace", "--network=none", "do")


class SandboxError(Exception):
    """The sandbox that was asked for cannot be had; the message says what to do."""


def choose(wanted: str) -> Sandbox:
    """Return the sandbox of that name; `auto` takes bubblewrap where it works, else none. Raises SandboxError."""
    if wanted == "auto":
        return Sandbox.BUBBLEWRAP if works(Sandbox.BUBBLEWRAP) else Sandbox.NONE
    chosen = Sandbox(wanted)
    if not works(chosen):
        program = "bwrap" if chosen is Sandbox.BUBBLEWRAP else "runsc"
        raise SandboxError(f"{program} starts nothing here: install it, and allow user namespaces; or take the sandbox `none`")
    return chosen


@functools.cache
def works(sandbox: Sandbox) -> bool:
    """Whether it runs a program that does nothing."""
    if sandbox is Sandbox.NONE:
        return True
    command = [*_bubblewrap((), Limits()), "true"] if sandbox is Sandbox.BUBBLEWRAP else [*GVISOR, "true"]
    if shutil.which(command[0]) is None:
        return False
    try:
        done = subprocess.run(command, capture_output=True, stdin=subprocess.DEVNULL, timeout=TRIAL_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


def command(request: TrialRequest, inner: list[str], scratch: str) -> list[str]:
    """Return the command that runs `inner` in the request's sandbox.

    scratch: folder on this machine; bubblewrap has one in memory instead, which is gone with it
    """
    if request.sandbox is Sandbox.NONE:
        return inner
    if request.sandbox is Sandbox.GVISOR:
        return [*GVISOR, *inner]
    folders = _shared(request)
    data = ["--ro-bind", os.path.realpath(request.data), DATA] if request.data is not None else []
    return [
        *_bubblewrap(folders, request.limits),
        *data,
        *_near(request),
        "--remount-ro",
        "/",
        "--chdir",
        SCRATCH,
        *_variables(request),
        *inner,
    ]


def _bubblewrap(folders: Iterable[str], limits: Limits) -> list[str]:
    """Namespaces of its own for everything; a root of nothing but what is named here, all read-only."""
    # By its whole path: the sandbox itself runs with a PATH of system folders, in which bwrap need not be.
    words = [shutil.which("bwrap") or "bwrap", "--unshare-all", "--die-with-parent", "--new-session", "--cap-drop", "ALL"]
    words += ["--hostname", "localhost", "--clearenv"]
    for path in SYSTEM:
        words += ["--ro-bind-try", path, path]
    words += ["--dev", "/dev", "--proc", "/proc"]
    for folder in IN_MEMORY:
        words += ["--size", str(limits.file_bytes), "--tmpfs", folder]
    for folder in dict.fromkeys(folders):
        words += ["--ro-bind-try", os.path.realpath(folder), os.path.abspath(folder)]
        words += ["--ro-bind-try", os.path.realpath(folder), os.path.realpath(folder)]
    return words


def _shared(request: TrialRequest) -> list[str]:
    return [*python_folders(), *request.readable, *([request.script] if request.script is not None else [])]


def read_only(request: TrialRequest) -> tuple[str, ...]:
    """Return the paths inside bubblewrap at which files of this machine are; some may lie below folders of the trial's own."""
    shared = _shared(request)
    return (*map(os.path.abspath, shared), *map(os.path.realpath, shared), DATA)


def near_script(request: TrialRequest) -> list[str]:
    """Return the files of the readable folders: code finds them in its working directory, as it does in its image."""
    return [str(file) for folder in request.readable for file in sorted(Path(folder).iterdir())][:MAX_LINKS]


def _near(request: TrialRequest) -> list[str]:
    return [word for file in near_script(request) for word in ("--symlink", os.path.abspath(file), f"{SCRATCH}/{Path(file).name}")]


def _variables(request: TrialRequest) -> list[str]:
    return [word for name, value in request.environment.items() for word in ("--setenv", name, value)]


def python_folders() -> list[str]:
    """Return this Python, its packages, what its path and editable installs name, and this program."""
    package = Path(hyperscale.__file__).resolve().parent
    finders = [vars(module) for name, module in list(sys.modules.items()) if name.startswith("__editable__") and module is not None]
    named = [*map(os.path.abspath, filter(None, sys.path)), *(str(place) for each in finders for place in each.get("MAPPING", {}).values())]
    # A folder that this program lies in would show more than the program.
    roots = [place for place in named if os.path.exists(place) and not package.is_relative_to(Path(place).resolve())]
    return [sys.prefix, sys.base_prefix, *site.getsitepackages(), *roots, str(package)]
