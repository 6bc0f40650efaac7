"""What is found out about plans that wait for a person, beside everything else: no start waits for it, and a failure is only told."""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Callable
from typing import Final, NamedTuple, Protocol

import msgspec
from msgspec.structs import replace

from hyperscale.control.cache.records import Key
from hyperscale.control.scheduler.control_context import ControlContext
from hyperscale.evaluate.service.evaluation_frames import EvaluationAsk
from hyperscale.evaluate.service.evaluation_process import EvaluationError
from hyperscale.model import constants
from hyperscale.model.api.job import JobSpec, StartPolicy
from hyperscale.model.api.policy import PolicySpec
from hyperscale.model.cluster import ClusterSnapshot
from hyperscale.model.evaluation import EvaluationStatus, StageState
from hyperscale.model.observed.reconcile_input import ReconcileInput
from hyperscale.model.plan import Plan
from hyperscale.model.planning import PlanRequest

_LOG = logging.getLogger(__name__)

FUTURES: Final = 10_000
MAX_WAITING: Final = 1_000
"""Plans that wait for their evaluation; of the jobs beyond, plans are evaluated with their next reconcile."""
MAX_FAULT: Final = 512
KEY_DIGITS: Final = 16
_ENCODER: Final = msgspec.json.Encoder(order="deterministic")

PutQuestion = Callable[[Key, JobSpec, PolicySpec, ClusterSnapshot], PlanRequest]


class Evaluations(Protocol):
    """The component that answers; in the operator a process for each question."""

    async def evaluate(self, ask: EvaluationAsk) -> EvaluationStatus:
        """The answer; raises EvaluationError within a hard deadline."""
        ...


class WaitingPlan(NamedTuple):
    """A plan to be evaluated."""

    key: Key
    plan: Plan
    job: JobSpec
    policy: PolicySpec


class PlanEvaluator:
    """Evaluates one plan after the other; each plan once."""

    def __init__(self, context: ControlContext, evaluations: Evaluations, question: PutQuestion) -> None:
        """question: what the planners would be asked about the job now."""
        self._cache, self._telemetry, self._clock, self._wake = context.cache, context.telemetry, context.clock, context.wake
        self._reader = context.reader
        self._evaluations = evaluations
        self._question = question
        self._asked: dict[Key, str] = {}
        """Key of the plan and spec that were asked about last."""
        self._results: dict[Key, EvaluationStatus] = {}
        self._waiting: asyncio.Queue[WaitingPlan] = asyncio.Queue(MAX_WAITING)

    def view(self, key: Key) -> EvaluationStatus | None:
        """What was found out since the operator started; None where what the status says stays."""
        return self._results.get(key)

    def consider(self, key: Key, state: ReconcileInput, policy: PolicySpec) -> None:
        """Ask about the plan in force where a person decides on it, once."""
        plan, job = state.plan.in_force, state.job.parsed
        if plan is None or job is None or job.start_policy is StartPolicy.AUTOMATIC or state.gang.mpijob is not None:
            return
        if constants.PREVIEW_LABEL in state.job.metadata.labels:
            return  # a question of `hyperscale plan`, gone in a moment
        wanted, recorded = evaluation_key(plan, job), state.job.status.evaluation
        was_answered = recorded is not None and not recorded.fault and recorded.key == wanted
        if self._asked.get(key) == wanted or was_answered or self._waiting.full():
            return
        self._asked[key] = wanted
        self._waiting.put_nowait(WaitingPlan(key, plan, job, policy))

    def forget(self, key: Key) -> None:
        """Forget a job that is gone."""
        self._asked.pop(key, None)
        self._results.pop(key, None)

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            waiting = await self._waiting.get()
            wanted = evaluation_key(waiting.plan, waiting.job)
            if self._asked.get(waiting.key) != wanted:
                continue  # the job is gone, or has another plan
            answer = await self._evaluate(waiting)
            if self._asked.get(waiting.key) == wanted:
                self._results[waiting.key] = answer
                self._wake(waiting.key)

    async def _evaluate(self, waiting: WaitingPlan) -> EvaluationStatus:
        """The answer, or why there is none: whatever goes wrong here ends nothing."""
        try:
            answer = await self._evaluations.evaluate(self._ask(waiting))
            if answer.plan_id != waiting.plan.plan_id or not answer.stages:
                raise EvaluationError("answered about another plan")
        except Exception as error:  # no start, and no other part of the operator, depends on an evaluation
            _LOG.warning("%s: the plan was not evaluated: %s", waiting.key, error)
            self._telemetry.evaluations.labels(outcome="Unknown").inc()
            return EvaluationStatus(waiting.plan.plan_id, key=evaluation_key(waiting.plan, waiting.job), fault=fault_text(error))
        self._telemetry.evaluations.labels(outcome=worst(answer).value).inc()
        return replace(answer, key=evaluation_key(waiting.plan, waiting.job))

    def _ask(self, waiting: WaitingPlan) -> EvaluationAsk:
        snapshot = self._cache.snapshot(waiting.policy, self._clock())
        request = self._question(waiting.key, waiting.job, waiting.policy, snapshot)
        products = {worker.product or "" for worker in waiting.plan.workers}
        lessons = self._reader.lessons.about(products, self._clock())
        return EvaluationAsk(waiting.plan, request, part_of(snapshot, waiting.plan), FUTURES, waiting.policy, lessons)


def evaluation_key(plan: Plan, job: JobSpec) -> str:
    """16 hex digits that differ where plan or spec do: the plan's id says nothing of checkpoints and deadlines."""
    text = bytearray(plan.plan_id.encode())
    _ENCODER.encode_into(job, text, -1)
    return hashlib.sha256(text).hexdigest()[:KEY_DIGITS]


def fault_text(error: Exception) -> str:
    """The error in one bounded line of printable characters, never empty."""
    text = " ".join(str(error).split()) or type(error).__name__
    return "".join(letter if letter.isprintable() else "?" for letter in text)[:MAX_FAULT]


def part_of(snapshot: ClusterSnapshot, plan: Plan) -> ClusterSnapshot:
    """The planned nodes and the links between them."""
    planned = set(plan.ranks_by_node)
    return replace(
        snapshot,
        nodes=tuple(node for node in snapshot.nodes if node.name in planned),
        links=tuple(link for link in snapshot.links if link.source in planned and link.destination in planned),
    )


def worst(answer: EvaluationStatus) -> StageState:
    """Of the stages that were asked."""
    order = (StageState.FAILED, StageState.WARNED, StageState.PASSED, StageState.SKIPPED)
    states = {stage.state for stage in answer.stages}
    return next((state for state in order if state in states), StageState.SKIPPED)
