"""The question about the plan of a running job: its own pods take nothing from it, and pods elsewhere than planned are no case for it."""

from __future__ import annotations

from msgspec.structs import replace

from hyperscale.control.scheduler.evaluated_question import question_as_planned
from hyperscale.control.scheduler.evaluation_queue import WaitingPlan
from hyperscale.evaluate.service.evaluation_frames import EvaluationAsk, part_of
from hyperscale.evaluate.service.evaluation_main import answer
from hyperscale.model.cluster import ClusterSnapshot
from hyperscale.model.evaluation import StageState
from hyperscale.model.planning import PlanRequest
from hyperscale.planner.check.drained_snapshot import emptied_snapshot
from tests.unit.control.preemption_stage import LONG, Scene


def asked(scene: Scene, waiting: WaitingPlan) -> tuple[PlanRequest, ClusterSnapshot] | None:
    whole = scene.cache.snapshot(scene.policy, scene.now)
    question = question_as_planned(scene.cache, scene.planning._request_for, waiting, whole)
    return None if question is None else (question[0], emptied_snapshot(part_of(whole, waiting.plan), question[1]))


async def running() -> tuple[Scene, WaitingPlan]:
    scene = Scene()
    await scene.begin()
    job = scene.reader.plannable(scene.cache.jobs[LONG].resource, scene.cache.policies)
    assert scene.plan is not None
    assert job is not None
    return scene, WaitingPlan(LONG, scene.plan, job, scene.policy, True)


async def test_the_plan_of_a_running_job_is_proved_without_its_own_pods() -> None:
    scene, waiting = await running()
    question = asked(scene, waiting)
    assert question is not None
    request, snapshot = question
    status = answer(EvaluationAsk(waiting.plan, request, snapshot, 200))
    assert {stage.stage: stage.state for stage in status.stages}["proof"] is StageState.PASSED
    as_found = scene.cache.snapshot(scene.policy, scene.now)
    taken = answer(EvaluationAsk(waiting.plan, replace(request, free_gpus={}), part_of(as_found, waiting.plan), 200))
    assert {stage.stage: stage.state for stage in taken.stages}["proof"] is StageState.FAILED


async def test_a_plan_that_the_pods_do_not_follow_is_not_judged() -> None:
    scene, waiting = await running()
    workers = tuple(replace(worker, node="elsewhere") for worker in waiting.plan.workers)
    assert asked(scene, waiting._replace(plan=replace(waiting.plan, workers=workers))) is None
    scene.see_pods(gone=True)
    assert asked(scene, waiting) is None
