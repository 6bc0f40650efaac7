"""Plans that wait for a person and those of running jobs are evaluated, once each, and nothing waits for it.

Longer than other modules: one stage of plans and evaluators, in the order of a plan's life.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace

from hyperscale.control.cache.cluster_cache import ClusterCache
from hyperscale.control.cache.records import Key
from hyperscale.control.decide.chain import decide
from hyperscale.control.scheduler.control_context import ControlContext
from hyperscale.control.scheduler.evaluation_queue import MAX_WAITING_EACH, WaitingPlan
from hyperscale.control.scheduler.plan_evaluation import FUTURES, MIN_FUTURES, PlanEvaluator, evaluation_key
from hyperscale.control.specs.parsed_specs import JobReader
from hyperscale.control.status.conditions import derive
from hyperscale.control.telemetry.metrics import Telemetry
from hyperscale.evaluate.impact.queue_figures import QueueFigures
from hyperscale.evaluate.service.evaluation_frames import EvaluationAsk
from hyperscale.evaluate.service.evaluation_process import EvaluationError
from hyperscale.model.admission_query import Claim
from hyperscale.model.api.evaluation_policy import EvaluationPolicy
from hyperscale.model.api.policy import PolicySpec
from hyperscale.model.cluster import ClusterSnapshot
from hyperscale.model.constants import PREVIEW_LABEL
from hyperscale.model.evaluation import EvaluationStatus, Interval, StageState, StageSummary
from hyperscale.model.meta import JobMetadata
from hyperscale.model.observed.owned_objects import MpiJobView
from hyperscale.model.planning import PlanRequest
from hyperscale.model.status import JobStatus, read_status, to_wire
from tests.builders.seen import UID, job_spec, mpijob, plan, seen

KEY = Key("team", "cora")
MANUAL = job_spec(startPolicy="Manual")
TWO = plan("node-a", "node-b")
BUILT_IN = EvaluationPolicy()
PREVIEW = JobMetadata(namespace="team", name="cora", uid=UID, generation=1, labels={PREVIEW_LABEL: "true"})
RUNNING = mpijob(conditions={"Running": (True, "", "")})
OTHER = plan("node-a", "node-c", plan_id="fedcba9876543210")


def found(plan_id: str = TWO.plan_id, state: StageState = StageState.PASSED, **fields: Any) -> EvaluationStatus:
    return EvaluationStatus(plan_id, (StageSummary("proof", state, 1.0),), **fields)


class Answers:
    """Answers as told, and keeps the questions."""

    def __init__(self, *answers: EvaluationStatus | Exception) -> None:
        self.answers, self.asked = list(answers), list[EvaluationAsk]()

    async def evaluate(self, ask: EvaluationAsk) -> EvaluationStatus:
        self.asked.append(ask)
        given = self.answers.pop(0) if self.answers else found(ask.plan.plan_id)
        if isinstance(given, Exception):
            raise given
        return given


class Stage:
    """An evaluator whose jobs are looked at one by one."""

    def __init__(self, *answers: EvaluationStatus | Exception) -> None:
        self.woken: list[Key] = []
        self.answers = Answers(*answers)
        self.context = ControlContext(ClusterCache(), JobReader(), Telemetry(), lambda: 1_800_000_000.0, self.woken.append)
        self.evaluator = PlanEvaluator(self.context, self.answers, self.question, lambda *_: QueueFigures(2, 8))
        self.as_planned = True

    def question(self, waiting: WaitingPlan, snapshot: ClusterSnapshot) -> tuple[PlanRequest, dict[str, Claim]] | None:
        return (PlanRequest(str(waiting.key), waiting.job), {}) if self.as_planned else None

    def look(self, key: Key = KEY, **changes: Any) -> None:
        """One reconcile's look at the job."""
        state = seen(**{"job": MANUAL, "plan": TWO, "plan_recorded": True, **changes})
        self.evaluator.consider(key, state, PolicySpec())

    async def work(self) -> None:
        """Let the evaluator work until nothing is due."""
        idle, pause = asyncio.Event(), self.evaluator._pause

        async def paused() -> None:
            idle.set()
            await pause()

        self.evaluator._pause = paused  # type: ignore[method-assign] # tells when nothing is due
        working = asyncio.create_task(self.evaluator.run())
        await asyncio.wait_for(idle.wait(), 60.0)
        working.cancel()
        self.evaluator._pause = pause  # type: ignore[method-assign] # as before

    async def consider(self, **changes: Any) -> None:
        """Both."""
        self.look(**changes)
        await self.work()


