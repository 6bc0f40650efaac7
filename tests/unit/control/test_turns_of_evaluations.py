"""Plans of running jobs are evaluated though plans that wait for a person never end."""

from __future__ import annotations

import asyncio
from typing import Any

from hyperscale.control.cache.records import Key
from hyperscale.control.scheduler.plan_evaluation import MOST_AWAITED
from hyperscale.evaluate.service.evaluation_frames import EvaluationAsk
from tests.builders.seen import job_spec
from tests.unit.control.test_plan_evaluation import RUNNING, Stage

EDITED, RUNS = Key("one", "edited"), Key("another", "runs")


async def test_edits_of_one_job_do_not_hold_up_running_jobs_of_others() -> None:
    stage, asked, enough = Stage(), list[str](), asyncio.Event()
    answer = stage.answers.evaluate

    async def evaluate(ask: EvaluationAsk) -> Any:
        asked.append(ask.request.job_key)
        if len(asked) == 3 * MOST_AWAITED:
            enough.set()
        if not enough.is_set():
            stage.look(EDITED, job=job_spec(startPolicy="Manual", runPolicy={"activeDeadlineSeconds": 1000 + len(asked)}))
        return await answer(ask)

    stage.answers.evaluate = evaluate  # type: ignore[method-assign] # edits while an evaluation runs
    stage.look(EDITED)
    stage.look(RUNS, job=job_spec(), mpijob=RUNNING)
    working = asyncio.create_task(stage.evaluator.run())
    await asyncio.wait_for(enough.wait(), 60.0)
    working.cancel()
    assert asked.index(str(RUNS)) == MOST_AWAITED
    assert stage.evaluator.view(RUNS) is not None


async def test_while_somebody_waits_for_a_plan_no_running_job_goes_first() -> None:
    stage, asked, enough = Stage(), list[str](), asyncio.Event()
    answer = stage.answers.evaluate

    async def evaluate(ask: EvaluationAsk) -> Any:
        asked.append(ask.request.job_key)
        if len(asked) == 2 * MOST_AWAITED:
            enough.set()
        stage.look(EDITED, job=job_spec(startPolicy="Manual", runPolicy={"activeDeadlineSeconds": 1000 + len(asked)}))
        return await answer(ask)

    stage.answers.evaluate = evaluate  # type: ignore[method-assign] # edits while an evaluation runs
    stage.look(EDITED)
    stage.look(RUNS, job=job_spec(), mpijob=RUNNING)
    async with stage.context.planner_lock:
        working = asyncio.create_task(stage.evaluator.run())
        await asyncio.wait_for(enough.wait(), 60.0)
        working.cancel()
    assert set(asked) == {str(EDITED)}
