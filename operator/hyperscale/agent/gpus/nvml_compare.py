"""The agent's figures beside nvidia-smi's, asked before and after: what lies outside both answers and the tolerance differs."""

from __future__ import annotations

import csv
import io
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple, TextIO

from hyperscale.agent.gpus.gpu_reading import GpuReading
from hyperscale.agent.gpus.nvml import Nvml
from hyperscale.agent.state import DriverCondition

TOOL: Final = "nvidia-smi"
_TOOL_SECONDS: Final = 30.0
EXIT_DIFFERS: Final = 1
EXIT_NO_TOOL: Final = 2

_TEXTS: Final = {"uuid": "uuid", "name": "model", "pci.bus_id": "pci_bus_id"}
"""nvidia-smi's fields and those of a reading that must be equal."""


class _Match(NamedTuple):
    name: str
    """DCGM's name."""
    absolute: float
    relative: float = 0.0


_NUMBERS: Final[Mapping[str, _Match]] = {
    "utilization.gpu": _Match("DCGM_FI_DEV_GPU_UTIL", 10),
    "utilization.memory": _Match("DCGM_FI_DEV_MEM_COPY_UTIL", 10),
    "memory.used": _Match("DCGM_FI_DEV_FB_USED", 2, 0.01),
    "memory.free": _Match("DCGM_FI_DEV_FB_FREE", 2, 0.01),
    "memory.reserved": _Match("DCGM_FI_DEV_FB_RESERVED", 2),
    "temperature.gpu": _Match("DCGM_FI_DEV_GPU_TEMP", 2),
    "temperature.memory": _Match("DCGM_FI_DEV_MEMORY_TEMP", 2),
    "power.draw": _Match("DCGM_FI_DEV_POWER_USAGE", 5, 0.1),
    "clocks.sm": _Match("DCGM_FI_DEV_SM_CLOCK", 15, 0.1),
    "clocks.mem": _Match("DCGM_FI_DEV_MEM_CLOCK", 15, 0.1),
    "ecc.errors.corrected.volatile.total": _Match("DCGM_FI_DEV_ECC_SBE_VOL_TOTAL", 0),
    "ecc.errors.uncorrected.volatile.total": _Match("DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", 0),
    "ecc.errors.corrected.aggregate.total": _Match("DCGM_FI_DEV_ECC_SBE_AGG_TOTAL", 0),
    "ecc.errors.uncorrected.aggregate.total": _Match("DCGM_FI_DEV_ECC_DBE_AGG_TOTAL", 0),
}
"""nvidia-smi's fields, and how far ours may be off: two readings of a working GPU are never equal."""


class _ToolError(Exception):
    """nvidia-smi failed; the message is its own."""


class Comparison(NamedTuple):
    """One figure of one GPU."""

    gpu: int
    field: str
    ours: str
    theirs: str
    verdict: str
    """equal, differs, or which side has none."""


def compare(out: TextIO) -> int:
    """Print the comparison of all GPUs; 0 when nothing differs, 1 when something does, 2 without nvidia-smi or GPUs."""
    tool = shutil.which(TOOL)
    if tool is None:
        sys.stderr.write(f"{TOOL} is not on PATH: nothing to compare with\n")
        return EXIT_NO_TOOL
    nvml = Nvml()
    try:
        before = _ask(tool)
        reading = nvml.read(time.monotonic())
        after = _ask(tool)
    except _ToolError as error:
        sys.stderr.write(f"{TOOL} gives nothing to compare with: {error}\n")
        return EXIT_NO_TOOL
    finally:
        nvml.close()
    if reading.state.condition is not DriverCondition.READY:
        sys.stderr.write(f"no GPU to compare: {reading.state.line}\n")
        return EXIT_NO_TOOL
    comparisons = [line for gpu in reading.gpus for line in compared(gpu, before.get(gpu.uuid, {}), after.get(gpu.uuid, {}))]
    for line in comparisons:
        out.write(f"{line.gpu:>3}  {line.field:<40} {line.ours:>20} {line.theirs:>28}  {line.verdict}\n")
    return EXIT_DIFFERS if any(line.verdict == "differs" for line in comparisons) else 0


def compared(gpu: GpuReading, before: Mapping[str, str], after: Mapping[str, str]) -> Iterator[Comparison]:
    """Each figure of a GPU beside nvidia-smi's answers before and after the reading, by nvidia-smi's names."""
    for field, attribute in _TEXTS.items():
        ours = str(getattr(gpu, attribute))
        yield Comparison(
            gpu.index, field, ours, before.get(field, ""), "equal" if ours.upper() == before.get(field, "").upper() else "differs"
        )
    for field, match in _NUMBERS.items():
        ours_number = gpu.figures.get(match.name)
        theirs = [number for answer in (before, after) if (number := _number(answer.get(field, ""))) is not None]
        shown = " … ".join(f"{number:g}" for number in theirs)
        yield Comparison(gpu.index, field, "" if ours_number is None else f"{ours_number:g}", shown, _verdict(ours_number, theirs, match))


def _verdict(ours: float | None, theirs: Sequence[float], match: _Match) -> str:
    if ours is None:
        return "only theirs" if theirs else "neither"
    if not theirs:
        return "only ours"
    room = match.absolute + match.relative * max(theirs)
    return "equal" if min(theirs) - room <= ours <= max(theirs) + room else "differs"


def _ask(tool: str) -> dict[str, dict[str, str]]:
    """nvidia-smi's figures by UUID; raises _ToolError when it has none."""
    fields = [*_TEXTS, *_NUMBERS]
    command = [tool, f"--query-gpu={','.join(fields)}", "--format=csv,noheader,nounits"]
    try:
        finished = subprocess.run(command, capture_output=True, text=True, timeout=_TOOL_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise _ToolError(str(error)[:200]) from error
    rows = [[cell.strip() for cell in row] for row in csv.reader(io.StringIO(finished.stdout)) if len(row) == len(fields)]
    if not rows:
        said = (finished.stdout + finished.stderr).strip().partition("\n")[0]
        raise _ToolError(said[:200] or f"exit code {finished.returncode}")
    return {row[0]: dict(zip(fields, row, strict=True)) for row in rows}


def _number(text: str) -> float | None:
    """Number of a cell; None for "[N/A]", "[Not Supported]" and the like."""
    try:
        return float(text)
    except ValueError:
        return None
