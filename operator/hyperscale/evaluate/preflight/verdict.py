"""What trials together say: one report with one sentence for people. Pure."""

from __future__ import annotations

import re
import statistics
from collections.abc import Sequence
from typing import Final

import msgspec

from hyperscale.evaluate.preflight.trial_types import MIB, Fault, Limits, Observation
from hyperscale.model.api.preflight_report import MAX_REPORT_BYTES, PreflightFault, PreflightReport
from hyperscale.model.evaluation import MAX_NAMES
from hyperscale.observe.run_report import printable

MAX_SENTENCE: Final = 900
MAX_NAME: Final = 128
_ASKED: Final = re.compile(r"allocate (\d+) bytes|allocate ([\d.]+) ([KMGT]iB)")
_NO_GPU: Final = re.compile(
    r"not compiled with (CUDA|ROCm|HIP)|No (CUDA|HIP) GPUs are available|Found no NVIDIA driver|no (CUDA|ROCm)-capable device|no GPUs found"
    r"|requires at least one (CUDA|GPU)"
    r"|doesn't have NCCL built in|torch\.cuda\.is_available\(\) is False|CUDA driver (initialization failed|version is insufficient)"
    r"|arguments from the 'CUDA' backend|no attribute '_cuda_|libcuda\.so"
)
"""What torch and NCCL say where there is no GPU."""
_NOTE: Final = re.compile(r"it ended with (?!exit code \d+: [\w.]+(Error|Exception): )")
"""An end whose last words are those of no exception."""
_UNITS: Final = {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}
ADVICE: Final = {
    PreflightFault.OUT_OF_MEMORY: "lower spec.model.hiddenSize, batchSize or fanouts, or raise the memory limit of spec.workers.resources",
    PreflightFault.NOT_FINITE: "lower the learning rate, or look for a division by zero or a logarithm of zero",
    PreflightFault.CRASHED: "fix the script, or give it what it asks for, such as data, then try again",
    PreflightFault.NO_GRADIENT: "use the parameter in the loss, or take it out of the optimizer",
    PreflightFault.WROTE_OUTSIDE: "write to the working directory, to /tmp or to $CHECKPOINT_DIR",
    PreflightFault.USED_NETWORK: "put what the script downloads into the image or the dataset",
    PreflightFault.TOO_MANY_PROCESSES: "start fewer processes, such as workers of a data loader",
    PreflightFault.TIMED_OUT: "look for a loop without end or a wait for other ranks, or give it more seconds",
}


def report_of(
    first: Observation, again: Observation | None, limits: Limits, *, predicted_gpu_bytes: int | None = None, note: str = ""
) -> PreflightReport:
    """Return the report of a trial and of its repetition with the same seed, which may have been left out.

    note: a sentence on what was tried instead of the job's own data, or ""
    """
    faults = list(first.faults)
    if not faults and first.steps and first.idle:
        faults.append(Fault(PreflightFault.NO_GRADIENT, _listed(first.idle), first.steps))
    fault = faults[0] if faults else None
    needs_gpu = fault is not None and _asks_for_gpu(fault)
    deterministic = None if again is None else _same(first.losses, again.losses)
    sentence = _well(first, limits, deterministic) if fault is None else _wrong(fault, first, limits)
    report = PreflightReport(
        sentence=printable(f"{sentence}{f' {note}' if note else ''}")[:MAX_SENTENCE],
        fault=None if fault is None or needs_gpu else fault.kind,
        steps=first.steps,
        step_seconds=statistics.median(first.step_seconds) if first.step_seconds else None,
        peak_memory_bytes=first.peak_bytes,
        predicted_gpu_bytes=predicted_gpu_bytes,
        deterministic=deterministic,
        idle_parameters=_names(first.idle),
        files_written=_names(first.written),
        addresses=_names(first.addresses),
        limits_held=_names(first.limits),
        needs_gpu=needs_gpu,
    )
    return fitted(report)


