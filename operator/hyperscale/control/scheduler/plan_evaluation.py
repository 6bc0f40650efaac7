"""What is found out about plans, next to everything else: no start waits for it, and a failure is only reported.

Most plans that wait for a person go first. Those of running jobs are evaluated while nothing is planned, for a part of the time.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
from collections.abc import Callable, Mapping
from typing import Final, Protocol

import msgspec
from msgspec.structs import replace

from hyperscale.control.cache.records import Key
from hyperscale.control.lifecycle.stoppable import run_is_over, undisturbed
from hyperscale.control.scheduler.control_context import ControlContext
from hyperscale.control.scheduler.evaluation_queue import EvaluationQueue, WaitingPlan
from hyperscale.evaluate.impact.queue_figures import QueueFigures
from hyperscale.evaluate.service.evaluation_frames import EvaluationAsk, part_of
from hyperscale.evaluate.service.evaluation_process import EvaluationError
from hyperscale.model import constants
from hyperscale.model.admission_query import Claim
from hyperscale.model.api.evaluation_policy import EvaluationPolicy
from hyperscale.model.api.job import JobSpec, StartPolicy
from hyperscale.model.api.policy import PolicySpec
from hyperscale.model.cluster import ClusterSnapshot
from hyperscale.model.evaluation import EVALUATOR_BUSY, QUESTION_TOO_LARGE, TOO_MANY_FAILURES, EvaluationStatus, StageState
from hyperscale.model.observed.reconcile_input import ReconcileInput
from hyperscale.model.plan import Plan
from hyperscale.model.planning import PlanRequest
from hyperscale.planner.check.drained_snapshot import emptied_snapshot
from hyperscale.util.threads import in_daemon_thread

_LOG = logging.getLogger(__name__)

FUTURES: Final = 10_000
MIN_FUTURES: Final = 1_000
CROWD: Final = 10
"""Plans that wait for each halving of the futures, a third, a quarter and so on."""
MOST_AWAITED: Final = 8
"""Plans that wait for a person, evaluated in a row while one of a running job may be."""
REST_FACTOR: Final = 4.0
"""Rest after the plan of a running job, in lengths of its evaluation: at most a fifth of one core."""
BUSY_SECONDS: Final = 1.0
"""Between two looks whether the planners are idle."""
MAX_FAULT: Final = 512
MAX_TRIES: Final = 5
"""Of one plan whose evaluation fails."""
RETRY_SECONDS: Final = 30.0
"""Before the second try; doubled before each further one."""
CERTAIN: Final = (QUESTION_TOO_LARGE, TOO_MANY_FAILURES)
"""Faults of the question itself: it fails again."""
KEY_DIGITS: Final = 16
_ENCODER: Final = msgspec.json.Encoder(order="deterministic")

PutQuestion = Callable[[WaitingPlan, ClusterSnapshot], "tuple[PlanRequest, Mapping[str, Claim]] | None"]
"""The planners' question about the job without its pods, and what these claim; None where they are not as planned."""
TellQueue = Callable[[Key, PolicySpec, ClusterSnapshot], QueueFigures | None]
"""Who runs and who waits beside the job; None where that is not known."""


class Evaluations(Protocol):
    """The component that answers; in the operator a process for each question."""

    async def evaluate(self, ask: EvaluationAsk) -> EvaluationStatus:
        """The answer; raises EvaluationError within a hard deadline."""
        ...


