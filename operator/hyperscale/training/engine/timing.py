"""Times of events on a device. On a GPU they are recorded in its stream and read together later, so that no kernel is waited for.

A host's clock around work that a GPU does later shows how long the launches took, nothing else.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

import torch

Moment = float | torch.cuda.Event
Clock = Callable[[], float]
T = TypeVar("T")


class Timer:
    """Moments of one device: of its current stream on a GPU, of `clock` on the processor."""

    def __init__(self, device: torch.device, clock: Clock = time.perf_counter) -> None:
        self._device, self._clock = device, clock
        self.asynchronous = device.type == "cuda"

    def now(self) -> Moment:
        """Return the present moment; on a GPU the one at which its stream comes by."""
        if not self.asynchronous:
            return self._clock()
        moment = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        moment.record(torch.cuda.current_stream(self._device))
        return moment

    def settle(self) -> None:
        """Wait until the device has passed all moments: afterwards `seconds` can tell them."""
        if self.asynchronous:
            torch.cuda.current_stream(self._device).synchronize()

    @staticmethod
    def seconds(first: Moment, last: Moment) -> float:
        """From one moment to a later one; both are passed."""
        if isinstance(first, float) and isinstance(last, float):
            return last - first
        return float(first.elapsed_time(last)) * 1e-3  # type: ignore[union-attr, arg-type] # both are of one device


class Spans:
    """Stretches of time of one kind on one device."""

    def __init__(self, timer: Timer) -> None:
        self._timer = timer
        self._spans: list[tuple[Moment, Moment]] = []

    def timed(self, work: Callable[[], T]) -> T:
        """What `work` gives; its time is counted."""
        first = self._timer.now()
        result = work()
        self._spans.append((first, self._timer.now()))
        return result

    @property
    def count(self) -> int:
        """How many since `clear`."""
        return len(self._spans)

    def clear(self) -> None:
        """Forget them."""
        self._spans.clear()

    def seconds(self, first: int = 0, last: int | None = None) -> float:
        """Of the spans first to last; the timer must have settled."""
        return sum(self._timer.seconds(*span) for span in self._spans[first:last])
