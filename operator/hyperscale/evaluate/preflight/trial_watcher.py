"""The watcher: `python -m hyperscale.evaluate.preflight.trial_watcher FOLDER` reads one request and prints one observation.

It starts the tried process, answers its calls, keeps its time and memory, and ends all of its processes. It ends too when its caller is
gone: standard input is the caller's life. Nothing of a trial is left behind then.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

import msgspec

from hyperscale.evaluate.preflight import sandboxes
from hyperscale.evaluate.preflight.trial_record import TrialRecord
from hyperscale.evaluate.preflight.trial_types import (
    EVENTS,
    MAX_EVENT_BYTES,
    REQUESTS,
    Observation,
    Sandbox,
    TrialRequest,
)
from hyperscale.evaluate.preflight.watching.addresses import Reach
from hyperscale.evaluate.preflight.watching.call_table import SHARED_MEMORY
from hyperscale.evaluate.preflight.watching.call_watch import SPARE_PROCESSES, CallWatch, receive_listener
from hyperscale.evaluate.preflight.watching.folder_removal import remove_folder
from hyperscale.evaluate.preflight.watching.orphans import adopt
from hyperscale.evaluate.preflight.watching.process_tree import descendants, end_below, resident_bytes
from hyperscale.evaluate.preflight.watching.stored_files import folder_bytes, memory_folder_bytes, unnamed_bytes
from hyperscale.model.api.preflight_report import PreflightFault

LOOK_SECONDS: Final = 0.1
"""Between two looks at memory and processes."""
GRACE_SECONDS: Final = 2.0
"""From its last word to the end of its process."""
DEVICES: Final = ("/dev/null", "/dev/zero", "/dev/full", "/dev/tty", "/dev/random", "/dev/urandom")
"""That may be opened for writing; nothing is left in them."""
WORDS_BYTES: Final = 4096


class StartError(Exception):
    """The trial ended before the author's code began, which is no fault of the code; the message is its last words."""


