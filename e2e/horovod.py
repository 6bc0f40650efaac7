"""`python -m e2e.horovod`: Horovod with Open MPI in this environment, compiled once for each torch and kept.

A machine without Open MPI gets Debian's when this runs as root; otherwise it says what to install. images/worker/Dockerfile builds the same
versions from the same locks. e2e/gpuwheel.py builds the variant for GPUs with what is here.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from e2e.cluster.binaries import cache_directory
from e2e.cluster.progress import Progress, duration, say, wall_seconds

WORKER: Final = Path(__file__).resolve().parents[1] / "images" / "worker"
PACKAGES: Final = {
    "mpirun": "openmpi-bin",
    "mpicxx": "libopenmpi-dev",
    "ssh": "openssh-client",
    "g++": "g++",
    "make": "make",
}
"""Debian's package of each command. libopenmpi-dev alone brings no C++ compiler, which Horovod is built with."""
OPTIONS: Final = {
    "HOROVOD_WITH_MPI": "1",
    "HOROVOD_WITHOUT_GLOO": "1",
    "HOROVOD_WITH_PYTORCH": "1",
    "HOROVOD_WITHOUT_TENSORFLOW": "1",
    "HOROVOD_WITHOUT_MXNET": "1",
    "HOROVOD_CPU_OPERATIONS": "MPI",
}


@dataclass(frozen=True)
class Variant:
    """A way to build Horovod; the name begins the folder of its wheel, and a change in any of the files builds it again."""

    name: str
    options: Mapping[str, str]
    files: tuple[str, ...]
    gpu: bool = False


CPU: Final = Variant("horovod", OPTIONS, ("horovod.lock", "build.lock", "c++20"))
GPU: Final = Variant(
    "horovod-gpu", {**OPTIONS, "HOROVOD_GPU_OPERATIONS": "NCCL", "HOROVOD_NCCL_LINK": "SHARED"}, (*CPU.files, "cuda.lock", "cuda.sh"), True
)
"""NCCL is shared with PyTorch: a second copy in the process would hold memory of its own on every GPU."""
TOOLKIT: Final = ("HOROVOD_CUDA_HOME", "HOROVOD_NCCL_HOME", "CUDA_HOME")
"""All name the folder that cuda.sh made; the last one is for PyTorch's build tools, which Horovod asks for libraries."""
CPU_SECONDS: Final = 150.0
"""Of the processor that the variant without GPUs takes."""
RANK_MODULES: Final = ("dgl", "horovod.torch", "hyperscale.training.worker.launch", "hyperscale.training.worker.train")
"""What ranks import. They cannot write bytecode into the packages that their node mounts."""
_BUILD_SECONDS: Final = 1800.0
_LOCK_SECONDS: Final = 300
"""A fresh machine updates itself first."""


class BuildError(Exception):
    """Horovod cannot be had; the message says why and what to do."""


def wheel_directory(variant: Variant = CPU) -> Path:
    """Where the wheel for this Python, torch, lock and compiler wrapper is kept."""
    digest = hashlib.sha256()
    for part in (sys.version, importlib.metadata.version("torch"), *(f"{name}={value}" for name, value in variant.options.items())):
        digest.update(part.encode() + b"\0")
    for name in variant.files:
        digest.update((WORKER / name).read_bytes())
    return cache_directory() / f"{variant.name}-{digest.hexdigest()[:16]}"


def built() -> bool:
    """Whether `ensure` has nothing to compile."""
    return not absent() and wheel_directory().is_dir()


def installed() -> bool:
    """Whether this interpreter has the Horovod of this pin."""
    try:
        origin = importlib.metadata.distribution("horovod").read_text("direct_url.json") or ""
    except importlib.metadata.PackageNotFoundError:
        return False
    return wheel_directory().name in origin and not absent()


def absent() -> list[str]:
    """Packages whose commands are missing."""
    return sorted({package for command, package in PACKAGES.items() if shutil.which(command) is None})


def ensure_mpi() -> None:
    """Open MPI's compiler wrapper and mpirun on PATH; raises BuildError where they cannot be installed."""
    missing = absent()
    if not missing:
        return
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        raise BuildError(
            f"Open MPI or what Horovod is built with is missing; install {' '.join(missing)} (Debian's names), then run this again"
        )
    print(f"installing {' '.join(missing)}", file=sys.stderr, flush=True)
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    apt = ["apt-get", "-qq", "-o", f"DPkg::Lock::Timeout={_LOCK_SECONDS}"]
    _run([*apt, "update"], environment)
    _run([*apt, "install", "--yes", "--no-install-recommends", *missing], environment)
    if left := absent():
        raise BuildError(f"apt-get did not bring {' '.join(left)}: install them, then run this again")


