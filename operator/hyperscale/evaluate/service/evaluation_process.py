"""One evaluation in a process of its own, killed at its deadline: whatever a stage does, the operator continues."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from hyperscale.evaluate.service.evaluation_frames import ANSWERS, MAX_ANSWER_BYTES, EvaluationAsk, QuestionTooLargeError, packed
from hyperscale.model.evaluation import FAULT_NAMES, EvaluationStatus
from hyperscale.util.child_process import ENVIRONMENT as ENVIRONMENT
from hyperscale.util.threads import in_daemon_thread

COMMAND: Final = (sys.executable, "-m", "hyperscale.evaluate.service.evaluation_main", "--nice", "10")
DEADLINE_SECONDS: Final = 30.0
STDERR_BYTES: Final = 4096
GRACE_SECONDS: Final = 5.0
"""From its last word to its end, and from the kill to the end of its streams."""


class EvaluationError(Exception):
    """There is no answer; the message says why."""


class EvaluationProcess:
    """Starts one process a question."""

    def __init__(
        self,
        command: Sequence[str] = COMMAND,
        *,
        environment: Mapping[str, str] = ENVIRONMENT,
        deadline_seconds: float = DEADLINE_SECONDS,
        memory_bytes: int = 0,
    ) -> None:
        """Nothing is started yet. memory_bytes: that the process may write; 0 sets no limit."""
        self._command = (*command, *(("--memory-bytes", str(memory_bytes)) if memory_bytes else ()))
        self._environment, self._deadline_seconds = dict(environment), deadline_seconds

    async def evaluate(self, ask: EvaluationAsk) -> EvaluationStatus:
        """Return the answer; raises EvaluationError after the deadline at the latest."""
        try:
            body = await in_daemon_thread(lambda: packed(ask))
        except QuestionTooLargeError as error:
            raise EvaluationError(str(error)) from None
        try:
            process = await asyncio.create_subprocess_exec(
                *self._command,
                env=self._environment,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
            )
        except OSError as error:
            raise EvaluationError(f"cannot start {self._command[0]}: {error}") from error
        talking = asyncio.ensure_future(_talk(process, body))
        try:
            done, _ = await asyncio.wait({talking}, timeout=self._deadline_seconds)
            if not done:
                raise EvaluationError(f"no answer within {self._deadline_seconds:g} s")
            text, said = talking.result()
        finally:
            code = await _end(process, talking)
        if code != 0:
            words = said.strip()
            named = words.partition(":")[0] in FAULT_NAMES
            raise EvaluationError(words if named else f"ended with {code}: {words[-300:] or 'no words'}")
        try:
            return ANSWERS.decode(text)
        except msgspec.DecodeError as error:
            raise EvaluationError(f"answered nonsense: {error}") from None


async def _talk(process: asyncio.subprocess.Process, body: bytes) -> tuple[bytes, str]:
    """Standard output, bounded, and the end of standard error."""
    if process.stdin is None or process.stdout is None or process.stderr is None:
        raise EvaluationError("the process has no streams")
    writing = asyncio.create_task(_write(process.stdin, body))
    saying = asyncio.create_task(_tail(process.stderr))
    try:
        text = await _bounded(process.stdout)
        await writing
        return text, (await saying).decode(errors="replace")
    finally:
        writing.cancel()
        saying.cancel()


async def _write(stream: asyncio.StreamWriter, body: bytes) -> None:
    try:
        stream.write(body)
        await stream.drain()
        stream.close()
    except (BrokenPipeError, ConnectionResetError):
        return  # it has ended; its exit code says so


async def _bounded(stream: asyncio.StreamReader) -> bytes:
    """All of a stream; raises EvaluationError where that is too much."""
    text = b""
    while part := await stream.read(1 << 16):
        text += part
        if len(text) > MAX_ANSWER_BYTES:
            raise EvaluationError(f"answered more than {MAX_ANSWER_BYTES} bytes")
    return text


async def _tail(stream: asyncio.StreamReader) -> bytes:
    """The last bytes of a stream."""
    kept = b""
    while part := await stream.read(1 << 16):
        kept = (kept + part)[-STDERR_BYTES:]
    return kept


async def _end(process: asyncio.subprocess.Process, talking: asyncio.Future[tuple[bytes, str]]) -> int | None:
    """Its exit code; it is killed where it still runs a moment later. Its streams are read on until then: a full pipe is never closed."""
    try:
        async with asyncio.timeout(0.0 if not talking.done() else GRACE_SECONDS):
            return await process.wait()
    except TimeoutError:
        pass
    with contextlib.suppress(ProcessLookupError):
        process.kill()
    await asyncio.wait({talking}, timeout=GRACE_SECONDS)
    talking.cancel()
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(GRACE_SECONDS):
            return await process.wait()
    return process.returncode
