"""Planning in another process, under a hard deadline: whatever a planner does, the operator gets an answer in time.

A planner that misses its deadline, dies or answers nonsense is killed and started anew, and the question is put once more with the
heuristic planner; every plan is judged here again by `check.violations`, because the process that made it is not trusted to have done so.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
import sys
from collections import deque
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Final

import msgspec
from msgspec.structs import replace

from hyperscale.model.cluster import ClusterSnapshot
from hyperscale.model.job import PlannerChoice
from hyperscale.model.plan import Infeasible, Plan
from hyperscale.model.planning import PlanRequest
from hyperscale.model.policy import PolicySpec
from hyperscale.plan.check import violations
from hyperscale.plan.frames import (
    HEADER_BYTES,
    KEPT_WORLDS,
    Answer,
    Ask,
    FrameError,
    NotPlanned,
    Planned,
    Ready,
    World,
    body_length,
    pack,
    unpack_answer,
)

logger = logging.getLogger(__name__)

COMMAND: Final = (sys.executable, "-m", "hyperscale.plan.worker", "--nice", "5")
ENVIRONMENT: Final[Mapping[str, str]] = {
    # Nothing of the operator's own environment: it may hold addresses and credentials.
    "PATH": "/usr/local/bin:/usr/bin:/bin",
    # One planner beside the operator, one core: more threads would only take time from it.
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    # Order of sets of text must not change from one process to the next.
    "PYTHONHASHSEED": "0",
    # `python -m` would import from the working directory first.
    "PYTHONSAFEPATH": "1",
}
GRACE_SECONDS: Final = 1.0
"""Beyond the planner's own deadline, for the way there and back."""
START_SECONDS: Final = 30.0
"""Longest start of the process: it loads numpy and networkx, on a busy machine, for the first time."""
STOP_SECONDS: Final = 1.0
LOG_SECONDS: Final = 0.5
"""For the end of the log of a planner that has ended; something it started may hold the pipe open."""
KEPT_LOG_BYTES: Final = 4096

TIMEOUT: Final = "PlannerTimeout"
CRASHED: Final = "PlannerCrashed"
REJECTED: Final = "PlanRejected"


class PlannerError(Exception):
    """A planner gave no usable answer: `fallback` is the step's name in `Plan.fallbacks`."""

    def __init__(self, fallback: str, message: str) -> None:
        super().__init__(message)
        self.fallback = fallback


class PlannerProcess:
    """One planner process, started on demand; questions are put one after the other."""

    def __init__(
        self,
        command: Sequence[str] = COMMAND,
        *,
        environment: Mapping[str, str] = ENVIRONMENT,
        memory_bytes: int = 0,
        grace_seconds: float = GRACE_SECONDS,
        start_seconds: float = START_SECONDS,
        on_failure: Callable[[str], None] = lambda fallback: None,
    ) -> None:
        """Nothing is started yet.

        command:      of the planner, an argument list
        memory_bytes: address space that the planner may use; 0 sets no limit
        on_failure:   is told the name of every step down, e.g. to count it
        """
        self._command = (*command, *(("--memory-bytes", str(memory_bytes)) if memory_bytes else ()))
        self._environment = dict(environment)
        self._grace_seconds = grace_seconds
        self._start_seconds = start_seconds
        self._on_failure = on_failure
        self._lock = asyncio.Lock()
        self._child: _Child | None = None
        self._number = 0

    @property
    def pid(self) -> int | None:
        """Process id of the planner; None while there is none."""
        return self._child.pid if self._child is not None else None

    async def start(self) -> None:
        """Start the planner, so that the first plan need not wait for it; a failure is logged and tried again with the first plan."""
        async with self._lock:
            try:
                await self._alive()
            except PlannerError as failure:
                logger.warning("planner did not start: %s", failure)
                await self._drop()

    async def stop(self) -> None:
        """End the planner: by the end of its input, or by force after a second."""
        async with self._lock:
            if self._child is not None:
                await self._child.close(STOP_SECONDS)
                self._child = None

    async def plan(self, request: PlanRequest, snapshot: ClusterSnapshot, policy: PolicySpec) -> Plan | Infeasible:
        """A checked plan, or why there is none; takes at most twice the deadline with its grace, and the planner's start."""
        fallbacks: tuple[str, ...] = ()
        message = ""
        for attempt in (request, _heuristic(request)):
            try:
                found = await self._attempt(attempt, snapshot, policy)
            except PlannerError as failure:
                logger.warning("%s: planner %s failed: %s: %s", request.job_key, attempt.job.planner.value, failure.fallback, failure)
                self._on_failure(failure.fallback)
                fallbacks = (*fallbacks, failure.fallback)
                message = str(failure)
                continue
            return replace(found, fallbacks=(*fallbacks, *found.fallbacks)) if isinstance(found, Plan) else found
        return Infeasible(reason="PlannerFailed", message=f"no planner gave a usable answer ({', '.join(fallbacks)}): {message}")

    async def _attempt(self, request: PlanRequest, snapshot: ClusterSnapshot, policy: PolicySpec) -> Plan | Infeasible:
        async with self._lock:
            try:
                child = await self._alive()
                self._number += 1
                found = await child.ask(self._number, request, snapshot, policy, request.deadline_seconds + self._grace_seconds)
            except BaseException:
                # Also when the caller was cancelled: half an answer may be on its way.
                await self._drop()
                raise
        if isinstance(found, Plan) and (wrong := violations(found, request, snapshot)):
            raise PlannerError(REJECTED, "; ".join(wrong[:3]))
        return found

    async def _alive(self) -> _Child:
        """The planner, started when there is none; raises PlannerError when it does not come up."""
        if self._child is not None and not self._child.alive:
            await self._drop()
        if self._child is None:
            try:
                process = await asyncio.create_subprocess_exec(
                    *self._command,
                    env=self._environment,
                    stdin=asyncio.subprocess.PIPE,
                    stdout=asyncio.subprocess.PIPE,
                    stderr=asyncio.subprocess.PIPE,
                )
            except OSError as error:
                raise PlannerError(CRASHED, f"cannot start {self._command[0]}: {error}") from error
            self._child = _Child(process)
            await self._child.greet(self._start_seconds)
        return self._child

    async def _drop(self) -> None:
        """Kill the planner; the next question starts a new one."""
        child, self._child = self._child, None
        if child is not None:
            await child.close(0)


