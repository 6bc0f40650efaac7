"""A sign of life on a terminal while a command takes longer than a second: what it is doing and for how long. Nothing in a pipe or a file.

One line on standard error, drawn over itself and taken away before anything else is written to the terminal.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any, Final, TextIO

from hyperscale.cli.exit_codes import one_line

AFTER_SECONDS: Final = 1.0
"""Commands that answer sooner show nothing."""
EVERY_SECONDS: Final = 0.5
ERASE: Final = "\r\x1b[K"


class _Line:
    """The line on one terminal."""

    def __init__(self, terminal: TextIO, label: str, after_seconds: float) -> None:
        self._terminal, self._label, self._after_seconds = terminal, label, after_seconds
        self._started = time.monotonic()
        self._lock = threading.RLock()
        self._drawn = False
        self._over = threading.Event()

    def say(self, label: str) -> None:
        """Show another text from now on."""
        with self._lock:
            self._label = label
            self.draw()

    def draw(self) -> None:
        """Redraw the line where the command has taken long enough."""
        elapsed = time.monotonic() - self._started
        if elapsed < self._after_seconds or self._over.is_set():
            return
        width = max(20, shutil.get_terminal_size().columns - 1)
        with self._lock, contextlib.suppress(OSError, ValueError):
            self._terminal.write(ERASE + one_line(f"{self._label} … {elapsed:.0f} s")[:width])
            self._terminal.flush()
            self._drawn = True

    def erase(self) -> None:
        """Take the line away until it is drawn again."""
        with self._lock, contextlib.suppress(OSError, ValueError):
            if self._drawn:
                self._terminal.write(ERASE)
                self._terminal.flush()
                self._drawn = False

    def keep_drawing(self) -> None:
        """Until the command is over."""
        while not self._over.wait(EVERY_SECONDS):
            self.draw()

    def end(self) -> None:
        """For good."""
        with self._lock:
            self.erase()
            self._over.set()

    def write(self, stream: TextIO, text: str) -> int:
        """Write to a stream that may be the same terminal."""
        with self._lock:
            self.erase()
            return stream.write(text)


class _Beside:
    """A standard stream whose text never lands in the line."""

    def __init__(self, stream: TextIO, line: _Line) -> None:
        self._stream, self._line = stream, line

    def write(self, text: str) -> int:
        """As the stream's."""
        return self._line.write(self._stream, text)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever a text stream has
        return getattr(self._stream, name)


_line: _Line | None = None


def say(label: str) -> None:
    """Tell what is being done now; shown on a terminal, once the command has taken a second."""
    if _line is not None:
        _line.say(label)


@contextlib.contextmanager
def running(label: str) -> Iterator[None]:
    """Show signs of life while the block runs, where standard error is a terminal; `label` stands until `say` tells more."""
    global _line
    out, error = sys.stdout, sys.stderr
    if _line is not None or not error.isatty() or os.environ.get("TERM") == "dumb":
        yield
        return
    line = _line = _Line(error, label, AFTER_SECONDS)
    sys.stdout, sys.stderr = _Beside(out, line), _Beside(error, line)
    threading.Thread(target=line.keep_drawing, daemon=True).start()
    line.draw()
    try:
        yield
    finally:
        line.end()
        sys.stdout, sys.stderr, _line = out, error, None
