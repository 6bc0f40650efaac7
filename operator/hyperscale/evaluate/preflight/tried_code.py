"""The tried process: `python -m hyperscale.evaluate.preflight.tried_code REQUEST` limits itself, then runs the author's code.

What it tells goes to a descriptor of its own. The author's code shares this process and can lie there; it can hide no file, address or
process that the watcher is asked about, no time and no memory. It can take no fault back.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import os
import random
import runpy
import socket
import sys
import traceback
from pathlib import Path
from typing import Any, Final, NoReturn

import msgspec

from hyperscale.evaluate.preflight.step_hooks import StepHooks, open_doors
from hyperscale.evaluate.preflight.trial_types import MAX_TEXT, REQUESTS, Said, Sandbox, TrialEvent, TrialRequest
from hyperscale.evaluate.preflight.watching import landlock
from hyperscale.evaluate.preflight.watching.audited import Audit
from hyperscale.evaluate.preflight.watching.call_filter import FilterError, install_watched
from hyperscale.evaluate.preflight.watching.call_table import SHARED_MEMORY
from hyperscale.evaluate.preflight.watching.process_limits import (
    end_with_parent,
    restart_peak,
    set_limits,
    set_memory_limit,
    status_bytes,
)

MAX_THREADS: Final = 16
"""Whose stacks the limit of memory leaves room for."""
SURROUNDED: Final = {
    Sandbox.BUBBLEWRAP: ("files, network and processes of its own (bubblewrap)",),
    Sandbox.GVISOR: ("a kernel and a network of its own (gVisor)",),
    Sandbox.NONE: (),
}
_OUT_OF_MEMORY: Final = (
    "can't allocate memory",
    "cannot allocate memory",
    "out of memory",
    "bad_alloc",
    "unable to allocate",
    "mmap failed",
)


class Teller:
    """Writes events, one line each."""

    def __init__(self, descriptor: int) -> None:
        os.set_inheritable(descriptor, False)
        self._descriptor, self._owner = descriptor, os.getpid()
        self._encoder = msgspec.json.Encoder()

    def __call__(self, event: TrialEvent) -> None:
        """Children that were forked tell nothing."""
        if os.getpid() == self._owner:
            with contextlib.suppress(OSError):
                os.write(self._descriptor, self._encoder.encode(event) + b"\n")


class Trial:
    """Memory so far, and the end of the trial."""

    def __init__(self, tell: Teller) -> None:
        self._tell = tell
        self._idle_bytes = self._held_bytes = 0

    def begin(self) -> None:
        """What is resident now is not the code's."""
        gc.collect()
        self._idle_bytes = restart_peak()

    def peak_bytes(self) -> int:
        """Most that was resident since, beyond that."""
        self._held_bytes = max(self._held_bytes, status_bytes("RssAnon") + status_bytes("RssShmem"))
        return max(0, status_bytes("VmHWM", "VmRSS") - self._idle_bytes)

    def stop(self) -> NoReturn:
        """Enough: nothing of the code runs any more."""
        peak_bytes = self.peak_bytes()
        # The watcher may miss what was held between two looks, and a process that is gone holds nothing.
        self._tell(TrialEvent(Said.DONE, bytes=peak_bytes, held_bytes=self._held_bytes))
        os._exit(0)


def main() -> int:
    """Try the code; the exit code says nothing that the watcher believes."""
    options = _options()
    request = REQUESTS.decode(options.request)
    tell = Teller(os.dup(options.events))
    os.dup2(2, 1)  # whatever the code prints is no event
    if not options.own_processes:
        end_with_parent()
    limits_held = [*SURROUNDED[request.sandbox], *set_limits(request.limits)]
    limits_held += _closed_in(request, options, tell)
    import torch

    with contextlib.suppress(RuntimeError):
        torch.set_num_threads(max(1, min(len(os.sched_getaffinity(0)), 4)))
    trial = Trial(tell)
    hooks = StepHooks(request.limits.steps, tell, trial.peak_bytes, trial.stop)
    open_doors(torch)
    hooks.install(torch)
    _seed(request.seed, torch)
    trial.begin()
    limits_held += set_memory_limit(request.limits.memory_bytes, MAX_THREADS)
    tell(TrialEvent(Said.READY, limits=tuple(limits_held)))
    _try(request, trial, hooks, tell)
    return 0


