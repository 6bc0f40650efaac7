"""Decisions about pending jobs through the planner process: real ones come back checked, broken ones as None."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest
import pytest_asyncio

from hyperscale.model.admission_query import AdmissionRequest, AdmissionResult, QueuedJob, Start
from hyperscale.model.api.policy import PolicySpec, QueueOrder, QueuePolicy
from hyperscale.model.planning import PlanRequest
from hyperscale.planner.check.queue_check import unsound
from hyperscale.planner.queue.queue_policies import packaged_agent
from hyperscale.planner.service.process import ENVIRONMENT, PlannerProcess
from tests.builders.clusters import gpu_node, snapshot, training

ROOT = Path(__file__).resolve().parents[4]
SEEN = snapshot(*(gpu_node(f"n{number}", free=2) for number in range(4)))
QUESTION = AdmissionRequest(
    jobs=tuple(
        QueuedJob(
            PlanRequest(job_key=f"team/job-{number}", job=training(workers={"minReplicas": 2, "maxReplicas": 3})),
            waited_seconds=float(number),
        )
        for number in range(4)
    )
)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def planner() -> AsyncIterator[PlannerProcess]:
    process = PlannerProcess(start_seconds=60)
    yield process
    await process.stop()


@pytest.mark.asyncio(loop_scope="module")
async def test_the_planner_process_decides_and_its_answer_is_sound(planner: PlannerProcess) -> None:
    turns = await planner.turns(msgspec.structs.replace(QUESTION, deadline_seconds=60.0), SEEN, PolicySpec())
    assert turns is not None
    assert turns.starts
    assert unsound(turns, QUESTION, SEEN) == ()


@pytest.mark.asyncio(loop_scope="module")
async def test_the_agent_is_asked_where_the_policy_says_so(planner: PlannerProcess) -> None:
    policy = PolicySpec(queue=QueuePolicy(order=QueueOrder.LEARNED))
    turns = await planner.turns(msgspec.structs.replace(QUESTION, deadline_seconds=60.0), SEEN, policy)
    assert turns is not None
    assert turns.score is not None
    if packaged_agent() is None:
        assert turns.fallbacks == ("LearnedQueueUnavailable",)
    else:
        assert turns.score.agent is not None


async def test_a_planner_that_fails_on_it_gives_no_decision_and_is_counted() -> None:
    told: list[str] = []
    fake = (sys.executable, str(Path(__file__).with_name("fake_planner.py")), "good")  # it knows no such question, and ends
    process = PlannerProcess(fake, environment={**ENVIRONMENT, "PYTHONPATH": str(ROOT)}, start_seconds=60, on_failure=told.append)
    try:
        assert await process.turns(QUESTION, SEEN, PolicySpec()) is None
    finally:
        await process.stop()
    assert told == ["QueueRuleFailed"]


async def sound() -> AdmissionResult:
    process = PlannerProcess(start_seconds=60)
    try:
        turns = await process.turns(msgspec.structs.replace(QUESTION, deadline_seconds=60.0), SEEN, PolicySpec())
    finally:
        await process.stop()
    assert turns is not None
    return turns


async def test_an_answer_with_a_fault_is_refused() -> None:
    turns = await sound()
    first, second, *_ = turns.starts
    stranger = msgspec.structs.replace(first, key="team/other")
    twice = Start(second.key, first.plan, second.run_seconds, second.best_seconds)
    faults = {
        "a GPU given twice": msgspec.structs.replace(turns, starts=(first, twice, *turns.starts[2:])),
        "a job forgotten": msgspec.structs.replace(turns, starts=turns.starts[1:]),
        "a job started twice": msgspec.structs.replace(turns, starts=(first, *turns.starts)),
        "a job nobody asked about": msgspec.structs.replace(turns, starts=(*turns.starts, stranger)),
    }
    assert {name for name, answer in faults.items() if not unsound(answer, QUESTION, SEEN)} == set()