async def test_a_plan_that_waits_for_a_person_is_evaluated_once() -> None:
    stage = Stage()
    await stage.consider()
    await stage.consider()
    assert [ask.plan.plan_id for ask in stage.answers.asked] == [TWO.plan_id]
    assert stage.evaluator.view(KEY) == found(key=evaluation_key(TWO, MANUAL, BUILT_IN))
    assert stage.woken == [KEY]


async def test_a_job_that_starts_by_itself_is_asked_about_when_it_runs_and_once() -> None:
    stage = Stage()
    await stage.consider(job=job_spec())
    await stage.consider(job=job_spec(), mpijob=mpijob())
    await stage.consider(plan=None)
    assert stage.answers.asked == []
    await stage.consider(job=job_spec(), mpijob=RUNNING)
    await stage.consider(job=job_spec(), mpijob=RUNNING)
    assert [ask.plan.plan_id for ask in stage.answers.asked] == [TWO.plan_id]


async def test_the_answer_before_the_start_is_that_of_the_run() -> None:
    stage = Stage()
    await stage.consider()
    await stage.consider(mpijob=RUNNING)
    await stage.consider(mpijob=RUNNING, status=JobStatus(evaluation=stage.evaluator.view(KEY)))
    assert len(stage.answers.asked) == 1


async def test_previews_and_runs_that_are_over_moved_or_of_others_are_not_asked_about() -> None:
    stage = Stage()
    await stage.consider(metadata=PREVIEW)
    await stage.consider(metadata=PREVIEW, mpijob=RUNNING)
    await stage.consider(mpijob=replace(RUNNING, owner_uid="another"))
    await stage.consider(mpijob=replace(RUNNING, suspended=True))
    await stage.consider(mpijob=replace(RUNNING, deleting=True))
    assert stage.answers.asked == []


async def test_a_job_whose_pods_are_not_as_planned_is_asked_about_again_later() -> None:
    stage = Stage()
    stage.as_planned = False
    await stage.consider(mpijob=RUNNING)
    assert (stage.answers.asked, stage.evaluator.view(KEY)) == ([], None)
    stage.as_planned = True
    stage.evaluator._rest_until = 0.0
    await stage.consider(mpijob=RUNNING)
    assert len(stage.answers.asked) == 1


async def test_running_jobs_wait_while_planners_work_and_people_do_not() -> None:
    stage = Stage()
    async with stage.context.planner_lock:
        stage.look(Key("team", "runs"), mpijob=RUNNING)
        await stage.consider()
        assert [ask.request.job_key for ask in stage.answers.asked] == [str(KEY)]
    await stage.work()
    assert [ask.request.job_key for ask in stage.answers.asked] == [str(KEY), "team/runs"]


async def test_between_running_jobs_the_evaluator_rests() -> None:
    stage = Stage()
    stage.look(Key("team", "a"), mpijob=RUNNING)
    stage.look(Key("team", "b"), mpijob=RUNNING)
    stage.evaluator._rest_until = asyncio.get_running_loop().time() + 3600.0
    await stage.consider()
    assert [ask.request.job_key for ask in stage.answers.asked] == [str(KEY)]


@pytest.mark.parametrize("view", [None, RUNNING], ids=["waits", "runs"])
async def test_an_evaluation_that_hangs_holds_up_no_look_no_planner_and_no_decision(view: MpiJobView | None) -> None:
    stage = Stage()
    begun = asyncio.Event()

    async def hang(ask: EvaluationAsk) -> EvaluationStatus:
        begun.set()
        await asyncio.Event().wait()
        raise EvaluationError("unreachable")

    stage.answers.evaluate = hang  # type: ignore[method-assign] # an evaluation that never answers
    stage.look(mpijob=view)
    working = asyncio.create_task(stage.evaluator.run())
    await asyncio.wait_for(begun.wait(), 10.0)
    for number in range(20):
        stage.look(Key("team", str(number)))
    assert not stage.context.planner_lock.locked()
    assert (stage.evaluator.view(KEY), stage.woken) == (None, [])
    asked = seen(job_spec(), plan=TWO, evaluation=stage.evaluator.view(KEY))
    assert decide(asked) == decide(seen(job_spec(), plan=TWO, evaluation=found()))
    working.cancel()


