"""Blocking work in a thread of its own that never holds up the end of the process.

`asyncio.to_thread` does: the event loop waits at its end for every thread of its pool, and a query may take a minute.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from functools import partial
from typing import TypeVar

T = TypeVar("T")


async def in_daemon_thread(work: Callable[[], T]) -> T:
    """The outcome of `work`; when the caller is cancelled the thread is left to itself."""
    loop = asyncio.get_running_loop()
    outcome: asyncio.Future[T] = loop.create_future()

    def tell(settle: Callable[[], None]) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: no task waits any more
            loop.call_soon_threadsafe(settle)

    def run() -> None:
        try:
            result = work()
        except Exception as error:  # handed to the caller as it is
            tell(partial(_settle, outcome, partial(outcome.set_exception, error)))
        else:
            tell(partial(_settle, outcome, partial(outcome.set_result, result)))

    threading.Thread(target=run, daemon=True).start()
    return await outcome


def _settle(outcome: asyncio.Future[T], settle: Callable[[], None]) -> None:
    if not outcome.done():
        settle()
