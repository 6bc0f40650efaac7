"""NVML for the agent's tests: a C library of ours under NVML's soname, so that pynvml and ctypes are the real ones."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pynvml
import pytest

from tests.unit.agent.fakenvml import FakeNvml

SOURCE = Path(__file__).with_name("fake_nvml.c")
SONAME = "libnvidia-ml.so.1"


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The compiled library; its folder is an LD_LIBRARY_PATH."""
    compiler = shutil.which("gcc")
    if compiler is None:
        pytest.skip("no gcc: NVML cannot be played at the C boundary")
    target = tmp_path_factory.mktemp("nvml") / SONAME
    command = [compiler, "-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror", f"-Wl,-soname,{SONAME}", "-o", str(target), str(SOURCE)]
    subprocess.run([*command, "-lpthread"], check=True, timeout=120)
    return target


@pytest.fixture(scope="session")
def loaded(library: Path) -> ctypes.CDLL:
    """The library in this process: dlopen finds what is loaded by its soname, so pynvml's own search ends here."""
    played = ctypes.CDLL(str(library))
    if pynvml.nvmlLib is not None:
        pytest.skip("an NVML is loaded in this process already")
    return played


@pytest.fixture
def nvml(loaded: ctypes.CDLL) -> Iterator[FakeNvml]:
    """Two GPUs with every reading, on one PCIe switch and four NVLinks."""
    fake = FakeNvml(loaded)
    fake.load()
    yield fake
    fake.load()
    loaded.nvmlShutdown()
