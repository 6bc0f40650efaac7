"""`python3 -m hyperscale.training.worker.launch -- mpirun …`: runs the command, leaves its result or error as termination message.

Standard output and error pass through untouched. Signals that end a pod reach the command. The exit code is the command's own.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Sequence
from typing import IO, Final

import msgspec

from hyperscale.model.api.measured import RESULT_PREFIX, Measured
from hyperscale.training.runtime.contract import EXIT_WRONG_INPUT
from hyperscale.training.runtime.termination import MAX_BYTES, leave
from hyperscale.training.worker.plan_overrides import plan_overrides, with_ranks

FAULT_PREFIX: Final = b"hyperscale.training.worker: "
"""In front of a rank's own error; mpirun may have put a rank's tag before it."""
_LAST_LINES: Final = 12
_NOT_STARTED: Final = 127


def main(arguments: Sequence[str]) -> int:
    """Exit code of the command; 2 without one, 127 where it cannot be started."""
    command = list(arguments[1:] if arguments[:1] == ["--"] else arguments)
    if not command:
        sys.stderr.write(
            "hyperscale.training.worker.launch: no command; write it after --, "
            "e.g. -- mpirun -np 2 python3 -m hyperscale.training.worker.train\n"
        )
        return EXIT_WRONG_INPUT
    try:
        child = _start(command)
    except OSError as error:
        message = f"{command[0]}: {error.strerror}"
        sys.stderr.write(f"hyperscale.training.worker.launch: {message}\n")
        leave(message.encode())
        return _NOT_STARTED
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda received, _: child.send_signal(received))
    output, errors = _Pipe(child.stdout, sys.stdout.buffer), _Pipe(child.stderr, sys.stderr.buffer)
    code = child.wait()
    output.join()
    errors.join()
    if output.result is not None:
        leave(output.result)
    elif code != 0:
        leave(_why(output, errors) or f"{command[0]} ended with {code} and printed nothing".encode())
    return code if code >= 0 else 128 - code


def _start(command: list[str]) -> subprocess.Popen[bytes]:
    """The command as the plan in force has it. Raises OSError."""
    overrides = plan_overrides(os.environ)
    environment = {**os.environ, **overrides}
    planned = with_ranks(command, environment) if "HYPERSCALE_WORKERS" in overrides else command
    return subprocess.Popen(planned, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def _why(output: _Pipe, errors: _Pipe) -> bytes:
    """What a command said before it failed: a rank's own error, else the last lines."""
    return errors.fault or output.fault or b"\n".join(errors.last or output.last)


def result_of(line: bytes) -> bytes | None:
    """The JSON of a result line, written again from its fields; None for other lines and for JSON that is no result."""
    marker = RESULT_PREFIX.encode()
    # mpirun may have put a rank's tag before it.
    _, prefix, document = line.partition(marker)
    if not prefix:
        return None
    try:
        return msgspec.json.encode(msgspec.json.decode(document.strip(), type=Measured))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        sys.stderr.write(f"hyperscale.training.worker.launch: a result line is no result: {error}\n")
        return None


class _Pipe:
    """Copies one stream line by line, keeping the last lines and the last result."""

    def __init__(self, source: IO[bytes] | None, target: IO[bytes]) -> None:
        if source is None:
            raise ValueError("the command has no pipe")
        self.last: deque[bytes] = deque(maxlen=_LAST_LINES)
        self.result: bytes | None = None
        self.fault = b""
        """The last line in which a rank says what is wrong with its input; mpirun says a dozen lines more after it."""
        self._source, self._target = source, target
        self._thread = threading.Thread(target=self._copy, daemon=True)
        self._thread.start()

    def join(self) -> None:
        """Wait for the stream's end; a grandchild that keeps it open is not waited for beyond five seconds."""
        self._thread.join(timeout=5.0)

    def _copy(self) -> None:
        for line in iter(lambda: self._source.readline(1 << 16), b""):
            with contextlib.suppress(OSError, ValueError):  # the log is gone; the command must not wait for a full pipe
                self._target.write(line)
                self._target.flush()
            self.last.append(line.rstrip()[:512])
            _, marker, said = line.partition(FAULT_PREFIX)
            self.fault = marker + said.rstrip()[:MAX_BYTES] if marker else self.fault
            result = result_of(line)
            self.result = result if result is not None else self.result


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
