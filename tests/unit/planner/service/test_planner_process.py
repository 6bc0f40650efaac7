from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import msgspec
import pytest
import pytest_asyncio

from hyperscale.model.api.policy import PolicySpec
from hyperscale.model.plan import Infeasible, Plan
from hyperscale.planner.service.process import ENVIRONMENT, PlannerProcess
from tests.builders.placement import cluster, node, plan, request

ROOT = Path(__file__).resolve().parents[4]
FAKE = Path(__file__).with_name("fake_planner.py")
POLICY = PolicySpec()
SNAPSHOT = cluster(node("node-a"), node("node-b"))
LONG_SECONDS = 60.0
"""For answers that come: no machine is so slow."""
SHORT_SECONDS = 0.05
"""For answers that never come."""

Make = Callable[..., PlannerProcess]


@pytest_asyncio.fixture
async def make() -> AsyncIterator[Make]:
    made: list[PlannerProcess] = []

    def fake(behaviour: str, *, marker: Path | None = None, start_seconds: float = LONG_SECONDS) -> PlannerProcess:
        command = (sys.executable, str(FAKE), behaviour, *((str(marker),) if marker is not None else ()))
        environment = dict(ENVIRONMENT) | {"PYTHONPATH": str(ROOT)}
        made.append(PlannerProcess(command, environment=environment, grace_seconds=0, start_seconds=start_seconds))
        return made[-1]

    yield fake
    for process in made:
        await process.stop()


async def planned(process: PlannerProcess, seconds: float = LONG_SECONDS) -> Plan | Infeasible:
    return await process.plan(request(deadline_seconds=seconds), SNAPSHOT, POLICY)


def kill_unnoticed(pid: int) -> None:
    """Without a turn of the event loop, which has not been told when this returns."""
    os.kill(pid, signal.SIGKILL)
    with contextlib.suppress(ChildProcessError):  # its watcher's thread was faster, and only the loop does not know
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)


async def test_a_good_plan_comes_through(make: Make) -> None:
    assert await planned(make("good")) == plan("node-a", "node-b")


@pytest.mark.parametrize(
    ("behaviour", "fallback"),
    [
        ("crash", "PlannerCrashed"),
        ("garbage", "PlannerCrashed"),
        ("nonsense", "PlannerCrashed"),
        ("endless", "PlannerCrashed"),
        ("trouble", "PlannerCrashed"),
        ("other-question", "PlannerCrashed"),
        ("ready-again", "PlannerCrashed"),
        ("infeasible-plan", "PlanRejected"),
    ],
)
async def test_when_a_planner_fails_the_heuristic_answers_and_the_plan_says_so(make: Make, behaviour: str, fallback: str) -> None:
    found = await planned(make(f"{behaviour}-if-Auto"))
    assert isinstance(found, Plan)
    assert found.fallbacks == (fallback,)
    assert found.workers == plan("node-a", "node-b").workers


async def test_a_planner_that_says_in_time_that_it_had_none_is_no_crashed_one_and_goes_on(make: Make) -> None:
    process = make("late-if-Auto")
    await process.start()
    first = process.pid
    found = await planned(process)
    assert isinstance(found, Plan)
    assert found.fallbacks == ("PlannerTimeout",)
    assert process.pid == first


async def test_a_planner_that_ended_unnoticed_is_replaced_before_it_is_asked(make: Make) -> None:
    process = make("good")
    await process.start()
    ended = process.pid
    assert ended is not None
    kill_unnoticed(ended)
    assert await planned(process) == plan("node-a", "node-b")
    assert process.pid != ended


async def test_a_planner_that_hangs_is_killed_at_its_deadline(make: Make) -> None:
    process = make("hang")
    await process.start()
    first = process.pid
    assert first is not None
    found = await planned(process, SHORT_SECONDS)
    assert isinstance(found, Infeasible)
    assert found.reason == "PlannerFailed"
    assert "PlannerTimeout, PlannerTimeout" in found.message
    with pytest.raises(ProcessLookupError):
        os.kill(first, 0)


async def test_after_a_deadline_the_heuristic_is_asked(make: Make) -> None:
    found = await planned(make("hang-if-Auto"), seconds=2.0)
    assert isinstance(found, Plan)
    assert found.fallbacks == ("PlannerTimeout",)


async def test_the_second_time_the_search_has_less_time_so_that_the_rest_ends_before_the_deadline(make: Make) -> None:
    """Asked again with the same time, a job of 1,000 workers ran into the same end twice."""
    found = await planned(make("slow"), seconds=2.0)
    assert isinstance(found, Plan)
    assert found.fallbacks == ("PlannerTimeout",)


async def test_when_nobody_answers_there_is_one_sentence_with_the_last_words(make: Make) -> None:
    found = await planned(make("crash"))
    assert isinstance(found, Infeasible)
    assert found.message == (
        "no planner gave a usable answer (PlannerCrashed, PlannerCrashed): the planner ended without an answer: ValueError: bad luck"
    )


