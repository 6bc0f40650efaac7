"""A queue of keys: each key at most once in it, at most one worker on a key, failures retried with growing delay."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from typing import Final, Generic, TypeVar

_LOG = logging.getLogger(__name__)

FIRST_RETRY_SECONDS: Final = 0.5
LONGEST_RETRY_SECONDS: Final = 60.0
EVENT_RETRY_SECONDS: Final = 1.0
"""After a failure an event brings the next attempt forward, but not before so long: a thousand pods tell a thousand events."""
LATER_EVERY: Final = 8

Key = TypeVar("Key", bound=Hashable)


class RetryLaterError(Exception):
    """The pass could not be finished now; try again after `after_seconds`, or after the queue's own backoff when None."""

    def __init__(self, message: str, after_seconds: float | None = None) -> None:
        super().__init__(message)
        self.after_seconds = after_seconds


class WorkQueue(Generic[Key]):
    """Keys in order of arrival; a key that arrives while it is worked on is worked on once more afterwards."""

    def __init__(self, concurrency: int, on_error: Callable[[BaseException], None]) -> None:
        self._concurrency = concurrency
        self._on_error = on_error
        self._now: OrderedDict[Key, None] = OrderedDict()
        self._later: OrderedDict[Key, None] = OrderedDict()
        self._turn = 0
        self._some = asyncio.Event()
        self._running: set[Key] = set()
        self._again: set[Key] = set()
        self._failures: dict[Key, int] = {}
        self._held: dict[Key, float] = {}
        """Loop time before which a key that failed is not tried again, whatever happens."""
        self._timers: dict[Key, asyncio.TimerHandle] = {}

    def add(self, key: Key) -> None:
        """Work on `key` as soon as a worker is free; on one that failed, once its shortest delay is over."""
        self._put(key, self._now)

    def add_later(self, key: Key) -> None:
        """The same, after keys that were added otherwise; one of LATER_EVERY turns is theirs even while others keep coming."""
        self._put(key, self._later)

    def add_after(self, key: Key, seconds: float) -> None:
        """Work on `key` after `seconds` seconds; an earlier appointment stays."""
        self._appoint(key, asyncio.get_running_loop().time() + seconds)

    def forget(self, key: Key) -> None:
        """The key's object is gone: drop its timer and its failures."""
        self._failures.pop(key, None)
        self._held.pop(key, None)
        if (timer := self._timers.pop(key, None)) is not None:
            timer.cancel()

    def __len__(self) -> int:
        return len(self._now) + len(self._later)

    @property
    def idle(self) -> bool:
        """Nothing is worked on, and nothing waits but for its time."""
        return not (self._now or self._later or self._running)

    async def run(self, work: Callable[[Key], Awaitable[None]]) -> None:
        """Call `work` with each key until cancelled; it raises RetryLaterError for a key to be tried again."""
        async with asyncio.TaskGroup() as group:
            for _ in range(self._concurrency):
                group.create_task(self._worker(work))

    def _put(self, key: Key, lane: OrderedDict[Key, None]) -> None:
        if (earliest := self._held.get(key)) is not None and asyncio.get_running_loop().time() < earliest:
            self._appoint(key, earliest)
            return
        if (timer := self._timers.pop(key, None)) is not None:
            timer.cancel()
        if key in self._running:
            self._again.add(key)
        elif lane is self._now:
            self._later.pop(key, None)
            self._now[key] = None
        elif key not in self._now:
            self._later[key] = None
        self._some.set()

    def _appoint(self, key: Key, when: float) -> None:
        when = max(when, self._held.get(key, when))
        timer = self._timers.get(key)
        if timer is not None and timer.when() <= when:
            return
        if timer is not None:
            timer.cancel()
        self._timers[key] = asyncio.get_running_loop().call_at(when, self._due, key)

    def _due(self, key: Key) -> None:
        self._held.pop(key, None)
        self.add(key)

    async def _next(self) -> Key:
        while not (self._now or self._later):
            self._some.clear()
            await self._some.wait()
        self._turn = (self._turn + 1) % LATER_EVERY
        lane = self._later if not self._now or (self._turn == 0 and self._later) else self._now
        return lane.popitem(last=False)[0]

    async def _worker(self, work: Callable[[Key], Awaitable[None]]) -> None:
        while True:
            key = await self._next()
            self._running.add(key)
            try:
                await work(key)
                self._failures.pop(key, None)
                self._held.pop(key, None)
            except RetryLaterError as retry:
                self._retry(key, retry, retry.after_seconds)
            except Exception as error:  # one job's fault must not stop the others; it is counted, logged whole, and tried again
                _LOG.exception("a pass failed", extra={"key": str(key)})
                self._retry(key, error, None)
            finally:
                self._running.discard(key)
                if key in self._again:
                    self._again.discard(key)
                    self.add(key)
            await asyncio.sleep(0)  # a pass that waits for nothing must not keep others from their turn

    def _retry(self, key: Key, error: Exception, after_seconds: float | None) -> None:
        """Try again after the delay that the server asked for, else after one that grows with every failure."""
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        delay = after_seconds if after_seconds is not None else min(LONGEST_RETRY_SECONDS, FIRST_RETRY_SECONDS * 2 ** min(failures, 16))
        self._on_error(error)
        _LOG.warning("a pass is tried again in %.1f s: %s", delay, error, extra={"key": str(key)})
        now = asyncio.get_running_loop().time()
        self._held[key] = now + (delay if after_seconds is not None else min(delay, EVENT_RETRY_SECONDS))
        if (timer := self._timers.pop(key, None)) is not None:
            timer.cancel()
        self._appoint(key, now + delay)
