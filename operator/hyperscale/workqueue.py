"""A queue of keys: each key at most once in it, at most one worker on a key, failures retried with growing delay."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Hashable
from typing import Final, Generic, TypeVar

_LOG = logging.getLogger(__name__)

FIRST_RETRY_SECONDS: Final = 0.5
LONGEST_RETRY_SECONDS: Final = 60.0

Key = TypeVar("Key", bound=Hashable)


class RetryLaterError(Exception):
    """The pass could not be finished now; try again after `after_seconds`, or after the queue's own backoff when None."""

    def __init__(self, message: str, after_seconds: float | None = None) -> None:
        super().__init__(message)
        self.after_seconds = after_seconds


class WorkQueue(Generic[Key]):
    """Keys in order of arrival; a key that arrives while it is worked on is worked on once more afterwards."""

    def __init__(self, work: Callable[[Key], Awaitable[None]], concurrency: int, on_error: Callable[[BaseException], None]) -> None:
        self._work = work
        self._concurrency = concurrency
        self._on_error = on_error
        self._ready: asyncio.Queue[Key] = asyncio.Queue()
        self._queued: set[Key] = set()
        self._running: set[Key] = set()
        self._again: set[Key] = set()
        self._failures: dict[Key, int] = {}
        self._timers: dict[Key, asyncio.TimerHandle] = {}

    def add(self, key: Key) -> None:
        """Work on `key` as soon as a worker is free."""
        if (timer := self._timers.pop(key, None)) is not None:
            timer.cancel()
        if key in self._running:
            self._again.add(key)
        elif key not in self._queued:
            self._queued.add(key)
            self._ready.put_nowait(key)

    def add_after(self, key: Key, seconds: float) -> None:
        """Work on `key` in so many seconds; an earlier appointment stays."""
        loop = asyncio.get_running_loop()
        known = self._timers.get(key)
        if known is not None and known.when() <= loop.time() + seconds:
            return
        if known is not None:
            known.cancel()
        self._timers[key] = loop.call_later(seconds, self.add, key)

    def forget(self, key: Key) -> None:
        """The key's object is gone: drop its timer and its failures."""
        self._failures.pop(key, None)
        if (timer := self._timers.pop(key, None)) is not None:
            timer.cancel()

    def __len__(self) -> int:
        return len(self._queued)

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as group:
            for _ in range(self._concurrency):
                group.create_task(self._worker())

    async def _worker(self) -> None:
        while True:
            key = await self._ready.get()
            self._queued.discard(key)
            self._running.add(key)
            try:
                await self._work(key)
                self._failures.pop(key, None)
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

    def _retry(self, key: Key, error: Exception, after_seconds: float | None) -> None:
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        delay = after_seconds if after_seconds is not None else min(LONGEST_RETRY_SECONDS, FIRST_RETRY_SECONDS * 2**failures)
        self._on_error(error)
        _LOG.warning("a pass is tried again in %.1f s: %s", delay, error, extra={"key": str(key)})
        self.add_after(key, delay)