def _closed_in(request: TrialRequest, options: argparse.Namespace, tell: Teller) -> list[str]:
    """Everything that must stand before the first library that may start threads; what holds."""
    writable = tuple(options.writable)
    limits_held: list[str] = []
    if request.sandbox is Sandbox.NONE:
        limits_held += landlock.restrict((*writable, "/dev/null", SHARED_MEMORY, "/proc/self"), network=bool(request.addresses))
    filtered = False
    if options.control is not None:
        try:
            install_watched(socket.socket(fileno=options.control))
        except FilterError as error:
            sys.stderr.write(f"calls are not filtered: {error}\n")
        else:
            filtered = True
            limits_held.append("watched system calls (seccomp)")
    hosts = frozenset(each.rpartition(":")[0].strip("[]") for each in request.addresses)
    Audit(
        tell, (*writable, "/dev/null", SHARED_MEMORY, "/proc/self/"), request.limits.processes, alone=not filtered, reachable=hosts
    ).install()
    limits_held.append("Python audit hook")
    return limits_held


def _seed(seed: int, torch: Any) -> None:  # noqa: ANN401 - the module
    import numpy as np

    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch.manual_seed(seed)


def _try(request: TrialRequest, trial: Trial, hooks: StepHooks, tell: Teller) -> None:
    """Run the code to its end, its fault or its last step."""
    try:
        if request.script is None:
            from hyperscale.evaluate.preflight.builtin_trial import train

            train(trial.begin)
        else:
            sys.argv = [request.script]
            sys.path.insert(0, str(Path(request.script).resolve().parent))
            runpy.run_path(request.script, run_name="__main__")
    except SystemExit as ended:
        if ended.code not in (None, 0):
            with contextlib.suppress(Exception):
                sys.stdout.flush()  # what it printed last says why
            how = f"exit code {ended.code:d}" if isinstance(ended.code, int) else f"the message {' '.join(str(ended.code).split())!r}"
            tell(TrialEvent(Said.ERROR, f"it ended with {how}"[:MAX_TEXT], hooks.steps + 1))
    except MemoryError as error:
        tell(TrialEvent(Said.OUT_OF_MEMORY, _last_line(error), hooks.steps + 1, bytes=trial.peak_bytes()))
        trial.stop()
    except BaseException as error:
        _tell_error(error, trial, hooks, tell)
    hooks.finish()
    trial.stop()


def _tell_error(error: BaseException, trial: Trial, hooks: StepHooks, tell: Teller) -> None:
    line = _last_line(error)
    traceback.print_exception(error)
    lacks = any(words in line.lower() for words in _OUT_OF_MEMORY) or getattr(error, "errno", None) == 12
    tell(TrialEvent(Said.OUT_OF_MEMORY if lacks else Said.ERROR, line, hooks.steps + 1, bytes=trial.peak_bytes()))
    trial.stop()


def _last_line(error: BaseException) -> str:
    """The kind and the message, with the last line of the author's own files that was reached."""
    frames = [each for each in traceback.extract_tb(error.__traceback__) if "site-packages" not in each.filename]
    frames = [each for each in frames if not each.filename.startswith("<frozen")]
    place = f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else ""
    message = " ".join(str(error).split())
    return f"{type(error).__name__}: {message[: MAX_TEXT - 120]}{place}"


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Tried process of a preflight.")
    parser.add_argument("request", help="TrialRequest as JSON")
    parser.add_argument("--events", type=int, required=True, help="descriptor that events are written to")
    parser.add_argument("--control", type=int, help="descriptor of a socket that the filter's listener is sent through")
    parser.add_argument("--writable", action="append", default=[], help="folder that the code may write to")
    parser.add_argument("--own-processes", action="store_true", help="the sandbox has process ids of its own")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