class _Child:
    """One running planner and the ends of its pipes."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        if process.stdin is None or process.stdout is None or process.stderr is None:  # pragma: no cover - all three are pipes
            raise TypeError("the planner must be started with pipes")
        self._process, self._stdin, self._stdout = process, process.stdin, process.stdout
        self._log = bytearray()
        self._draining = asyncio.ensure_future(self._drain(process.stderr))
        self._worlds: deque[World] = deque(maxlen=KEPT_WORLDS)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def alive(self) -> bool:
        return self._process.returncode is None

    async def greet(self, seconds: float) -> None:
        """Wait until the planner is ready; raises PlannerError."""
        if not isinstance(await self._bounded(self._receive(), seconds), Ready):
            raise PlannerError(CRASHED, "the planner did not begin with Ready")

    async def ask(
        self, number: int, request: PlanRequest, snapshot: ClusterSnapshot, policy: PolicySpec, seconds: float
    ) -> Plan | Infeasible:
        """One question and its answer; raises PlannerError when there is none within `seconds`."""
        answer = await self._bounded(self._exchange(number, request, snapshot, policy), seconds)
        if isinstance(answer, Ready) or answer.number != number:
            raise PlannerError(CRASHED, "the planner answered another question")
        if isinstance(answer, Planned):
            return answer.plan
        if isinstance(answer, NotPlanned):
            return answer.infeasible
        raise PlannerError(CRASHED, answer.message)

    async def close(self, seconds: float) -> None:
        """End the process: let it finish for `seconds`, then kill it; returns when it is gone."""
        self._stdin.close()
        if seconds:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._process.wait(), seconds)
        if self.alive:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
        await self._process.wait()
        await asyncio.wait({self._draining}, timeout=LOG_SECONDS)
        self._draining.cancel()

    async def _exchange(self, number: int, request: PlanRequest, snapshot: ClusterSnapshot, policy: PolicySpec) -> Answer:
        world = await self._introduce(snapshot, policy)
        await self._send(pack(Ask(number=number, world=world, request=request)))
        return await self._receive()

    async def _introduce(self, snapshot: ClusterSnapshot, policy: PolicySpec) -> str:
        """Name of the world; sent first, unless the planner has it: hundreds of jobs are planned on one snapshot."""
        for known in self._worlds:
            if known.snapshot is snapshot and known.policy == policy:
                return known.name
        nameless = World(name="", snapshot=snapshot, policy=policy)
        world = replace(nameless, name=hashlib.sha256(msgspec.json.encode(nameless)).hexdigest())
        if not any(known.name == world.name for known in self._worlds):
            await self._send(pack(world))
            self._worlds.append(world)
        return world.name

    async def _send(self, frame: bytes) -> None:
        self._stdin.write(frame)
        await self._stdin.drain()

    async def _receive(self) -> Answer:
        length = body_length(await self._stdout.readexactly(HEADER_BYTES))
        return unpack_answer(await self._stdout.readexactly(length))

    async def _bounded(self, work: Coroutine[None, None, Answer], seconds: float) -> Answer:
        """The outcome of an exchange; every way in which it can fail becomes a PlannerError."""
        try:
            async with asyncio.timeout(seconds):  # not wait_for: its extra task costs two turns of the loop for every plan of a burst
                return await work
        except TimeoutError as error:
            raise PlannerError(TIMEOUT, f"no answer within {seconds:g} s") from error
        except (asyncio.IncompleteReadError, ConnectionError) as error:
            raise PlannerError(CRASHED, f"the planner ended without an answer{await self._last_words()}") from error
        except FrameError as error:
            raise PlannerError(CRASHED, str(error)) from error

    async def _last_words(self) -> str:
        """The last line that the planner logged, for the message of its failure."""
        await asyncio.wait({self._draining}, timeout=LOG_SECONDS)
        lines = bytes(self._log).decode(errors="replace").strip().splitlines()
        return f": {lines[-1].strip()}" if lines else ""

    async def _drain(self, stream: asyncio.StreamReader) -> None:
        """Keep the end of what the planner logs; a full pipe would stop it."""
        while chunk := await stream.read(KEPT_LOG_BYTES):
            self._log.extend(chunk)
            del self._log[:-KEPT_LOG_BYTES]


def _heuristic(request: PlanRequest) -> PlanRequest:
    return replace(request, job=replace(request.job, planner=PlannerChoice.HEURISTIC))