class Watcher:
    """One trial, from its start to its end."""

    def __init__(self, request: TrialRequest, scratch: str, caller: int) -> None:
        """caller: descriptor that ends when the caller does."""
        self._request, self._scratch, self._caller = request, scratch, caller
        self._record = TrialRecord(request.limits)
        self._selector = selectors.DefaultSelector()
        self._line = b""
        self._words = b""
        self._calls: CallWatch | None = None
        self._began = time.monotonic()
        self.orphaned = False

    def run(self) -> Observation:
        """Start it, watch it, end it."""
        process = self._start()
        try:
            self._watch(process)
        finally:
            end_below(os.getpid())
            code = process.wait()
            self._drain()
            self._clean_shared_memory()
        words = self._words.decode(errors="replace")
        if why := self._record.unstarted(code, words):
            raise StartError(why)
        self._record.ended(code, words)
        return self._record.observation(time.monotonic() - self._began)

    def _start(self) -> subprocess.Popen[bytes]:
        gvisor = self._request.sandbox is Sandbox.GVISOR
        self._events, event_end = os.pipe()
        self._control, handed = socket.socketpair()
        error, words = os.pipe()
        options = ["--events", "1" if gvisor else str(event_end), *([] if gvisor else ["--control", str(handed.fileno())])]
        options += [word for folder in self._writable() for word in ("--writable", folder)]
        options += [] if self._request.sandbox is Sandbox.NONE else ["--own-processes"]
        text = msgspec.json.encode(self._request).decode()
        for file in () if self._request.sandbox is Sandbox.BUBBLEWRAP else sandboxes.near_script(self._request):
            os.symlink(os.path.abspath(file), f"{self._scratch}/{Path(file).name}")
        inner = [sys.executable, "-m", "hyperscale.evaluate.preflight.tried_code", text, *options]
        try:
            return subprocess.Popen(
                sandboxes.command(self._request, inner, self._scratch),
                env=self._environment(),
                cwd=self._scratch,
                stdin=subprocess.DEVNULL,
                stdout=event_end if gvisor else words,
                stderr=words,
                pass_fds=() if gvisor else (event_end, handed.fileno()),
                start_new_session=True,
            )
        finally:
            os.close(event_end)
            os.close(words)
            handed.close()
            self._error = error
            for source in (self._events, error, self._control, self._caller):
                self._selector.register(source, selectors.EVENT_READ)

    def _environment(self) -> dict[str, str]:
        """Nothing of the caller's; where it has no sandbox the scratch folder stands for all that it may write."""
        if self._request.sandbox is Sandbox.BUBBLEWRAP:
            return {"PATH": "/usr/local/bin:/usr/bin:/bin"}
        own = dict.fromkeys(("HOME", "TMPDIR"), self._scratch)
        return {**self._request.environment, **own}

    def _writable(self) -> tuple[str, ...]:
        if self._request.sandbox is Sandbox.BUBBLEWRAP:
            return (f"{sandboxes.SCRATCH}/", f"{sandboxes.CHECKPOINTS}/", "/tmp/")  # noqa: S108 - inside
        checkpoints = self._request.environment.get("CHECKPOINT_DIR")
        own = (f"{self._scratch}/", *([f"{checkpoints}/"] if checkpoints else []))
        return (*own, "/tmp/") if self._request.shared_tmp else own  # noqa: S108 - the pod's own

    def _watch(self, process: subprocess.Popen[bytes]) -> None:
        """Until it is done, ends, takes too much, or the caller is gone."""
        looked = 0.0
        done_at: float | None = None
        while process.poll() is None:
            now = self._now()
            if now > self._request.limits.seconds:
                self._record.out_of_time(now)
                self._record.done = True
                return
            if self._record.done:
                done_at = now if done_at is None else done_at
                if now - done_at > GRACE_SECONDS:
                    return
            if now - looked > LOOK_SECONDS:
                looked = now
                if self._takes_too_much():
                    self._record.done = True
                    return
            if not self._hear(LOOK_SECONDS / 2):
                return

    def _takes_too_much(self) -> bool:
        alive = descendants(os.getpid())
        if len(alive) > self._request.limits.processes + SPARE_PROCESSES:
            most = self._request.limits.processes
            self._record.add(PreflightFault.TOO_MANY_PROCESSES, f"it had more than {most} processes at once")
        too_many = any(fault.kind is PreflightFault.TOO_MANY_PROCESSES for fault in self._record.faults)
        on_disk, in_memory = self._stored_bytes(alive)
        too_large = self._record.stored(on_disk)
        return self._record.resident(max(resident_bytes(alive), in_memory)) or too_many or too_large

    def _stored_bytes(self, alive: list[int]) -> tuple[int, int]:
        """What its files hold, and what those in shared memory hold that have no name; under gVisor they are within its kernel."""
        if self._request.sandbox is Sandbox.BUBBLEWRAP:
            return memory_folder_bytes(alive, sandboxes.IN_MEMORY) if self._calls is not None else 0, 0
        unnamed = unnamed_bytes(alive)
        in_memory = unnamed.pop(os.stat(SHARED_MEMORY).st_dev, 0) if os.path.isdir(SHARED_MEMORY) else 0
        own = folder_bytes(self._scratch) + sum(unnamed.values())
        return own if self._calls is None else own + self._calls.shared.stored_bytes(), in_memory

    def _hear(self, seconds: float) -> bool:
        """Take in what comes; whether the caller is still there."""
        ready = {key.fileobj for key, _ in self._selector.select(seconds)}
        if self._caller in ready and not os.read(self._caller, 4096):
            self.orphaned = True
            return False
        for source, hear in ((self._events, self._hear_event), (self._error, self._hear_words)):
            if source in ready and not hear():
                self._selector.unregister(source)
        if self._control in ready:
            self._selector.unregister(self._control)
            self._hear_listener()
        if self._calls is not None and self._calls.listener in ready:
            self._answer(self._calls)
        return True

    def _hear_event(self) -> bool:
        """Whether there may be more."""
        part = os.read(self._events, 1 << 16)
        *lines, self._line = (self._line + part).split(b"\n")
        self._line = self._line[:MAX_EVENT_BYTES]
        for line in lines:
            with contextlib.suppress(msgspec.DecodeError):  # what is no event says nothing
                self._record.take(EVENTS.decode(line), self._now())
        return bool(part)

    def _hear_words(self) -> bool:
        part = os.read(self._error, 1 << 16)
        self._words = (self._words + part)[-WORDS_BYTES:]
        return bool(part)

    def _hear_listener(self) -> None:
        listener = receive_listener(self._control)
        if listener is None:
            return
        request, isolated = self._request, self._request.sandbox is not Sandbox.NONE
        closed = sandboxes.read_only(request) if request.sandbox is Sandbox.BUBBLEWRAP else ()
        self._calls = CallWatch(
            listener,
            (*self._writable(), *DEVICES, SHARED_MEMORY),
            Reach(request.addresses, isolated=isolated, folders=self._writable(), closed=closed),
            request.limits.processes + SPARE_PROCESSES,
            isolated,
            request.shared_tmp,
        )
        self._selector.register(listener, selectors.EVENT_READ)

    def _answer(self, calls: CallWatch) -> None:
        forks = calls.forks
        for event in calls.answer():
            self._record.take_watched(event)
        if calls.forks > forks:
            self._record.take_fork()

    def _drain(self) -> None:
        """What it event_end before it was ended."""
        os.set_blocking(self._events, False)
        os.set_blocking(self._error, False)
        for hear in (self._hear_event, self._hear_words):
            with contextlib.suppress(BlockingIOError):
                while hear():
                    pass

    def _clean_shared_memory(self) -> None:
        if self._calls is not None and self._request.sandbox is Sandbox.NONE:
            self._calls.shared.clean()

    def _now(self) -> float:
        return time.monotonic() - self._began


def main() -> int:
    """Answer on the standard streams; 0 with an observation. The folder of the argument is the trial's, and is removed."""
    adopt(wanted=True)  # what leaves its parent is ours to end
    scratch = sys.argv[1]
    try:
        request = REQUESTS.decode(sys.stdin.buffer.readline())
        watcher = Watcher(request, scratch, sys.stdin.fileno())
        observation = watcher.run()
        if not watcher.orphaned:
            sys.stdout.buffer.write(msgspec.json.encode(observation))
            sys.stdout.buffer.flush()
    except StartError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    finally:
        remove_folder(scratch)
    return 0


if __name__ == "__main__":
    sys.exit(main())
