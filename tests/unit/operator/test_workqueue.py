"""The queue of keys."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

from hyperscale.workqueue import RetryLaterError, WorkQueue


async def drained(queue: WorkQueue[str], done: Callable[[], bool]) -> None:
    """Run the queue until `done`."""
    running = asyncio.create_task(queue.run())
    async with asyncio.timeout(10):
        while not done():  # noqa: ASYNC110 - what is awaited is somebody else's list
            await asyncio.sleep(0.005)
    running.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await running


def queue_of(work: Callable[[str], Awaitable[None]], errors: list[BaseException]) -> WorkQueue[str]:
    return WorkQueue(work, 4, errors.append)


async def test_a_key_that_is_waiting_already_is_not_queued_twice() -> None:
    worked: list[str] = []

    async def work(key: str) -> None:
        worked.append(key)

    queue = queue_of(work, [])
    for key in ("a", "a", "b", "a"):
        queue.add(key)
    await drained(queue, lambda: len(worked) >= 2)
    assert worked == ["a", "b"]


async def test_a_key_that_arrives_while_it_is_worked_on_is_worked_on_again_and_never_twice_at_once() -> None:
    passes, at_once, most = 0, 0, 0

    async def work(key: str) -> None:
        nonlocal passes, at_once, most
        at_once += 1
        most = max(most, at_once)
        if passes == 0:
            queue.add(key)
            queue.add(key)
        await asyncio.sleep(0.01)
        passes += 1
        at_once -= 1

    queue = queue_of(work, [])
    queue.add("a")
    await drained(queue, lambda: passes >= 2)
    await asyncio.sleep(0.03)
    assert (passes, most) == (2, 1)


async def test_a_failed_pass_is_tried_again_and_counted() -> None:
    attempts, errors = 0, list[BaseException]()

    async def work(key: str) -> None:
        nonlocal attempts
        attempts += 1
        if attempts < 3:
            raise RetryLaterError("not yet", 0.0)

    queue = queue_of(work, errors)
    queue.add("a")
    await drained(queue, lambda: attempts == 3)
    assert len(errors) == 2


async def test_one_jobs_unexpected_fault_does_not_stop_the_others() -> None:
    worked: list[str] = []

    async def work(key: str) -> None:
        if key == "bad":
            raise ZeroDivisionError
        worked.append(key)

    errors: list[BaseException] = []
    queue = queue_of(work, errors)
    for key in ("bad", "good", "better"):
        queue.add(key)
    await drained(queue, lambda: len(worked) == 2 and bool(errors))
    assert isinstance(errors[0], ZeroDivisionError)


async def test_the_earlier_of_two_appointments_stays() -> None:
    worked: list[str] = []

    async def work(key: str) -> None:
        worked.append(key)

    queue = queue_of(work, [])
    queue.add_after("a", 0.01)
    queue.add_after("a", 3600.0)
    await drained(queue, lambda: bool(worked))
    assert worked == ["a"]
