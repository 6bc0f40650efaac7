"""The end of what a watcher leaves behind that is killed itself."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import threading
import time
from collections.abc import Iterator
from typing import Final

from hyperscale.evaluate.preflight.watching.process_tree import END_SECONDS, children

_PR_SET_CHILD_SUBREAPER: Final = 36
_PR_GET_CHILD_SUBREAPER: Final = 37


class Adoption:
    """Processes below this one become its children when their parent is gone, while at least one trial runs."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._trials = 0
        self._adopted_before = False

    @contextlib.contextmanager
    def during_trial(self) -> Iterator[None]:
        """Several trials may run at once, in threads."""
        with self._lock:
            if not self._trials:
                self._adopted_before = is_adopting()
                adopt(wanted=True)
            self._trials += 1
        try:
            yield
        finally:
            with self._lock:
                self._trials -= 1
                if not self._trials:
                    adopt(wanted=self._adopted_before)


def adopt(*, wanted: bool) -> None:
    """Let orphans below this process become its children, or not any more."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, int(wanted), 0, 0, 0)


def is_adopting() -> bool:
    """Whether orphans below this process become its children."""
    adopts = ctypes.c_int()
    ctypes.CDLL(None).prctl(_PR_GET_CHILD_SUBREAPER, ctypes.byref(adopts), 0, 0, 0)
    return bool(adopts.value)


def end_orphans(before: list[int]) -> None:
    """Kill the orphans of a trial whose watcher is gone, and those that they leave in turn.

    A tried process leaves its caller's session and cannot come back. Children of that session, and those of `before`, are the caller's own.
    """
    deadline, session = time.monotonic() + END_SECONDS, os.getsid(0)
    while time.monotonic() < deadline:
        left = [each for each in children(os.getpid()) if each not in before and _session(each) not in (session, None)]
        if not left:
            return
        for each in left:
            with contextlib.suppress(OSError):
                os.kill(each, signal.SIGKILL)
                os.waitpid(each, os.WNOHANG)
        time.sleep(0.005)


def _session(process: int) -> int | None:
    """None for a process that is gone."""
    try:
        return os.getsid(process)
    except OSError:
        return None
