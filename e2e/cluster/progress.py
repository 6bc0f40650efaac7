"""Lines about a long build: what is being built, how much of the build is left, and about how long that takes."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

_INTERVAL_SECONDS: Final = 20.0
_TRUSTED_SHARE: Final = 0.05
"""Of the work: when so much is done, its pace says more about this machine than the recorded seconds."""
_CORES_USED: Final = 0.9
"""Share of the cores that a build keeps busy."""


def say(message: str) -> None:
    """One line on stderr."""
    print(f"{time.strftime('%H:%M:%S')} {message}", file=sys.stderr, flush=True)


def wall_seconds(cpu_seconds: float, cores: int | None = None) -> float:
    """How long a build of that many processor seconds takes on this machine with nothing else on it."""
    return cpu_seconds / (_CORES_USED * (cores or len(os.sched_getaffinity(0))))


def left_seconds(share: float, elapsed: float, expected: float) -> float:
    """Seconds that the rest of a build takes, of which `share` (0 to 1) is done after `elapsed` of `expected` seconds."""
    if share < _TRUSTED_SHARE:
        return max(expected - elapsed, expected * (1 - share) / 2)
    return elapsed * (1 - share) / share


def duration(seconds: float) -> str:
    """In words, rounded as an estimate should be."""
    if seconds < 45:
        return f"{max(5, round(seconds / 5) * 5)} s"
    return f"{max(1, round(seconds / 60))} min"


@dataclass
class Progress:
    """A build that says every 20 seconds where it is and about how long it still takes.

    what:     is built
    expected: seconds on this machine
    """

    what: str
    expected: float
    clock: Callable[[], float] = time.monotonic
    write: Callable[[str], None] = say

    def __post_init__(self) -> None:
        self._started = self._said = self.clock()

    def at(self, share: float, done: str) -> None:
        """So much of the work (0 to 1) is done; `done` says it in the build's own unit."""
        now = self.clock()
        if now - self._said >= _INTERVAL_SECONDS:
            self._said = now
            self.write(f"{self.what}: {done}, about {duration(left_seconds(share, now - self._started, self.expected))} left")
