"""Try code: start a watcher with a request, and return what it observed."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Final

import msgspec

import hyperscale
from hyperscale.evaluate.preflight.trial_types import OBSERVATIONS, Observation, TrialRequest
from hyperscale.evaluate.preflight.watching.folder_removal import remove_folder
from hyperscale.evaluate.preflight.watching.orphans import Adoption, end_orphans
from hyperscale.evaluate.preflight.watching.process_tree import children

END_SECONDS: Final = 30.0
"""From the end of the trial's time to the watcher's answer; it is killed then."""
_ADOPTION: Final = Adoption()


class TrialError(Exception):
    """A trial gave no answer; the message says why."""


def base_environment(threads: int = 2) -> dict[str, str]:
    """Return the variables that Python needs; nothing of the caller's own, which may hold credentials."""
    package = str(Path(hyperscale.__file__).resolve().parents[1])
    named = [folder for folder in os.environ.get("PYTHONPATH", "").split(os.pathsep) if folder and not package.startswith(folder)]
    return {
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "PYTHONPATH": os.pathsep.join([package, *named]),
        "PYTHONSAFEPATH": "1",
        "PYTHONHASHSEED": "0",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONNOUSERSITE": "1",
        "HOME": "/scratch",
        "TMPDIR": "/tmp",  # noqa: S108 - inside the sandbox
        "USER": "preflight",
        "LANG": "C.UTF-8",
        "OMP_NUM_THREADS": str(threads),
        # Freed blocks from 1 MiB on go back to the kernel, so that the peak is that of what is in use.
        "MALLOC_MMAP_THRESHOLD_": str(1 << 20),
        "MALLOC_ARENA_MAX": "2",
        "CUDA_VISIBLE_DEVICES": "",
    }


def observe(request: TrialRequest) -> Observation:
    """Return what one trial did. Raises TrialError where the watcher itself fails; nothing of the trial is left then either."""
    whole = msgspec.structs.replace(request, environment={**base_environment(), **request.environment})
    try:
        scratch = tempfile.mkdtemp(prefix="hyperscale-preflight-")
    except OSError as error:
        raise TrialError(f"no folder for the trial in {tempfile.gettempdir()}: {error.strerror}; free space there or set TMPDIR") from None
    with _ADOPTION.during_trial():
        before = children(os.getpid())
        try:
            answer, words = _answered(whole, scratch)
        finally:
            if os.path.lexists(scratch):  # the watcher ended before it could clean up
                end_orphans(before)
                remove_folder(scratch)
    try:
        return OBSERVATIONS.decode(answer)
    except msgspec.DecodeError:
        raise TrialError(f"the watcher gave no answer: {words[-1] if words else 'no words'}") from None


def _answered(request: TrialRequest, scratch: str) -> tuple[bytes, list[str]]:
    """What the watcher answers, and the lines of its errors."""
    with subprocess.Popen(
        [sys.executable, "-m", "hyperscale.evaluate.preflight.trial_watcher", scratch],
        # It looks for the sandbox's program where the caller finds programs; what is tried gets neither.
        env={**base_environment(), "PATH": os.environ.get("PATH", os.defpath), "TMPDIR": tempfile.gettempdir()},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as watcher:
        if watcher.stdin is None or watcher.stdout is None or watcher.stderr is None:
            raise TrialError("the watcher has no streams")
        late = threading.Timer(request.limits.seconds + END_SECONDS, watcher.kill)
        late.start()
        try:
            watcher.stdin.write(msgspec.json.encode(request) + b"\n")
            watcher.stdin.flush()  # and stays open: its end would be this process's
            answer = watcher.stdout.read()
            words = watcher.stderr.read().decode(errors="replace").strip().splitlines()
            watcher.wait()
        except BrokenPipeError:
            raise TrialError("the watcher ended before it read the request") from None
        finally:
            late.cancel()
            watcher.stdin.close()
    return answer, words
