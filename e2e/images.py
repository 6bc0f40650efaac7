"""`python -m e2e.images [--gpu] [IMAGE ...]`: the complete images, built from their Dockerfiles, and every one tried on the processor.

In place of a registry's Python image stands a Debian made here with Debian's own Python and pip: its packages lie below /usr/local too,
and that is all the Dockerfiles rely on. The tries run in containers without capabilities and without a network, as each image's own user.
Needs root, Debian's buildah, mmdebstrap and runc, and tens of gigabytes, and keeps none of them. Exit codes: 0 done, 1 an image is wrong.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from e2e.cluster import cluster
from e2e.cluster.real import ground
from e2e.cluster.real.buildah import BUILT, Buildah, ImageError
from hyperscale.control.render import commands, security

ROOT: Final = Path(__file__).resolve().parents[1]
NAMES: Final = tuple(sorted(path.parent.name for path in (ROOT / "images").glob("*/Dockerfile")))
PACKAGES: Final = "python3,python3-dev,python3-pip,python3-venv,python-is-python3,ca-certificates"
"""What the Dockerfiles find in a registry's Python image."""
UNMARKED: Final = '--customize-hook=rm "$1"/usr/lib/python3.11/EXTERNALLY-MANAGED'
"""Debian's mark keeps pip out of /usr/local; a registry's image has none."""
LOOPBACK: Final = "lo"
SECONDS: Final = 3600.0


@dataclass(frozen=True)
class Try:
    """One command in a container: it must end with 0 and print `expected`, whose line is shown."""

    title: str
    command: tuple[str, ...]
    expected: str
    variables: tuple[str, ...] = ()


def _shell(*lines: str) -> tuple[str, ...]:
    return ("sh", "-euc", "\n".join(lines))


def _ranks() -> tuple[str, ...]:
    """The operator's launcher, with its ranks in the container where it runs: nothing but loopback is there."""
    given = commands.launcher_command(2, (), None, wrapped=True, packaged=True)
    return tuple(LOOPBACK if part == commands.NETWORK_INTERFACE else part for part in given)


_KEYS: Final = (
    f"ssh-keygen -q -t rsa -N '' -f {commands.SSH_PATH}/id_rsa 2>&1",
    f"cp {commands.SSH_PATH}/id_rsa.pub {commands.SSH_PATH}/authorized_keys",
)
_SSHD: Final = " ".join(commands.worker_command())
_IMPORTS: Final = """
import importlib, os, pkgutil
import hyperscale.training.data, hyperscale.training.partition, hyperscale.training.worker
import dgl, fsspec, horovod.torch, prometheus_client, psutil, pyarrow, pymetis, rdkit.Chem, s3fs, torch
packages = hyperscale.training.data, hyperscale.training.partition, hyperscale.training.worker
own = [f"{package.__name__}.{found.name}" for package in packages
       for found in pkgutil.iter_modules(package.__path__)]
for name in own:
    importlib.import_module(name)
print(f"imported: {len(own)} modules, torch {torch.__version__}, dgl {dgl.__version__}, uid {os.getuid()}")
"""
_SESSION: Final = "import horovod.torch, hyperscale"
_ASK: Final = """
import time, urllib.request
for _ in range(50):
    try:
        print("answered:", urllib.request.urlopen("http://127.0.0.1:9465/readyz").read().decode())
        break
    except OSError:
        time.sleep(0.2)
"""
_KNOWS_GPUS: Final = """
import horovod.torch as hvd
print(f"nccl_built {int(hvd.nccl_built())}, cuda_built {bool(hvd.cuda_built())}")
"""
_CORA: Final = (
    "HYPERSCALE_DATASET_PATH=Cora",
    'HYPERSCALE_MODEL={"architecture": "GCN", "hiddenSize": 16, "epochs": 50}',
    "HYPERSCALE_METRICS_PORT=0",
    "HYPERSCALE_WORKERS=2",
    "HYPERSCALE_TERMINATION_LOG=/tmp/termination-log",
    "OMP_NUM_THREADS=1",
    "OMPI_MCA_rmaps_base_oversubscribe=1",
)
TRIES: Final = {
    "agent": (
        Try("help", ("python3", "-m", "hyperscale.agent", "--help"), "--once"),
        Try(
            "it starts and answers",
            _shell("python3 -m hyperscale.agent & agent=$!", f"python3 -c '{_ASK}'", "kill $agent", "wait $agent"),
            "answered: ",
            ("NODE_NAME=here", "HYPERSCALE_AGENT_LINKS=off"),
        ),
    ),
    "operator": (
        Try("help", ("hyperscale", "--help"), "usage: "),
        Try(
            "it starts and looks for a cluster",
            _shell("python -m hyperscale 2>&1 || echo ended with $?"),
            "hyperscale: Invalid kube-config",
        ),
    ),
    "worker": (
        Try("imports", ("python3", "-c", _IMPORTS), f", uid {security.USER_ID}"),
        Try("sshd's options", _shell(*_KEYS, f"{_SSHD} -t", "echo accepted"), "accepted"),
        Try(
            "a session finds the packages",
            _shell(
                *_KEYS,
                f"{_SSHD} & server=$!",
                "sleep 1",
                f"ssh {' '.join(commands.SSH_ARGUMENTS)} 127.0.0.1 'command -v python3 && python3 -c \"{_SESSION}\"'",
                "kill $server",
            ),
            "python3",
        ),
        Try(
            "the partition Job",
            commands.PREPARE_COMMAND,
            '"parts": 2',
            (*_CORA, "HYPERSCALE_PARTITION_DIR=/tmp/parts", "HYPERSCALE_PARTITIONS=2"),
        ),
        Try("two ranks train", _ranks(), "hyperscale-result: ", _CORA),
    ),
}
GPU_OPTIONS: Final = ("--build-arg", "HOROVOD_GPU_OPERATIONS=NCCL")
GPU_TRIES: Final = {
    "worker": (Try("Horovod knows NCCL and CUDA", ("python3", "-c", _KNOWS_GPUS), "cuda_built True"), *TRIES["worker"]),
}
"""Images with a variant for GPUs. No container gets a GPU: ranks train on the processor."""


