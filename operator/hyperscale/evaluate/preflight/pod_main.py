"""The pod of a preflight: `python -m hyperscale.evaluate.preflight.pod_main --spec FILE` tries a job and leaves its report.

The pod is the sandbox: it has the author's rights, the job's volumes and no network beyond the data's address. Inside it the code runs in
a process of its own under its own limits, and the report is written when none of its processes is left.
Exit codes: 0 passed, 3 a fault, 4 no GPU to try the code on, 2 bad input.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
from pathlib import Path
from typing import Any, Final

import msgspec

from hyperscale.evaluate.preflight.job_trial import Surroundings, TrialInputError
from hyperscale.evaluate.preflight.sandboxes import CHECKPOINTS, DATA
from hyperscale.evaluate.preflight.trial_types import Limits, Sandbox
from hyperscale.evaluate.preflight.trials import TrialError, base_environment
from hyperscale.evaluate.preflight.try_job import preflight
from hyperscale.evaluate.preflight.verdict import fitted
from hyperscale.model.api.job import JobSpec
from hyperscale.model.api.preflight_report import PreflightReport
from hyperscale.spec.parse import SpecError, parse_job
from hyperscale.training.data.available_memory import limit_bytes
from hyperscale.training.runtime.termination import MESSAGE_FILE

EXIT_PASSED: Final = 0
EXIT_BAD_INPUT: Final = 2
EXIT_FAULT: Final = 3
EXIT_NEEDS_GPU: Final = 4
MAX_SPEC_BYTES: Final = 4 << 20
OWN_BYTES: Final = 384 * 2**20
"""Of the pod's limit for the watcher, so that the kernel does not end the pod first."""
LEAST_RATIO: Final = 0.8
"""Of a small limit the code has this part nevertheless."""
DEFAULT_SECONDS: Final = 60.0
CONTRACT: Final = "HYPERSCALE_"
"""First letters of the contract's variables."""


class _InputError(Exception):
    """What was given cannot be tried; the message says what to give."""


def main(arguments: list[str] | None = None) -> int:
    """Try the job; return the exit code."""
    options = _options(arguments)
    try:
        key, job = read_spec(Path(options.spec))
        limits = Limits(steps=options.steps, seconds=_seconds(options.seconds), memory_bytes=_memory_bytes())
        data = options.data if options.data is not None else DATA if Path(DATA).is_dir() else None
        around = Surroundings(Sandbox.NONE, options.script_dir, data, shared_tmp=True, own=_own_variables(job))
        report = preflight(key, job, limits, around, seed=options.seed).report
    except (_InputError, SpecError, TrialInputError) as error:
        line = " ".join(str(error).split())
        sys.stderr.write(f"preflight: {line}\n")
        _leave(PreflightReport(sentence=f"not tried: {line}"[:900]), options.report)
        return EXIT_BAD_INPUT
    except TrialError as error:
        sys.stderr.write(f"preflight: {error}\n")
        return 1
    sys.stderr.write(f"preflight: {report.sentence}\n")
    _leave(report, options.report)
    return EXIT_FAULT if report.fault is not None else EXIT_NEEDS_GPU if report.needs_gpu else EXIT_PASSED


def read_spec(path: Path) -> tuple[str, JobSpec]:
    """Return namespace/name and the spec of a file with a GNNTrainingJob, or with its spec alone, as JSON. Raises on bad input."""
    try:
        with path.open("rb") as stream:
            text = stream.read(MAX_SPEC_BYTES + 1)
        if len(text) > MAX_SPEC_BYTES:
            raise _InputError(f"--spec: {path} has more than {MAX_SPEC_BYTES} bytes; is it the job?")
        document: Any = msgspec.json.decode(text)
    except OSError as error:
        raise _InputError(f"--spec: {path}: {error.strerror}; name a file that can be read") from None
    except (msgspec.DecodeError, RecursionError) as error:
        raise _InputError(f"--spec: {path}: is not JSON: {error}; write the job as JSON") from None
    if not isinstance(document, dict):
        raise _InputError(f"--spec: {path}: is no object; write the job as JSON")
    if "spec" in document:
        job, metadata = parse_job(document), document["metadata"]
        return f"{metadata.get('namespace', 'default')}/{metadata['name']}", job
    try:
        return "default/job", msgspec.convert(document, JobSpec)
    except msgspec.ValidationError as error:
        raise _InputError(f"--spec: {path}: {error}; write spec of the job as JSON") from None


def _seconds(seconds: float) -> float:
    if not 1.0 <= seconds <= 86_400.0 or math.isnan(seconds):
        raise _InputError(f"--seconds: {seconds:g} is out of range; write 1 to 86400")
    return seconds


def _memory_bytes() -> int:
    """Most of what the pod may take."""
    limit = limit_bytes()
    return max(int(LEAST_RATIO * limit), limit - OWN_BYTES)


def _own_variables(job: JobSpec) -> dict[str, str]:
    """What the author's pod template brings, and the folder for checkpoints.

    What Python needs is set again; the pod's part of the contract is about all ranks, and one is tried.
    """
    own = {name: value for name, value in os.environ.items() if name not in base_environment() and not name.startswith(CONTRACT)}
    return {**own, "CHECKPOINT_DIR": CHECKPOINTS} if job.checkpoint is not None and Path(CHECKPOINTS).is_dir() else own


def _leave(report: PreflightReport, path: str) -> None:
    """Over whatever is there: the tried code may have written to it while it ran."""
    body = msgspec.json.encode(fitted(report))
    try:
        place = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o644)
    except OSError as error:
        sys.stderr.write(f"--report: {path}: {error.strerror}; the report is in the log only\n{body.decode()}\n")
        return
    with os.fdopen(place, "wb") as stream:
        stream.write(body)


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description="Try the first steps of a GNNTrainingJob; exit codes: 0 passed, 2 bad input, 3 a fault, 4 needs a GPU."
    )
    parser.add_argument("--spec", required=True, metavar="FILE", help="the job, or its spec alone, as JSON")
    parser.add_argument("--seconds", type=float, default=DEFAULT_SECONDS, help="for all trials (default: %(default)g)")
    parser.add_argument("--data", metavar="DIR", help=f"folder of the dataset (default: {DATA}, where it is there)")
    parser.add_argument("--script-dir", default=".", metavar="DIR", help="folder that spec.model.script is relative to (default: .)")
    parser.add_argument("--steps", type=int, default=5, help="steps of each trial (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of the trials (default: %(default)s)")
    parser.add_argument("--report", default=MESSAGE_FILE, metavar="FILE", help="where the report goes (default: %(default)s)")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