async def test_a_planner_that_does_not_start_is_a_failure_and_no_exception(make: Make) -> None:
    slow = make("never-ready", start_seconds=SHORT_SECONDS)
    await slow.start()
    missing = PlannerProcess(("/nowhere/planner",))
    await missing.start()
    for process in (slow, missing):
        found = await planned(process)
        assert isinstance(found, Infeasible)
        assert found.reason == "PlannerFailed"
        assert process.pid is None


async def test_a_planner_that_died_between_two_questions_is_started_anew(make: Make) -> None:
    process = make("good")
    await process.start()
    first = process.pid
    assert first is not None
    os.kill(first, signal.SIGKILL)
    assert isinstance(await planned(process), Plan)
    assert process.pid not in (None, first)


async def test_a_cancelled_question_does_not_answer_the_next_one(make: Make, tmp_path: Path) -> None:
    marker = tmp_path / "asked"
    process = make("hang", marker=marker)
    task = asyncio.ensure_future(planned(process))
    await asyncio.to_thread(_wait_until, marker.exists)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await planned(process) == plan("node-a", "node-b")


async def test_questions_wait_for_each_other_and_all_are_answered(make: Make) -> None:
    process = make("good")
    found = await asyncio.gather(*(planned(process) for _ in range(20)))
    assert found == [plan("node-a", "node-b")] * 20


async def test_one_snapshot_is_sent_once_for_all_questions(make: Make) -> None:
    process = make("worlds")

    async def sent(snapshot: object = SNAPSHOT, policy: PolicySpec = POLICY) -> str:
        assert isinstance(snapshot, type(SNAPSHOT))
        found = await process.plan(request(deadline_seconds=LONG_SECONDS), snapshot, policy)
        assert isinstance(found, Infeasible)
        return found.message

    assert [await sent(), await sent()] == ["1", "1"]
    assert await sent(cluster(node("node-a"), node("node-b"))) == "1"
    assert await sent(policy=PolicySpec(seed=1)) == "2"
    assert await sent(cluster(node("node-a"))) == "3"
    assert [await sent(), await sent(policy=PolicySpec(seed=1))] == ["3", "3"]
    for seed in range(2, 5):
        await sent(policy=PolicySpec(seed=seed))
    assert await sent() == "7"


async def test_the_planner_sees_nothing_of_the_operators_environment(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_PASSWORD", "x")
    found = await planned(make("environment"))
    assert isinstance(found, Infeasible)
    assert "DATABASE_PASSWORD" not in found.message
    assert "OMP_NUM_THREADS" in found.message


async def test_a_planner_that_logs_megabytes_is_not_held_up(make: Make) -> None:
    assert await planned(make("noisy")) == plan("node-a", "node-b")


async def test_every_step_down_is_counted() -> None:
    counted: list[str] = []
    process = PlannerProcess(("/nowhere/planner",), on_failure=counted.append)
    await planned(process)
    assert counted == ["PlannerCrashed", "PlannerCrashed"]


async def test_a_snapshot_too_large_to_send_is_a_failure_and_no_exception(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hyperscale.planner.service.frames.MAX_FRAME_BYTES", 100)
    found = await planned(make("good"))
    assert isinstance(found, Infeasible)
    assert "longer than 100" in found.message


async def test_the_real_planner_plans_twice_alike_and_stops() -> None:
    process = PlannerProcess(grace_seconds=LONG_SECONDS, start_seconds=LONG_SECONDS)
    await process.start()
    first, second = [await planned(process) for _ in range(2)]
    assert isinstance(first, Plan)
    assert not any(step.startswith("Planner") for step in first.fallbacks)
    assert msgspec.json.encode(first) == msgspec.json.encode(second)
    await process.stop()
    assert process.pid is None


async def test_the_real_planner_answers_an_impossible_job_with_a_reason() -> None:
    process = PlannerProcess(grace_seconds=LONG_SECONDS, start_seconds=LONG_SECONDS)
    found = await process.plan(request(), cluster(), POLICY)
    await process.stop()
    assert isinstance(found, Infeasible)
    assert found.reason != "PlannerFailed"


async def test_a_planner_without_memory_fails_alone() -> None:
    process = PlannerProcess(memory_bytes=1024, start_seconds=LONG_SECONDS)
    found = await planned(process)
    await process.stop()
    assert isinstance(found, Infeasible)
    assert "PlannerCrashed" in found.message


ORPHAN = """
import asyncio, time
from hyperscale.planner.service.process import PlannerProcess

async def main():
    process = PlannerProcess(start_seconds=60)
    await process.start()
    print(process.pid, flush=True)
    time.sleep(3600)

asyncio.run(main())
"""


async def test_the_planner_dies_with_its_operator() -> None:
    operator = await asyncio.create_subprocess_exec(sys.executable, "-c", ORPHAN, stdout=asyncio.subprocess.PIPE)
    assert operator.stdout is not None
    planner = int(await operator.stdout.readline())
    assert _runs(planner)
    operator.kill()
    await operator.wait()
    await asyncio.to_thread(_wait_until, lambda: not _runs(planner))


def _wait_until(holds: Callable[[], bool]) -> None:
    while not holds():
        time.sleep(0.01)


def _runs(pid: int) -> bool:
    """False also for a zombie that its new parent has not reaped."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