async def test_a_namespace_that_asks_too_much_is_told_so_and_keeps_no_other_waiting() -> None:
    stage = Stage()
    for number in range(MAX_WAITING_EACH + 1):
        stage.look(Key("many", str(number)))
    stage.look(KEY)
    skipped = stage.evaluator.view(Key("many", str(MAX_WAITING_EACH)))
    assert skipped is not None
    assert skipped.fault.startswith("EvaluatorBusy: ")
    stage.look(Key("many", str(MAX_WAITING_EACH)))
    assert stage.evaluator.view(Key("many", str(MAX_WAITING_EACH))) is skipped
    await stage.work()
    asked = [ask.request.job_key for ask in stage.answers.asked]
    assert str(KEY) in asked[:2]
    stage.look(Key("many", str(MAX_WAITING_EACH)))
    await stage.work()
    after = stage.evaluator.view(Key("many", str(MAX_WAITING_EACH)))
    assert after is None or not after.fault or after is skipped


async def test_the_more_plans_wait_the_fewer_futures_are_played() -> None:
    stage = Stage()
    for number in range(60):
        stage.look(Key("team", str(number)))
    await stage.work()
    futures = [ask.futures for ask in stage.answers.asked]
    assert futures == sorted(futures)
    assert futures[0] < FUTURES
    assert min(futures) >= MIN_FUTURES


async def test_another_policy_on_failures_is_evaluated_again() -> None:
    stage = Stage()
    await stage.consider()
    state = seen(MANUAL, plan=TWO)
    stage.evaluator.consider(KEY, state, PolicySpec(evaluation=EvaluationPolicy(repair_seconds=1)))
    await stage.work()
    assert [ask.policy.evaluation.repair_seconds for ask in stage.answers.asked] == [None, 1]


async def test_after_a_restart_the_status_says_what_was_found() -> None:
    stage = Stage()
    before = JobStatus(evaluation=found(key=evaluation_key(TWO, MANUAL, BUILT_IN)))
    await stage.consider(status=before)
    assert stage.answers.asked == []
    await stage.consider(status=before, plan=OTHER)
    assert [ask.plan.plan_id for ask in stage.answers.asked] == [OTHER.plan_id]


async def test_another_deadline_or_checkpoint_is_evaluated_again_though_the_plan_is_the_same() -> None:
    stage = Stage()
    await stage.consider()
    await stage.consider(job=job_spec(startPolicy="Manual", checkpoint={"claimName": "kept"}))
    await stage.consider(job=job_spec(startPolicy="Manual", runPolicy={"activeDeadlineSeconds": 60}))
    assert [ask.plan.plan_id for ask in stage.answers.asked] == [TWO.plan_id] * 3


ERRORS = [
    EvaluationError("no answer within 30 s"),
    ValueError("no nodes"),
    RecursionError("deep"),
    MemoryError(),
    KeyError(),
    OSError("\x1b[2J"),
]


@pytest.mark.parametrize("view", [None, RUNNING], ids=["waits", "runs"])
@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
async def test_a_failure_is_told_and_ends_nothing(error: Exception, view: MpiJobView | None) -> None:
    stage = Stage(error)
    await stage.consider(mpijob=view)
    failed = stage.evaluator.view(KEY)
    assert failed is not None
    assert failed.fault
    assert failed.fault.isprintable()
    await stage.consider(plan=OTHER)
    other = stage.evaluator.view(KEY)
    assert other is not None
    assert (other.plan_id, other.fault) == (OTHER.plan_id, "")


async def tried(stage: Stage) -> list[float]:
    """Let the job be looked at whenever it is woken, without waiting; the delays that were asked for."""
    loop = asyncio.get_running_loop()
    delays: list[float] = []

    def call_later(delay: float, call: Any, *arguments: Any, **_: Any) -> asyncio.Handle:
        delays.append(delay)
        return loop.call_soon(call, *arguments)

    stage.evaluator._later = call_later  # the clock does not decide
    for _ in range(10):
        await stage.consider()
    return delays


async def test_a_failure_is_tried_again_with_growing_rests_and_not_for_ever() -> None:
    stage = Stage(*[EvaluationError("ended with -9")] * 9)
    assert await tried(stage) == [30.0, 60.0, 120.0, 240.0]
    assert len(stage.answers.asked) == 5
    failed = stage.evaluator.view(KEY)
    assert failed is not None
    assert failed.fault == "ended with -9"
    assert stage.woken == [KEY] * 5, "once for the fault, once for each further try, and not for the same fault again"


