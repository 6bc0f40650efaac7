"""Jobs that wait for one of the services beside the passes: namespaces take turns, and none may fill the queue alone."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, Generic, Protocol, TypeVar

from hyperscale.control.cache.records import Key

MAX_WAITING: Final = 1_000
"""Jobs of all namespaces."""
MAX_WAITING_EACH: Final = 100
"""Jobs of one namespace."""


class WaitingJob(Protocol):
    """What waits: one entry a job."""

    @property
    def key(self) -> Key:
        """Of the job."""
        ...


Waiting = TypeVar("Waiting", bound=WaitingJob)


class NamespaceQueue(Generic[Waiting]):
    """First in, first out within a namespace; the namespaces take turns."""

    def __init__(self, most: int = MAX_WAITING, most_each: int = MAX_WAITING_EACH) -> None:
        """most: jobs of all namespaces together; most_each: of one."""
        self._most, self._most_each = most, most_each
        self._entries: dict[str, dict[Key, Waiting]] = {}
        """By namespace, the one whose turn it is first; none is empty."""
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def put(self, waiting: Waiting) -> tuple[bool, Waiting | None]:
        """Return whether the job waits now, and the one of another namespace that gave way for it.

        A later entry of a job takes the place of the earlier one. Where the queue is full, the last entry of the longest namespace gives
        way to a namespace that has fewer.
        """
        own = self._entries.get(waiting.key.namespace, {})
        if waiting.key in own:
            own[waiting.key] = waiting
            return True, None
        if len(own) >= self._most_each:
            return False, None
        gone = None
        if self._count >= self._most:
            longest = max(self._entries.values(), key=len)
            if len(longest) <= len(own) + 1:
                return False, None
            gone = longest[next(reversed(longest))]
            self.forget(gone.key)
        self._entries.setdefault(waiting.key.namespace, {})[waiting.key] = waiting
        self._count += 1
        return True, gone

    def take(self) -> Waiting | None:
        """Return the oldest entry of the namespace whose turn it is; None where nothing waits."""
        namespace = next(iter(self._entries), None)
        if namespace is None:
            return None
        entries = self._entries.pop(namespace)
        waiting = entries.pop(next(iter(entries)))
        if entries:
            self._entries[namespace] = entries  # behind the others
        self._count -= 1
        return waiting

    def forget(self, key: Key) -> None:
        """Drop the entry of a job, where it waits."""
        entries = self._entries.get(key.namespace, {})
        if entries.pop(key, None) is not None:
            self._count -= 1
            if not entries:
                del self._entries[key.namespace]


class LaterPasses:
    """Passes over jobs that found no place in a queue; one at a time for each job."""

    def __init__(self, wake: Callable[[Key], None]) -> None:
        """wake: asks for a pass now."""
        self._wake = wake
        self._asked: set[Key] = set()

    def ask(self, key: Key, seconds: float) -> None:
        """Ask for a pass over a job after that time, unless one is asked for already."""
        if key not in self._asked:
            self._asked.add(key)
            asyncio.get_running_loop().call_later(seconds, self._due, key)

    def _due(self, key: Key) -> None:
        self._asked.discard(key)
        self._wake(key)