def check(names: Sequence[str], scratch: Path, *, gpu: bool = False) -> None:
    """Build these images and run their tries, a line for each; raises ImageError."""
    options, tries = (GPU_OPTIONS, GPU_TRIES) if gpu else ((), TRIES)
    buildah = Buildah(scratch, "overlay", SECONDS)
    try:
        buildah.base(PACKAGES, UNMARKED)
        for name in names:
            started = time.monotonic()
            buildah.build(ROOT / "images" / name / "Dockerfile", ROOT, *options, slim=True)
            seconds = time.monotonic() - started
            print(f"{name}: built in {seconds:.0f} s, {buildah.run('images', '--format', '{{.Size}}', BUILT).strip()}", flush=True)
            for one in tries[name]:
                started = time.monotonic()
                line = _tried(buildah, one)
                print(f"{name}: {one.title}: {time.monotonic() - started:.1f} s: {line}", flush=True)
    finally:
        buildah.remove()


def _tried(buildah: Buildah, one: Try) -> str:
    """The line that shows it; raises ImageError."""
    container = buildah.run("from", "--pull-never", BUILT).strip()
    variables = [part for variable in one.variables for part in ("--env", variable)]
    limits = ("--isolation", "oci", "--cap-drop", "all", "--network", "none")
    try:
        output = buildah.run("run", *limits, *variables, container, "--", *one.command)
    finally:
        buildah.run("rm", container)
    line = next((line for line in output.splitlines() if one.expected in line), None)
    if line is None:
        raise ImageError(f"{one.title}: nothing printed holds {one.expected!r}:\n{output[-1500:]}")
    return line


def main(given: Sequence[str] | None = None) -> int:
    """Check the images that the arguments name."""
    parser = argparse.ArgumentParser(prog="python -m e2e.images", description="Build the complete images and try them on the processor.")
    parser.add_argument("names", nargs="*", metavar="IMAGE", help=f"of {', '.join(NAMES)}; all without any")
    parser.add_argument("--gpu", action="store_true", help=f"build the variant for GPUs, with CUDA and NCCL (of {', '.join(GPU_TRIES)})")
    parser.add_argument("--scratch", type=Path, help="where to build, with tens of gigabytes free (default: as for any temporary file)")
    arguments = parser.parse_args(given)
    choice = tuple(GPU_TRIES) if arguments.gpu else NAMES
    names = arguments.names or choice
    if unknown := sorted(set(names) - set(choice)):
        parser.error(f"no image {'for GPUs ' * arguments.gpu}is called {', '.join(unknown)}: write {', '.join(choice)}")
    cluster.interrupted_cleanly()
    try:
        ground.ensure()
        with tempfile.TemporaryDirectory(dir=arguments.scratch, prefix="hyperscale-images-") as scratch:
            check(names, Path(scratch), gpu=arguments.gpu)
    except (ImageError, ground.GroundError) as error:
        print(f"images: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("images: interrupted", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