def fitted(report: PreflightReport) -> PreflightReport:
    """Return the report with as many names as a termination message holds."""
    for kept in (MAX_NAMES, 8, 4, 2, 0):
        cut = msgspec.structs.replace(
            report,
            idle_parameters=report.idle_parameters[:kept],
            files_written=report.files_written[:kept],
            addresses=report.addresses[:kept],
        )
        if len(msgspec.json.encode(cut)) <= MAX_REPORT_BYTES:
            return cut
    return msgspec.structs.replace(cut, sentence=report.sentence[:300], limits_held=())


def _well(trial: Observation, limits: Limits, deterministic: bool | None) -> str:
    few = f" of {limits.steps} that were asked for within {limits.seconds:g} s" if trial.steps < limits.steps else ""
    pace = f"of {statistics.median(trial.step_seconds):.3g} s each" if trial.step_seconds else ""
    memory = f", memory {trial.peak_bytes / MIB:,.0f} MiB" if trial.peak_bytes else ""
    same = {None: "", True: "; the same seed gave the same losses twice", False: "; the same seed gave other losses the second time"}
    return f"{trial.steps} {'step' if trial.steps == 1 else 'steps'}{few} {pace} went well{memory}{same[deterministic]}."


def _asks_for_gpu(fault: Fault) -> bool:
    """By the words of the exception that ended it; a note that it printed before it ended otherwise says nothing."""
    return fault.kind is PreflightFault.CRASHED and _NO_GPU.search(fault.text) is not None and _NOTE.match(fault.text) is None


def _not_judged(fault: Fault) -> str:
    """Code that trains on a GPU alone may be sound."""
    return (
        f"Not judged: the code asks for a GPU {_where(fault)}, and a preflight runs on the processor: {fault.text[:300]}; "
        'to have it tried, write torch.device("cuda" if torch.cuda.is_available() else "cpu"), and take the backend gloo there.'
    )


def _where(fault: Fault) -> str:
    return f"in step {fault.step}" if fault.step else "before the first step"


def _wrong(fault: Fault, trial: Observation, limits: Limits) -> str:
    if _asks_for_gpu(fault):
        return _not_judged(fault)
    return f"{_what(fault, trial)} {_where(fault)}: {_memory(fault, trial, limits)}{fault.text[:500]}; {ADVICE[fault.kind]}."


def _memory(fault: Fault, trial: Observation, limits: Limits) -> str:
    """What was asked for, held and allowed; "" for other faults."""
    if fault.kind is not PreflightFault.OUT_OF_MEMORY:
        return ""
    asked = asked_bytes(fault.text)
    size = f"it asked for {asked / MIB:,.0f} MiB and" if asked else "it"
    resident = max(trial.resident_bytes, trial.peak_bytes or 0)
    return f"{size} held {resident / MIB:,.0f} MiB of {limits.memory_bytes / MIB:,.0f} MiB: "


def _what(fault: Fault, trial: Observation) -> str:
    return {
        PreflightFault.OUT_OF_MEMORY: "Out of memory",
        PreflightFault.NOT_FINITE: "NaN or infinity",
        PreflightFault.CRASHED: "It crashed",
        PreflightFault.NO_GRADIENT: f"{len(trial.idle)} parameters without a gradient",
        PreflightFault.WROTE_OUTSIDE: "It wrote outside its folders",
        PreflightFault.USED_NETWORK: "It asked for an address",
        PreflightFault.TOO_MANY_PROCESSES: "Too many processes",
        PreflightFault.TIMED_OUT: "Out of time",
    }[fault.kind]


def asked_bytes(text: str) -> int | None:
    """Return how much memory the message says was asked for, as torch and numpy write it."""
    match = _ASKED.search(text)
    if match is None:
        return None
    return int(match[1]) if match[1] else int(float(match[2]) * _UNITS[match[3]])


def _same(first: Sequence[str], again: Sequence[str]) -> bool | None:
    """Whether all losses of the shorter one are those of the other, to the bit; None without losses."""
    common = min(len(first), len(again))
    if not common or not any(first[:common]):
        return None
    return tuple(first[:common]) == tuple(again[:common])


def _names(names: Sequence[str]) -> tuple[str, ...]:
    return tuple(printable(name)[:MAX_NAME] for name in names[:MAX_NAMES])


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(names[:5])
    return shown if len(names) <= 5 else f"{shown} and {len(names) - 5} more"
