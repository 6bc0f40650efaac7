"""What a watcher knows of a trial so far: events of the tried process, its own figures, and the faults that follow. No input or output."""

from __future__ import annotations

import math
import re
import statistics
from typing import Final

from msgspec.structs import replace

from hyperscale.evaluate.preflight.trial_types import MAX_EVENTS, MIB, Fault, Limits, Observation, Said, TrialEvent
from hyperscale.model.api.preflight_report import PreflightFault
from hyperscale.model.evaluation import MAX_NAMES

STALL_STEPS: Final = 10.0
"""A step that takes this multiple of the median of the steps before does not come any more."""
STALL_SECONDS: Final = 5.0
_FAULT_OF: Final = {
    Said.NOT_FINITE: PreflightFault.NOT_FINITE,
    Said.WROTE: PreflightFault.WROTE_OUTSIDE,
    Said.ADDRESS: PreflightFault.USED_NETWORK,
    Said.PROCESSES: PreflightFault.TOO_MANY_PROCESSES,
    Said.OUT_OF_MEMORY: PreflightFault.OUT_OF_MEMORY,
    Said.ERROR: PreflightFault.CRASHED,
}

_EXIT: Final = re.compile(r"it ended with exit code -?\d+")
"""A crash of which the process says no more: the script may have printed why."""
_NO_STEP: Final = "it ended without a training step: no optimizer stepped, no backward pass ran"
_IN_CHILDREN: Final = (
    " in the process of the script; it started child processes, whose steps are not watched: name the script that trains, not a launcher"
)
_UNSTARTED_ADVICE: Final = {
    PreflightFault.TIMED_OUT: "try again where the machine is less busy, or give it more seconds",
    PreflightFault.OUT_OF_MEMORY: "the libraries alone need more: raise the memory limit of spec.workers.resources",
}


