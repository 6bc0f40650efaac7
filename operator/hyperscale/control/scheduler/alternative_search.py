"""Alternatives to plans that wait for a person, asked for beside everything else: no start waits for them, a failure ends the search."""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Callable
from typing import Final, NamedTuple, Protocol

import msgspec
from msgspec.structs import replace

from hyperscale.control.cache.records import Key
from hyperscale.control.lifecycle.offered import waits_for_person
from hyperscale.control.scheduler.control_context import ControlContext
from hyperscale.control.scheduler.namespace_queue import LaterPasses, NamespaceQueue
from hyperscale.model import constants
from hyperscale.model.api.job import JobSpec, PlannerChoice
from hyperscale.model.api.policy import PolicySpec
from hyperscale.model.cluster import ClusterSnapshot
from hyperscale.model.observed.reconcile_input import ReconcileInput
from hyperscale.model.offers.plan_offers import PlanAlternatives
from hyperscale.model.plan import Infeasible, Plan
from hyperscale.model.planning import PlanRequest
from hyperscale.planner.choice.age import with_figures
from hyperscale.planner.choice.alternative_plans import alternative_requests, offers

_LOG = logging.getLogger(__name__)

DEADLINE_SECONDS: Final = 0.5
"""Of one question: pending jobs wait behind it."""
MAX_ANSWER_SECONDS: Final = 1.75
"""Of a planner that hangs: those who wait for a plan are delayed by less than 2 s, and the search ends."""
RETRY_SECONDS: Final = 15.0
"""From a search that failed to the next."""
MAX_TRIES: Final = 5
PLANNER_FAILED: Final = "PlannerFailed"
KEY_DIGITS: Final = 16
_ENCODER: Final = msgspec.json.Encoder(order="deterministic")

PutQuestion = Callable[[Key, JobSpec, PolicySpec, ClusterSnapshot], PlanRequest]


class SearchError(Exception):
    """The planners gave no answer."""


class SinglePlanner(Protocol):
    """The component that plans; in the operator the planner process."""

    async def plan(self, request: PlanRequest, snapshot: ClusterSnapshot, policy: PolicySpec) -> Plan | Infeasible:
        """A checked plan, or why there is none; never raises."""
        ...


class UnsearchedPlan(NamedTuple):
    """A plan to find alternatives to."""

    key: Key
    plan: Plan
    job: JobSpec
    policy: PolicySpec


class AlternativeSearch:
    """Searches for one plan after the other, for each plan once; the namespaces take turns."""

    def __init__(self, context: ControlContext, planner: SinglePlanner, question: PutQuestion) -> None:
        """question: what the planners would be asked about the job now."""
        self._cache, self._clock, self._wake, self._lock = context.cache, context.clock, context.wake, context.planner_lock
        self._planner = planner
        self._question = question
        self._asked: dict[Key, tuple[str, str]] = {}
        """Plan and spec that were asked about last."""
        self._results: dict[Key, PlanAlternatives] = {}
        self._failures: dict[Key, int] = {}
        """Searches for a job that failed in a row."""
        self._waiting: NamespaceQueue[UnsearchedPlan] = NamespaceQueue()
        self._arrived = asyncio.Event()
        self._later = LaterPasses(context.wake)

    def view(self, key: Key) -> PlanAlternatives | None:
        """What was found since the operator started; None where what the status says stays."""
        return self._results.get(key)

    def consider(self, key: Key, state: ReconcileInput, policy: PolicySpec) -> None:
        """Ask for alternatives to the plan in force where a person decides on it, once; a plan that was offered itself has its own."""
        plan, job = state.plan.in_force, state.job.parsed
        if plan is None or job is None or not waits_for_person(state) or constants.PREVIEW_LABEL in state.job.metadata.labels:
            return
        wanted = spec_key(job)
        answers = (state.job.status.alternatives, self._results.get(key))
        if any(each is not None and each.key == wanted and each.offer(plan.plan_id) is not None for each in answers):
            return
        if self._asked.get(key) == (plan.plan_id, wanted):
            return
        waits, gone = self._waiting.put(UnsearchedPlan(key, plan, job, policy))
        if gone is not None:
            self._asked.pop(gone.key, None)
            self._later.ask(gone.key, RETRY_SECONDS)
        if waits:
            self._asked[key] = plan.plan_id, wanted
            self._arrived.set()
        else:
            self._later.ask(key, RETRY_SECONDS)

    def forget(self, key: Key) -> None:
        """Forget a job that is gone."""
        self._waiting.forget(key)
        self._asked.pop(key, None)
        self._results.pop(key, None)
        self._failures.pop(key, None)

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            if (waiting := self._waiting.take()) is None:
                self._arrived.clear()
                await self._arrived.wait()
                continue
            asked = waiting.plan.plan_id, spec_key(waiting.job)
            if self._asked.get(waiting.key) != asked:
                continue  # the job is gone, or has another plan
            try:
                answer = await self._search(waiting)
            except Exception as error:  # no start, and no other part of the operator, depends on an alternative
                _LOG.warning("%s: no alternatives to plan %s: %s %s", waiting.key, waiting.plan.plan_id, type(error).__name__, error)
                self._try_again(waiting.key)
                continue
            if self._asked.get(waiting.key) == asked:
                self._results[waiting.key] = answer
                self._failures.pop(waiting.key, None)
                self._wake(waiting.key)

    def _try_again(self, key: Key) -> None:
        """Search again later: on a busy machine the planners may have had no time for this."""
        self._failures[key] = self._failures.get(key, 0) + 1
        if self._failures[key] < MAX_TRIES:
            asyncio.get_running_loop().call_later(RETRY_SECONDS, self._due_again, key)

    def _due_again(self, key: Key) -> None:
        if self._asked.pop(key, None) is not None:
            self._wake(key)

    async def _search(self, waiting: UnsearchedPlan) -> PlanAlternatives:
        """The offers; the planners answer others between two questions."""
        snapshot = self._cache.snapshot(waiting.policy, self._clock())
        asked_about = self._question(waiting.key, waiting.job, waiting.policy, snapshot)
        request = replace(
            asked_about,
            job=replace(asked_about.job, planner=PlannerChoice.HEURISTIC),  # the fastest: others wait behind each question
            deadline_seconds=min(DEADLINE_SECONDS, waiting.policy.plan_deadline_seconds),
            weights=None,  # people choose among what there is; their weights only mark an offer, in the status
        )
        answers: list[Plan] = []
        for asked in alternative_requests(request, waiting.plan, snapshot, waiting.policy):
            async with self._lock, asyncio.timeout(MAX_ANSWER_SECONDS):
                answer = await self._planner.plan(asked, snapshot, waiting.policy)
            if isinstance(answer, Plan):
                elapsed = max(0.0, self._clock() - snapshot.taken_at)
                answers.append(with_figures(answer, snapshot, waiting.plan.figures.source if waiting.plan.figures else "Operator", elapsed))
            elif answer.reason == PLANNER_FAILED:
                raise SearchError(answer.message)  # a planner in trouble is left to those who wait for a plan
        return offers(request, waiting.plan, answers, snapshot, spec_key(waiting.job))


def spec_key(job: JobSpec) -> str:
    """16 hex digits that differ where the spec does."""
    return hashlib.sha256(_ENCODER.encode(job)).hexdigest()[:KEY_DIGITS]
