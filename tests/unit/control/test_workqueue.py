"""The queue of keys."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

from hyperscale.control.controller.workqueue import RetryLaterError, WorkQueue


async def drained(queue: WorkQueue[str], work: Callable[[str], Awaitable[None]], done: Callable[[], bool]) -> None:
    """Run the queue until `done`."""
    running = asyncio.create_task(queue.run(work))
    async with asyncio.timeout(60):
        while not done():  # noqa: ASYNC110 - what is awaited is a list of the caller's
            await asyncio.sleep(0.005)
    running.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await running


def queue_of(errors: list[BaseException]) -> WorkQueue[str]:
    return WorkQueue(4, errors.append)


async def test_a_key_that_is_waiting_already_is_not_queued_twice() -> None:
    worked: list[str] = []

    async def work(key: str) -> None:
        worked.append(key)

    queue = queue_of([])
    for key in ("a", "a", "b", "a"):
        queue.add(key)
    await drained(queue, work, lambda: len(worked) >= 2)
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

    queue = queue_of([])
    queue.add("a")
    await drained(queue, work, lambda: passes >= 2)
    await asyncio.sleep(0.03)
    assert (passes, most) == (2, 1)


async def test_a_failed_pass_is_tried_again_and_counted() -> None:
    attempts, errors = 0, list[BaseException]()

    async def work(key: str) -> None:
        nonlocal attempts
        attempts += 1
        if attempts < 3:
            raise RetryLaterError("not yet", 0.0)

    queue = queue_of(errors)
    queue.add("a")
    await drained(queue, work, lambda: attempts == 3)
    assert len(errors) == 2


async def test_one_jobs_unexpected_fault_does_not_stop_the_others() -> None:
    worked: list[str] = []

    async def work(key: str) -> None:
        if key == "bad":
            raise ZeroDivisionError
        worked.append(key)

    errors: list[BaseException] = []
    queue = queue_of(errors)
    for key in ("bad", "good", "better"):
        queue.add(key)
    await drained(queue, work, lambda: len(worked) == 2 and bool(errors))
    assert isinstance(errors[0], ZeroDivisionError)


async def test_the_earlier_of_two_appointments_stays() -> None:
    worked: list[str] = []

    async def work(key: str) -> None:
        worked.append(key)

    queue = queue_of([])
    queue.add_after("a", 0.01)
    queue.add_after("a", 3600.0)
    await drained(queue, work, lambda: bool(worked))
    assert worked == ["a"]


async def test_events_do_not_bring_an_attempt_forward_that_the_server_asked_to_delay() -> None:
    attempts = 0

    async def work(key: str) -> None:
        nonlocal attempts
        if key == "a":
            attempts += 1
            raise RetryLaterError("429", 30.0)

    queue = queue_of([])
    queue.add("a")
    await drained(queue, work, lambda: attempts == 1)
    for _ in range(50):
        queue.add("a")
        queue.add_later("a")
        queue.add_after("a", 0.0)
        await drained(queue, work, lambda: queue.idle)
    assert attempts == 1


async def test_a_key_that_is_gone_and_comes_back_is_not_held_up() -> None:
    attempts = 0

    async def work(key: str) -> None:
        nonlocal attempts
        attempts += 1
        if attempts == 1:
            raise RetryLaterError("429", 30.0)

    queue = queue_of([])
    queue.add("a")
    await drained(queue, work, lambda: attempts == 1)
    queue.forget("a")
    queue.add("a")
    await drained(queue, work, lambda: attempts == 2)


async def test_what_can_wait_comes_after_what_cannot() -> None:
    worked: list[str] = []

    async def work(key: str) -> None:
        worked.append(key)

    queue: WorkQueue[str] = WorkQueue(1, lambda error: None)
    for key in ("waits", "both"):
        queue.add_later(key)
    for key in ("now", "both"):
        queue.add(key)
    await drained(queue, work, lambda: queue.idle)
    assert worked == ["now", "both", "waits"]


async def test_what_can_wait_has_its_turn_while_others_keep_coming() -> None:
    worked: list[str] = []
    queue: WorkQueue[str]

    async def work(key: str) -> None:
        worked.append(key)
        if key != "waits" and "waits" not in worked:
            queue.add(f"{len(worked)}")

    queue = WorkQueue(1, lambda error: None)
    queue.add_later("waits")
    queue.add("first")
    await drained(queue, work, lambda: "waits" in worked)
    assert len(worked) <= 10
