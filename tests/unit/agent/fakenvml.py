"""NVML for tests: a C library of ours, so that pynvml and ctypes are the real ones."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import pynvml
import pytest

SOURCE = Path(__file__).with_name("fake_nvml.c")
SONAME = "libnvidia-ml.so.1"
MIB = 2**20
BUSES = ("0000:1b:00.0", "0000:43:00.0")
UUIDS = ("GPU-00000000-aaaa-bbbb-cccc-000000000000", "GPU-11111111-aaaa-bbbb-cccc-111111111111")

Lines = Mapping[str, object]


def gpu(index: int) -> dict[str, object]:
    """Every reading of one GPU."""
    readings: dict[str, object] = {
        "uuid": UUIDS[index],
        "name": "NVIDIA H100 80GB HBM3",
        "minor": index,
        "bus": BUSES[index],
        "clock.sm": 1980,
        "clock.mem": 2619,
        "temperature": 41 + index,
        "power_mw": 333_250,
        "energy_mj": 123_456_789_012,
        "pcie.replay": 3,
        "pcie.tx_kb": 1500,
        "pcie.rx_kb": 2500,
        "reasons": 4,
        "memory.total": 81_559 * MIB,
        "memory.free": 50_000 * MIB,
        "memory.used": 31_049 * MIB,
        "memory.reserved": 510 * MIB,
        "utilization.gpu": 87 + index,
        "utilization.memory": 21,
        "ecc.sbe.vol": 5,
        "ecc.dbe.vol": 0,
        "ecc.sbe.agg": 17,
        "ecc.dbe.agg": 1,
        "rows.corrected": 2,
        "rows.uncorrected": 1,
        "rows.pending": 1,
        "rows.failed": 0,
        "field.82": 52,
        "field.138": 1_000_000,
        "field.139": 2_000_000,
        "events": 8,
        f"common.{1 - index}": 10,
    }
    for link in range(4):
        readings[f"link{link}"] = "active"
        readings[f"link{link}.to"] = BUSES[1 - index]
    return {f"gpu{index}.{name}": value for name, value in readings.items()}


def whole() -> dict[str, object]:
    return {"count": 2, "driver": "570.86.10", **gpu(0), **gpu(1)}


def as_text(lines: Lines) -> str:
    return "".join(f"{key} {value}\n" for key, value in lines.items())


@cache
def compiled() -> Path:
    """The library under NVML's name, compiled once a process; its folder is an LD_LIBRARY_PATH. Skips the test without a compiler."""
    compiler = shutil.which("gcc")
    if compiler is None:
        pytest.skip("no gcc: NVML cannot be played at the C boundary")
    target = Path(_folder().name) / SONAME
    command = [compiler, "-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror", f"-Wl,-soname,{SONAME}", "-o", str(target), str(SOURCE)]
    subprocess.run([*command, "-lpthread"], check=True, timeout=120)
    return target


@cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    """Kept until the process ends."""
    return tempfile.TemporaryDirectory(prefix="fake-nvml-")


@contextmanager
def played() -> Iterator[FakeNvml]:
    """pynvml on our library, whatever it has loaded before: two GPUs with every reading, on one PCIe switch and four NVLinks."""
    library = ctypes.CDLL(str(compiled()))
    before, pointers = pynvml.nvmlLib, dict(pynvml._nvmlGetFunctionPointer_cache)
    pynvml.nvmlLib = library
    pynvml._nvmlGetFunctionPointer_cache.clear()
    fake = FakeNvml(library)
    fake.load()
    try:
        yield fake
    finally:
        fake.load()
        library.nvmlShutdown()
        pynvml.nvmlLib = before
        pynvml._nvmlGetFunctionPointer_cache.clear()
        pynvml._nvmlGetFunctionPointer_cache.update(pointers)


class FakeNvml:
    """Steers the C library."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self._library = library
        self.lines = whole()

    def load(self, changes: Lines | None = None, without: tuple[str, ...] = ()) -> None:
        """All readings with these changes, and without the lines that begin so."""
        self.lines = {key: value for key, value in (whole() | dict(changes or {})).items() if not key.startswith(without or ("\0",))}
        self._library.fake_nvml_load(as_text(self.lines).encode())

    def load_bytes(self, lines: bytes) -> None:
        """All readings, and behind them lines that need be no text: the last of a key counts."""
        self._library.fake_nvml_load(as_text(whole()).encode() + lines)

    @property
    def is_open(self) -> bool:
        """Whether NVML was initialised and has not been shut down."""
        return bool(self._library.fake_nvml_is_open())

    def xid(self, index: int, number: int) -> None:
        """The GPU reports an XID."""
        self._library.fake_nvml_xid(index, ctypes.c_ulonglong(number))