class PlanEvaluator:
    """Evaluates one plan after the other; each plan once."""

    def __init__(self, context: ControlContext, evaluations: Evaluations, question: PutQuestion, queue: TellQueue) -> None:
        """question: what the planners would be asked about the job now."""
        self._cache, self._telemetry, self._clock, self._wake = context.cache, context.telemetry, context.clock, context.wake
        self._reader = context.reader
        self._planner_lock = context.planner_lock
        self._evaluations = evaluations
        self._question, self._queue = question, queue
        self._asked: dict[Key, str] = {}
        """Key of the plan and spec that were asked about last."""
        self._failed: dict[Key, tuple[str, int]] = {}
        """What failed last, and how often."""
        self._results: dict[Key, EvaluationStatus] = {}
        self._awaited, self._running = EvaluationQueue(), EvaluationQueue()
        """Plans that wait for a person, and those of running jobs."""
        self._awaited_in_a_row = 0
        self._arrived = asyncio.Event()
        self._later: Callable[..., object] = lambda delay, *call: asyncio.get_running_loop().call_later(delay, *call)
        self._rest_until = 0.0
        """Time of the event loop before which no plan of a running job is evaluated."""

    def view(self, key: Key) -> EvaluationStatus | None:
        """What was found out since the operator started; None where what the status says stays."""
        return self._results.get(key)

    def consider(self, key: Key, state: ReconcileInput, policy: PolicySpec) -> None:
        """Ask about the plan in force, once: where a person decides on it, and of a job that runs."""
        plan, job = state.plan.in_force, state.job.parsed
        if plan is None or job is None or not _may_ask(state, job):
            return
        wanted, recorded = evaluation_key(plan, job, policy.evaluation), state.job.status.evaluation
        was_answered = recorded is not None and not recorded.fault and recorded.key == wanted
        if self._asked.get(key) == wanted or was_answered:
            return
        running = state.gang.mpijob is not None
        self._awaited.forget(key)
        self._running.forget(key)
        waits, gone = (self._running if running else self._awaited).put(WaitingPlan(key, plan, job, policy, running))
        if gone is not None:
            self._asked.pop(gone.key, None)
        if waits:
            self._asked[key] = wanted
            self._arrived.set()
        else:
            self._skip(key, plan, wanted)

    def _skip(self, key: Key, plan: Plan, wanted: str) -> None:
        """Say that others wait already; the job's next reconcile asks again."""
        before = self._results.get(key)
        if before is None or before.key != wanted:
            self._telemetry.evaluations.labels(outcome="Skipped").inc()
            fault = f"{EVALUATOR_BUSY}: too many plans wait for their evaluation; it is asked for again later"
            self._results[key] = EvaluationStatus(plan.plan_id, key=wanted, fault=fault)

    def forget(self, key: Key) -> None:
        """Forget a job that is gone."""
        self._asked.pop(key, None)
        self._failed.pop(key, None)
        self._results.pop(key, None)
        self._awaited.forget(key)
        self._running.forget(key)

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            self._arrived.clear()
            waiting = self._next()
            if waiting is None:
                await self._pause()
                continue
            wanted = evaluation_key(waiting.plan, waiting.job, waiting.policy.evaluation)
            if self._asked.get(waiting.key) != wanted:
                continue  # the job is gone, or has another plan
            began = asyncio.get_running_loop().time()
            answer = await self._evaluate(waiting, wanted)
            now = asyncio.get_running_loop().time()
            if waiting.running:
                self._rest_until = now + REST_FACTOR * (now - began)
            if self._asked.get(waiting.key) != wanted:
                continue
            if answer is None:
                del self._asked[waiting.key]
                continue
            self._try_later(waiting.key, wanted, answer.fault)
            if self._results.get(waiting.key) != answer:
                self._results[waiting.key] = answer
                self._wake(waiting.key)

    def _try_later(self, key: Key, wanted: str, fault: str) -> None:
        """After a fault that may pass, ask again in a while; a few times."""
        if not fault:
            self._failed.pop(key, None)
        if not fault or fault.partition(":")[0] in CERTAIN:
            return
        before, count = self._failed.get(key, ("", 0))
        tries = count + 1 if before == wanted else 1
        self._failed[key] = wanted, tries
        if tries < MAX_TRIES:
            self._later(RETRY_SECONDS * 2 ** (tries - 1), self._forget_question, key, wanted)

    def _forget_question(self, key: Key, wanted: str) -> None:
        """Let the job's next look ask again, unless it has another plan by now."""
        if self._asked.get(key) == wanted:
            del self._asked[key]
            self._wake(key)

    def _next(self) -> WaitingPlan | None:
        """A plan that waits for a person, else one of a running job where neither planners nor the rest forbid it.

        After MOST_AWAITED of the first kind one of a running job goes first: the changes of one job cannot hold up all of those.
        """
        rests = self._planner_lock.locked() or asyncio.get_running_loop().time() < self._rest_until
        if not rests and self._awaited_in_a_row >= MOST_AWAITED and (running := self._running.take()) is not None:
            self._awaited_in_a_row = 0
            return running
        if (awaited := self._awaited.take()) is not None:
            self._awaited_in_a_row += 1
            return awaited
        self._awaited_in_a_row = 0
        return None if rests else self._running.take()

    async def _pause(self) -> None:
        """Until a plan arrives, or one of a running job may be due."""
        left = self._rest_until - asyncio.get_running_loop().time()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(max(left, BUSY_SECONDS) if len(self._running) else None):
                await self._arrived.wait()

    async def _evaluate(self, waiting: WaitingPlan, wanted: str) -> EvaluationStatus | None:
        """The answer, or why there is none: whatever goes wrong here ends nothing. None where the job is not as planned now."""
        try:
            ask = await self._ask(waiting)
            if ask is None:
                return None
            answer = await self._evaluations.evaluate(ask)
            if answer.plan_id != waiting.plan.plan_id or not answer.stages:
                raise EvaluationError("answered about another plan")
        except Exception as error:  # no start, and no other part of the operator, depends on an evaluation
            _LOG.warning("%s: the plan was not evaluated: %s", waiting.key, error)
            self._telemetry.evaluations.labels(outcome="Unknown").inc()
            return EvaluationStatus(waiting.plan.plan_id, key=wanted, fault=fault_text(error))
        self._telemetry.evaluations.labels(outcome=worst(answer).value).inc()
        return replace(answer, key=wanted)

    async def _ask(self, waiting: WaitingPlan) -> EvaluationAsk | None:
        """The question, with fewer futures the more plans wait."""
        snapshot = self._cache.snapshot(waiting.policy, self._clock())
        asked = self._question(waiting, snapshot)
        if asked is None:
            return None
        request, claims = asked
        # In a thread: a large cluster has a million links, a large plan a thousand nodes.
        part = await in_daemon_thread(lambda: emptied_snapshot(part_of(snapshot, waiting.plan), claims))
        crowd = len(self._awaited) + len(self._running)
        futures = max(MIN_FUTURES, FUTURES // (1 + crowd // CROWD))
        products = {worker.product or "" for worker in waiting.plan.workers}
        lessons = self._reader.lessons.about(products, self._clock(), waiting.key.namespace)
        queue = None if waiting.running else self._queue(waiting.key, waiting.policy, snapshot)
        return EvaluationAsk(waiting.plan, request, part, futures, waiting.policy, lessons, queue)


def _may_ask(state: ReconcileInput, job: JobSpec) -> bool:
    """Whether a person decides on the plan, or the job runs on it; previews are gone in a moment."""
    if constants.PREVIEW_LABEL in state.job.metadata.labels or run_is_over(state.job.status):
        return False
    view = state.gang.mpijob
    if view is None:
        return job.start_policy is not StartPolicy.AUTOMATIC
    return view.owner_uid == state.job.metadata.uid and undisturbed(state.job.status, view)


def evaluation_key(plan: Plan, job: JobSpec, policy: EvaluationPolicy) -> str:
    """16 hex digits that differ where plan, spec or policy do: the plan's id says nothing of checkpoints, deadlines and failures."""
    text = bytearray(plan.plan_id.encode())
    _ENCODER.encode_into(job, text, -1)
    _ENCODER.encode_into(policy, text, -1)
    return hashlib.sha256(text).hexdigest()[:KEY_DIGITS]


def fault_text(error: Exception) -> str:
    """The error in one bounded line of printable characters, never empty."""
    text = " ".join(str(error).split()) or type(error).__name__
    return "".join(letter if letter.isprintable() else "?" for letter in text)[:MAX_FAULT]


def worst(answer: EvaluationStatus) -> StageState:
    """Of the stages that were asked."""
    order = (StageState.FAILED, StageState.WARNED, StageState.PASSED, StageState.SKIPPED)
    states = {stage.state for stage in answer.stages}
    return next((state for state in order if state in states), StageState.SKIPPED)
