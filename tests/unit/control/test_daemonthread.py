"""Blocking work beside the event loop."""

from __future__ import annotations

import asyncio
import threading

import pytest

from hyperscale.util.threads import in_daemon_thread


async def test_the_result_comes_back() -> None:
    assert await in_daemon_thread(threading.current_thread) is not threading.current_thread()


async def test_an_error_comes_back_as_it_is() -> None:
    def fail() -> None:
        raise KeyError("missing")

    with pytest.raises(KeyError, match="missing"):
        await in_daemon_thread(fail)


def test_the_end_of_the_loop_does_not_wait_for_work_that_was_given_up() -> None:
    blocked, finished = threading.Event(), threading.Event()

    def work() -> None:
        blocked.wait()
        finished.set()

    async def give_up() -> None:
        waiting = asyncio.create_task(in_daemon_thread(work))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting

    asyncio.run(give_up())
    assert not finished.is_set()
    blocked.set()
    assert finished.wait(10)