class TrialRecord:
    """Faults are only added, never taken back, whatever the tried process says later."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self.faults: list[Fault] = []
        self.ready = self.done = self._forked = False
        self._events = 0
        self._steps = 0
        self._losses: list[str] = []
        self._seconds: list[float] = []
        self._last_step_seconds = 0.0
        self._peak = 0
        self.resident_bytes = 0
        self._names: dict[Said, dict[str, None]] = {Said.IDLE: {}, Said.WROTE: {}, Said.ADDRESS: {}}
        self._watched: dict[Said, dict[str, None]] = {Said.WROTE: {}, Said.ADDRESS: {}}
        self._held: tuple[str, ...] = ()

    def take(self, event: TrialEvent, now_seconds: float) -> None:
        """Take in an event.

        now_seconds: since the start of the trial
        """
        self._events += 1
        if self.done or self._events > MAX_EVENTS:
            return
        self._peak = max(self._peak, event.bytes)
        if event.kind is Said.READY:
            self.ready, self._held, self._last_step_seconds = True, event.limits, now_seconds
        elif event.kind is Said.STEP:
            self._step(event, now_seconds)
        elif event.kind is Said.DONE:
            self.resident(event.held_bytes, self._steps)
            self.done = True
        self._note(event, self._names)
        if event.kind in _FAULT_OF:
            self.add(_FAULT_OF[event.kind], event.text, event.step or self._now())

    def take_watched(self, event: TrialEvent) -> None:
        """Take in what the watcher itself found. Nothing that the tried process tells keeps it out: no end, no flood."""
        self._note(event, self._watched)
        self.add(_FAULT_OF[event.kind], event.text)

    def take_fork(self) -> None:
        """It started a process. Those of the libraries come before the code."""
        self._forked = self._forked or self.ready

    def _note(self, event: TrialEvent, kept: dict[Said, dict[str, None]]) -> None:
        """Keep a name, but not that of a host which another library looks up again."""
        names = kept.get(event.kind)
        if names is None or len(names) >= MAX_NAMES:
            return
        if event.kind is not Said.ADDRESS or all(name.partition(":")[0] != event.text for name in names):
            names[event.text] = None

    def add(self, kind: PreflightFault, text: str, step: int | None = None) -> None:
        """Add a fault; only the first of its kind."""
        if all(fault.kind is not kind for fault in self.faults):
            self.faults.append(Fault(kind, text, self._now() if step is None else step))

    def _now(self) -> int:
        """Number of the step that is under way; 0 before the first one could begin."""
        return self._steps + 1 if self.ready else 0

    def _step(self, event: TrialEvent, now_seconds: float) -> None:
        self._steps = max(self._steps + 1, min(event.step, self._limits.steps))
        if len(self._losses) < self._limits.steps:
            self._losses.append(event.loss)
            self._seconds.append(min(event.seconds, now_seconds) if math.isfinite(event.seconds) and event.seconds >= 0.0 else 0.0)
        self._last_step_seconds = now_seconds

    def out_of_time(self, now_seconds: float) -> None:
        """The time is over: a fault where no step came, or where the last one is too long ago."""
        if not self._steps:
            what = "it took no step" if self.ready else "it did not come to the author's code"
            self.add(PreflightFault.TIMED_OUT, f"{what} within {self._limits.seconds:g} s")
            return
        quiet = now_seconds - self._last_step_seconds
        usual = statistics.median(self._seconds) if self._seconds else 0.0
        if quiet > max(STALL_SECONDS, STALL_STEPS * usual):
            self.add(PreflightFault.TIMED_OUT, f"step {self._steps + 1} did not end within {quiet:.0f} s; steps before took {usual:.3g} s")

    def resident(self, size: int, step: int | None = None) -> bool:
        """Note what all processes hold; whether that is too much. step: in which, None: the one under way."""
        self.resident_bytes = max(self.resident_bytes, size)
        if size <= self._limits.memory_bytes:
            return False
        self.add(
            PreflightFault.OUT_OF_MEMORY,
            f"its processes held {size // MIB} MiB, more than the limit of {self._limits.memory_bytes // MIB} MiB",
            step,
        )
        return True

    def stored(self, size: int) -> bool:
        """Take in what all of its files hold; whether that is too much."""
        if size <= self._limits.file_bytes:
            return False
        most = self._limits.file_bytes // MIB
        self.add(
            PreflightFault.CRASHED,
            f"its files held more than the limit of {most} MiB, were too many or too deep, or it closed their folder",
        )
        return True

    def unstarted(self, code: int, words: str) -> str:
        """Return why the author's code never began, which is no fault of the code, and what to do; "" where it began.

        words: the end of its standard error
        """
        if self.ready:
            return ""
        if not self.faults:
            said = _last_line(words)[:300] if "Traceback (most recent call last)" in words else " ".join(words.split())[-300:]
            return said or f"the tried process ended with {code} before the author's code"
        first = self.faults[0]
        return f"before the author's code began: {first.text}; {_UNSTARTED_ADVICE.get(first.kind, 'look at the image, then try again')}"

    def ended(self, code: int, words: str) -> None:
        """The process ended, on its own where it did not say that it is done.

        words: the end of its standard error
        """
        last = _last_line(words)
        cause = f": {last[:300]}" if last else ""
        if self.done:
            if not self._steps and not self.faults:
                self.add(PreflightFault.CRASHED, f"{_NO_STEP}{_IN_CHILDREN if self._forked else ''}", 0)
            self.faults = [replace(fault, text=fault.text + cause) if _EXIT.fullmatch(fault.text) else fault for fault in self.faults]
            return
        how = f"signal {code - 128 if code > 128 else -code}" if code < 0 or code > 128 else f"exit code {code}"
        self.add(PreflightFault.CRASHED, f"it ended with {how}{cause}")

    def _both(self, kind: Said) -> tuple[str, ...]:
        """The watcher's own names first."""
        return tuple({**self._watched[kind], **self._names[kind]})[:MAX_NAMES]

    def observation(self, seconds: float) -> Observation:
        """Everything."""
        return Observation(
            faults=tuple(self.faults),
            steps=self._steps,
            losses=tuple(self._losses),
            step_seconds=tuple(self._seconds),
            peak_bytes=self._peak or None,
            resident_bytes=self.resident_bytes,
            seconds=seconds,
            idle=tuple(self._names[Said.IDLE]),
            written=self._both(Said.WROTE),
            addresses=self._both(Said.ADDRESS),
            limits=self._held,
        )


def _last_line(words: str) -> str:
    """Of a traceback the line that says what is wrong."""
    return next((" ".join(line.split()) for line in reversed(words.splitlines()) if line.strip()), "")
