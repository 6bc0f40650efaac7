"""Processes under mpirun on this machine."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from importlib.util import find_spec

import pytest

MPIRUN = ("mpirun", "--oversubscribe", "--bind-to", "none", "-mca", "btl", "self,tcp", "-mca", "btl_tcp_if_include", "lo")
needs_mpirun = pytest.mark.skipif(shutil.which("mpirun") is None, reason="Open MPI is missing (make horovod)")
needs_horovod = pytest.mark.skipif(
    shutil.which("mpirun") is None or find_spec("horovod") is None, reason="Open MPI or Horovod is missing (make horovod)"
)


def start(ranks: int, command: Sequence[str], told: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """`command` in every rank, under the launcher's wrapper as in a job."""
    mpirun = [*MPIRUN, *(["--allow-run-as-root"] if os.geteuid() == 0 else []), "-np", str(ranks), *command]
    wrapped = [sys.executable, "-m", "hyperscale.training.worker.launch", "--", *mpirun]
    return subprocess.run(wrapped, env=dict(told), capture_output=True, text=True, timeout=900, check=False)


def without_a_job(environment: Mapping[str, str]) -> dict[str, str]:
    """`environment` without what a job or mpirun may have put into it."""
    return {name: value for name, value in environment.items() if not name.startswith(("HYPERSCALE_", "OMPI_"))}