def ensure_wheel(variant: Variant = CPU) -> Path:
    """The wheel, built where this pin was not built before. Safe to interrupt and to run twice."""
    target = wheel_directory(variant)
    if target.is_dir():
        return next(target.glob("*.whl"))
    target.parent.mkdir(parents=True, exist_ok=True)
    say(f"building Horovod (once for this version): about {duration(wall_seconds(CPU_SECONDS))}")
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".horovod-") as scratch:
        built = _build(Path(scratch), variant)
        try:
            built.rename(target)
        except OSError:  # another process finished the same build first: its result is as good as ours
            if not target.is_dir():
                raise
    return next(target.glob("*.whl"))


def _build(scratch: Path, variant: Variant) -> Path:
    tools, wheels = scratch / "tools", scratch / "wheels"
    _install(tools, "build.lock")
    environment = {
        **os.environ,
        **variant.options,
        **(dict.fromkeys(TOOLKIT, str(toolkit(scratch / "cuda"))) if variant.gpu else {}),
        "CXX": str(WORKER / "c++20"),
        "PATH": f"{tools / 'bin'}:{os.environ['PATH']}",
        "PYTHONPATH": str(tools),
        "MAKEFLAGS": f"-j{os.cpu_count() or 1}",
    }
    lock = scratch / "horovod.lock"
    lock.write_text("".join(re.findall(r"^horovod==.*?(?:\n(?! )|\Z)", (WORKER / "horovod.lock").read_text(), re.MULTILINE | re.DOTALL)))
    _run([sys.executable, "-m", "ensurepip"], environment)
    command = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--verbose",  # the build's own percentages
        "--require-hashes",
        "--no-deps",
        "--no-build-isolation",
        "--no-cache-dir",  # pip keeps wheels that it built by the source's hash alone: one for another torch or compiler would come back
        "--no-binary",
        ":all:",
    ]
    _compile([*command, "--wheel-dir", str(wheels), "-r", str(lock)], environment)
    return wheels


def toolkit(folder: Path) -> Path:
    """CUDA's compiler from the package index with PyTorch's own headers and libraries; raises BuildError."""
    _install(folder, "cuda.lock")
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    return Path(_run(["sh", str(WORKER / "cuda.sh"), str(folder)], {**os.environ, "PATH": path}).strip())


def _install(folder: Path, lock: str) -> None:
    uv = str(Path(sys.executable).parent / "uv")
    _run(
        [uv, "pip", "install", "--quiet", "--no-deps", "--target", str(folder), "--require-hashes", "-r", str(WORKER / lock)],
        dict(os.environ),
    )


def ensure() -> None:
    """Horovod importable by this interpreter, on MPI; raises BuildError."""
    ensure_mpi()
    uv = str(Path(sys.executable).parent / "uv")
    environment = {**os.environ, "VIRTUAL_ENV": str(Path(sys.executable).parents[1])}
    needed = [
        line.split()[0] for line in (WORKER / "horovod.lock").read_text().splitlines() if "==" in line and not line.startswith("horovod")
    ]
    _run(
        [uv, "pip", "install", "--quiet", "--no-deps", *[name for name in needed if not _installed(name)], str(ensure_wheel())], environment
    )
    _run([sys.executable, "-W", "ignore", "-c", f"import {', '.join(RANK_MODULES)}"], {**environment, "DGLBACKEND": "pytorch"})


def _installed(pinned: str) -> bool:
    try:
        importlib.metadata.version(pinned.split("==")[0])
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


def _compile(command: list[str], environment: dict[str, str]) -> None:
    """Run a build by CMake, with lines about its progress; raises BuildError."""
    progress = Progress("building Horovod", wall_seconds(CPU_SECONDS))
    lines: list[str] = []
    with subprocess.Popen(command, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        timer = threading.Timer(_BUILD_SECONDS, process.kill)
        timer.start()
        for line in process.stdout or ():
            lines.append(line)
            if found := re.search(r"\[ *(\d+)%\]", line):
                progress.at(int(found.group(1)) / 100, f"{found.group(1)} % done")
        timer.cancel()
    if process.returncode != 0:
        raise BuildError(f"{' '.join(command[:4])} failed, or took longer than {_BUILD_SECONDS:.0f} s:\n{''.join(lines)[-3000:]}")


def _run(command: list[str], environment: dict[str, str]) -> str:
    try:
        finished = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=_BUILD_SECONDS, check=False)
    except subprocess.TimeoutExpired as error:
        raise BuildError(f"{' '.join(command[:4])} did not end in {_BUILD_SECONDS:.0f} s") from error
    if finished.returncode != 0:
        raise BuildError(f"{' '.join(command[:4])} failed:\n{(finished.stderr or finished.stdout)[-3000:]}")
    return finished.stdout


if __name__ == "__main__":
    try:
        ensure()
    except BuildError as error:
        print(f"horovod: {error}", file=sys.stderr)
        sys.exit(2)
