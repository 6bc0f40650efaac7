"""One running planner process and the ends of its pipes: a question goes in, an answer comes out in time or an error does."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import re
from collections import deque
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Final

import msgspec
from msgspec.structs import replace

from hyperscale.model.api.policy import PolicySpec
from hyperscale.model.cluster import ClusterSnapshot
from hyperscale.planner.service.frames import (
    HEADER_BYTES,
    KEPT_WORLDS,
    OUT_OF_MEMORY_EXIT,
    Answer,
    ClusterFrame,
    FrameError,
    PlannerTrouble,
    Question,
    Ready,
    body_length,
    pack,
    unpack_answer,
)
from hyperscale.util.threads import in_daemon_thread

LOG_SECONDS: Final = 0.5
"""For the end of the log of a planner that has ended; something it started may hold the pipe open."""
KEPT_LOG_BYTES: Final = 4096

SMALL_NODES: Final = 300
"""Snapshots with at most this many nodes are encoded at once; larger ones in a thread, off the event loop."""

TIMEOUT: Final = "PlannerTimeout"
CRASHED: Final = "PlannerCrashed"
OUT_OF_MEMORY: Final = "PlannerOutOfMemory"
_NO_MEMORY: Final = re.compile(r"^OpenBLAS error: Memory allocation|std::bad_alloc")
"""Libraries that end the process at the memory limit instead of raising an error."""
RAISE_MEMORY: Final = "raise resources.limits.memory of the chart, or settings.plannerMemoryBytes where it is set"


class PlannerError(Exception):
    """A planner gave no usable answer: `fallback` is the step's name in `Plan.fallbacks`."""

    def __init__(self, fallback: str, message: str, *, healthy: bool = False) -> None:
        """healthy: it said so in time, and can be asked the next question."""
        super().__init__(message)
        self.fallback = fallback
        self.healthy = healthy


def _named(nameless: ClusterFrame) -> tuple[ClusterFrame, bytes]:
    """The cluster under a name of its own, and its frame: a tenth of a second for 5,000 nodes."""
    cluster = replace(nameless, name=hashlib.sha256(msgspec.json.encode(nameless)).hexdigest())
    return cluster, pack(cluster)


class Child:
    """One running planner."""

    def __init__(self, process: asyncio.subprocess.Process, memory_bytes: int = 0) -> None:
        """Take over a process that was started with pipes; its memory limit, 0 for none, is for messages only."""
        if process.stdin is None or process.stdout is None or process.stderr is None:  # pragma: no cover - all three are pipes
            raise TypeError("the planner must be started with pipes")
        self._process, self._stdin, self._stdout = process, process.stdin, process.stdout
        self._memory_bytes = memory_bytes
        self._log = bytearray()
        self._draining = asyncio.ensure_future(self._drain(process.stderr))
        self._clusters: deque[ClusterFrame] = deque(maxlen=KEPT_WORLDS)

    @property
    def pid(self) -> int:
        """Of the process."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether it runs."""
        return self._process.returncode is None

    async def greet(self, seconds: float) -> None:
        """Wait until the planner is ready; raises PlannerError."""
        if not isinstance(await self._bounded(self._receive(), seconds), Ready):
            raise PlannerError(CRASHED, "the planner did not begin with Ready")

    async def ask(
        self, number: int, question: Callable[[str], Question], snapshot: ClusterSnapshot, policy: PolicySpec, seconds: float
    ) -> Answer:
        """One question, made for the cluster of that name, and its answer; raises PlannerError when there is none within `seconds`."""
        answer = await self._bounded(self._exchange(question, snapshot, policy), seconds)
        if isinstance(answer, Ready) or answer.number != number:
            raise PlannerError(CRASHED, "the planner answered another question")
        if isinstance(answer, PlannerTrouble):
            raise PlannerError(TIMEOUT if answer.late else CRASHED, answer.message, healthy=answer.late)
        return answer

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

    async def _exchange(self, question: Callable[[str], Question], snapshot: ClusterSnapshot, policy: PolicySpec) -> Answer:
        await self._send(pack(question(await self._introduce(snapshot, policy))))
        return await self._receive()

    async def _introduce(self, snapshot: ClusterSnapshot, policy: PolicySpec) -> str:
        """Name of the cluster; sent first, unless the planner has it: hundreds of jobs are planned on one snapshot."""
        for introduced in self._clusters:
            if introduced.snapshot is snapshot and introduced.policy == policy:
                return introduced.name
        name_it = partial(_named, ClusterFrame(name="", snapshot=snapshot, policy=policy))
        cluster, frame = name_it() if len(snapshot.nodes) <= SMALL_NODES else await in_daemon_thread(name_it)
        if not any(other.name == cluster.name for other in self._clusters):
            await self._send(frame)
            self._clusters.append(cluster)
        return cluster.name

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
            raise await self._ended() from error
        except FrameError as error:
            raise PlannerError(CRASHED, str(error)) from error

    async def _ended(self) -> PlannerError:
        """Why the planner ended without an answer: by its exit code, its signal, or the last line that it logged."""
        await asyncio.wait({self._draining}, timeout=LOG_SECONDS)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._process.wait(), LOG_SECONDS)
        code = self._process.returncode
        lines = bytes(self._log).decode(errors="replace").strip().splitlines()
        last = lines[-1].strip() if lines else ""
        if code == OUT_OF_MEMORY_EXIT or _NO_MEMORY.search(last):
            limit = f"its limit of {self._memory_bytes / 2**20:.0f} MiB" if self._memory_bytes else "this machine has"
            return PlannerError(OUT_OF_MEMORY, f"the planner needs more memory than {limit}: {RAISE_MEMORY}")
        why = f": {last}" if last else ""
        if code is not None and code < 0 and self._memory_bytes:  # msgspec 0.22 decodes into memory that it did not get
            why = f" (signal {-code}; its memory limit is {self._memory_bytes / 2**20:.0f} MiB: if that is the cause, {RAISE_MEMORY}){why}"
        return PlannerError(CRASHED, f"the planner ended without an answer{why}")

    async def _drain(self, stream: asyncio.StreamReader) -> None:
        """Keep the end of what the planner logs; a full pipe would stop it."""
        while chunk := await stream.read(KEPT_LOG_BYTES):
            self._log.extend(chunk)
            del self._log[:-KEPT_LOG_BYTES]
