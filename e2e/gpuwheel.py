"""`python -m e2e.gpuwheel`: Horovod for GPUs compiled, and what can be checked of that build without a GPU or root.

It must be linked to NCCL and CUDA, hold kernels, load, and say so. No operation runs on a GPU. PyTorch brings the libraries and is imported
first, as in the image. Nothing is installed. Exit codes: 0 done, 2 Horovod could not be built or is wrong.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import time
import zipfile
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from e2e.horovod import GPU, BuildError, ensure_mpi, ensure_wheel

EXTENSION: Final = "horovod/torch/mpi_lib_v2*.so"
CALLS: Final = ("ncclAllGather", "ncclAllReduce", "ncclBroadcast", "ncclCommInitRank", "ncclRecv", "ncclReduceScatter", "ncclSend")
"""What Horovod's NCCL operations call: allgather, allreduce, broadcast, alltoall, reducescatter."""
NCCL: Final = "libnccl.so.2"
KERNELS: Final = ".nv_fatbin"
"""The section with CUDA kernels compiled for each kind of GPU."""
_LOAD: Final = """
import json, torch, horovod.torch as hvd
hvd.init()
mean = hvd.allreduce(torch.full((4,), float(hvd.rank())))
if hvd.rank() == 0:
    print("LOADED" + json.dumps({"nccl": int(hvd.nccl_built()), "cuda": bool(hvd.cuda_built()), "mpi": bool(hvd.mpi_built()),
                                 "ranks": hvd.size(), "mean": float(mean[0]), "gpu": torch.cuda.is_available()}))
"""
_SECONDS: Final = 300.0


@dataclass(frozen=True)
class Linked:
    """What the extension needs and holds: names of libraries, functions of NCCL, bytes of CUDA kernels."""

    libraries: frozenset[str]
    calls: frozenset[str]
    kernel_bytes: int


def check(wheel: Path) -> None:
    """Print a line for each property that holds; raises BuildError for the first that does not."""
    size = wheel.stat().st_size / 1e6
    print(f"compiled: {wheel.name}, {size:.1f} MB", flush=True)
    with tempfile.TemporaryDirectory(prefix="hyperscale-horovod-") as scratch:
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(scratch)
        extension = next(Path(scratch).glob(EXTENSION), None)
        if extension is None:
            raise BuildError(f"{wheel.name} holds no {EXTENSION}")
        print(described(linked(extension)), flush=True)
        started = time.monotonic()
        said = loaded(Path(scratch))
        print(
            f"loaded: two ranks on MPI in {time.monotonic() - started:.1f} s, nccl_built {said['nccl']}, cuda_built {said['cuda']}; "
            f"{'no operation ran on the GPU' if said['gpu'] else 'without a GPU'}",
            flush=True,
        )


def linked(extension: Path) -> Linked:
    """Read the ELF file; raises BuildError where NCCL, CUDA or kernels are missing from it, or PyTorch's NCCL lacks what it calls."""
    libraries = frozenset(re.findall(r"\(NEEDED\).*\[(\S+)\]", _output("readelf", "--dynamic", "--wide", str(extension))))
    calls = frozenset(re.findall(r"\bU (nccl\w+)", _output("nm", "--dynamic", "--undefined-only", str(extension))))
    sections = _output("readelf", "--section-headers", "--wide", str(extension))
    size = re.search(rf"{re.escape(KERNELS)}\s+PROGBITS\s+\S+\s+\S+\s+([0-9a-f]+)", sections)
    if NCCL not in libraries:
        raise BuildError(f"{extension.name} is not linked to {NCCL}: Horovod was built without HOROVOD_GPU_OPERATIONS=NCCL")
    if absent := sorted(set(CALLS) - calls):
        raise BuildError(f"{extension.name} does not call {', '.join(absent)}: Horovod was built with some operations of NCCL only")
    if size is None:
        raise BuildError(f"{extension.name} holds no CUDA kernels ({KERNELS}): nvcc compiled none")
    if undefined := sorted(calls - defined(nccl())):
        raise BuildError(f"{extension.name} calls {', '.join(undefined)}, which PyTorch's {NCCL} does not define")
    return Linked(libraries, calls, int(size.group(1), 16))


def described(found: Linked) -> str:
    """Return one line."""
    names = sorted(name for name in found.libraries if re.match(r"lib(nccl|cuda|torch_cuda|c10_cuda|mpi)", name))
    return f"linked: {', '.join(names)}; {len(found.calls)} functions of NCCL, {found.kernel_bytes / 1e6:.1f} MB of CUDA kernels"


def loaded(packages: Path) -> dict[str, float]:
    """What two ranks that import Horovod from this folder say of that Horovod after an allreduce of CPU tensors; raises BuildError."""
    root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
    network = ["-mca", "btl", "self,tcp", "-mca", "btl_tcp_if_include", "lo"]
    command = ["mpirun", *root, "--oversubscribe", "--bind-to", "none", *network, "-np", "2", sys.executable, "-W", "ignore", "-c", _LOAD]
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("OMPI_", "HOROVOD_"))}
    output = _output(*command, environment={**environment, "PYTHONPATH": str(packages), "OMP_NUM_THREADS": "1"})
    line = next((line for line in output.splitlines() if line.startswith("LOADED")), "LOADED{}")
    said: dict[str, float] = json.loads(line.removeprefix("LOADED"))
    if not (said.get("nccl") and said.get("cuda") and said.get("mean") == 0.5):
        raise BuildError(f"Horovod loads, but does not know NCCL and CUDA or sums wrongly: {line.removeprefix('LOADED')}")
    return said


def nccl() -> Path:
    """NCCL as PyTorch brings it; raises BuildError."""
    spec = find_spec("nvidia.nccl")
    if spec is None or not spec.submodule_search_locations:
        raise BuildError("PyTorch's NCCL (nvidia-nccl-cu13) is not installed: run make setup")
    return Path(next(iter(spec.submodule_search_locations))) / "lib" / NCCL


def defined(library: Path) -> set[str]:
    """Return the functions that a library offers; NCCL's own are weak symbols."""
    return set(re.findall(r"\b[TW] (\w+)", _output("nm", "--dynamic", "--defined-only", str(library))))


def _output(*command: str, environment: dict[str, str] | None = None) -> str:
    try:
        finished = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=_SECONDS, check=False)
    except subprocess.TimeoutExpired as error:
        raise BuildError(f"{command[0]} did not end in {_SECONDS:.0f} s") from error
    if finished.returncode != 0:
        raise BuildError(f"{command[0]} failed:\n{(finished.stderr or finished.stdout)[-1500:]}")
    return finished.stdout


if __name__ == "__main__":
    try:
        ensure_mpi()
        check(ensure_wheel(GPU))
    except BuildError as error:
        print(f"horovod: {error}", file=sys.stderr)
        sys.exit(2)