async def test_a_failure_that_passes_is_forgotten_and_one_that_cannot_pass_is_not_tried_again() -> None:
    passes = Stage(EvaluationError("no answer within 30 s"))
    assert await tried(passes) == [30.0]
    view = passes.evaluator.view(KEY)
    assert view is not None
    assert (view.fault, len(passes.answers.asked)) == ("", 2)
    for named in ("QuestionTooLarge: 2000 nodes", "TooManyFailures: 1e9"):
        certain = Stage(EvaluationError(named))
        assert await tried(certain) == []
        assert len(certain.answers.asked) == 1


async def test_another_plan_is_not_disturbed_by_the_try_of_the_one_before() -> None:
    stage = Stage(EvaluationError("killed"))
    calls: list[Any] = []
    stage.evaluator._later = lambda _, call, *arguments: calls.append((call, arguments))
    await stage.consider()
    await stage.consider(plan=OTHER)
    ((call, arguments),) = calls
    call(*arguments)
    await stage.consider(plan=OTHER)
    assert [ask.plan.plan_id for ask in stage.answers.asked] == [TWO.plan_id, OTHER.plan_id]


async def test_what_failed_before_a_restart_is_tried_again() -> None:
    stage = Stage()
    await stage.consider(
        status=JobStatus(evaluation=EvaluationStatus(TWO.plan_id, key=evaluation_key(TWO, MANUAL, BUILT_IN), fault="killed"))
    )
    assert len(stage.answers.asked) == 1


async def test_an_answer_about_another_plan_is_none() -> None:
    stage = Stage(found("0" * 16))
    await stage.consider()
    view = stage.evaluator.view(KEY)
    assert view is not None
    assert (view.plan_id, view.fault) == (TWO.plan_id, "answered about another plan")


async def test_a_job_that_is_gone_is_forgotten_and_not_woken() -> None:
    stage = Stage()
    stage.look()
    stage.evaluator.forget(KEY)
    await stage.work()
    assert (stage.answers.asked, stage.woken) == ([], [])


def condition_of(**changes: Any) -> tuple[str, str, str] | None:
    state = seen(**{"job": MANUAL, "plan": TWO, **changes})
    status = derive(state, decide(state))
    one = status.condition("Evaluated")
    return None if one is None else (one.status, one.reason, one.message)


def with_answer(answer: EvaluationStatus) -> dict[str, Any]:
    return {"status": JobStatus(evaluation=answer)}


def test_the_condition_says_first_what_people_ask() -> None:
    sure = found(deadline_seconds=3600.0, ends_by_deadline=Interval(0.98, 0.97, 0.99), end_seconds=Interval(60.0, 50.0, 90.0))
    said = condition_of(**with_answer(sure))
    assert said is not None
    assert said[:2] == ("True", "NoRisksFound")
    assert said[2] == "98.0 % of the futures end within 60 min; takes 60 s (50 s to 90 s)"


def test_the_condition_is_false_for_a_refuted_plan_and_unknown_without_an_answer() -> None:
    assert condition_of(**with_answer(found(state=StageState.FAILED, top_risk="proof: broken"))) == (
        "False",
        "PlanRefuted",
        "proof: broken",
    )
    assert condition_of(**with_answer(found(state=StageState.WARNED, top_risk="twin: late"))) == ("True", "RisksFound", "twin: late")
    assert condition_of(**with_answer(EvaluationStatus(TWO.plan_id, fault="killed"))) == ("Unknown", "EvaluationFailed", "killed")
    busy = "EvaluatorBusy: too many plans wait"
    assert condition_of(**with_answer(EvaluationStatus(TWO.plan_id, fault=busy))) == ("Unknown", "EvaluatorBusy", busy)
    assert condition_of(**with_answer(EvaluationStatus(TWO.plan_id))) == ("Unknown", "EvaluationFailed", "")
    assert condition_of() is None


def test_what_was_found_about_another_plan_is_void() -> None:
    assert condition_of(**with_answer(found(OTHER.plan_id))) is None


def test_the_status_survives_the_api_server() -> None:
    status = JobStatus(evaluation=found(end_seconds=Interval(1.0, 0.5, 2.0), top_risk="twin: late"), plan=TWO)
    assert read_status(to_wire(status)).evaluation == replace(status).evaluation


async def test_the_question_says_who_runs_and_who_waits() -> None:
    stage = Stage()
    await stage.consider()
    assert [ask.queue for ask in stage.answers.asked] == [QueueFigures(2, 8)]
