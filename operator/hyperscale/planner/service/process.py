"""Planning in another process, under a hard deadline: whatever a planner does, the operator gets an answer in time.

A planner that misses its deadline, dies or answers nonsense is killed and started again, and the question is put once more with the
heuristic planner; every plan is checked here again by `plan_check`, because the process that made it is not trusted to have done so.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

from msgspec.structs import replace

from hyperscale.model.admission_query import AdmissionRequest, AdmissionResult
from hyperscale.model.api.job import PlannerChoice
from hyperscale.model.api.policy import PolicySpec
from hyperscale.model.cluster import ClusterSnapshot
from hyperscale.model.plan import Infeasible, Plan
from hyperscale.model.planning import PlanRequest
from hyperscale.model.running_query import MigrationAnswer, MigrationQuestion, PreemptionAnswer, PreemptionQuestion
from hyperscale.planner.check.plan_check import violations
from hyperscale.planner.check.queue_check import unsound, unsound_stops
from hyperscale.planner.migration.vacated import unsound_moves
from hyperscale.planner.service.child import CRASHED, Child, PlannerError
from hyperscale.planner.service.frames import (
    Answer,
    Ask,
    AskMoves,
    AskStops,
    AskTurns,
    MigrationAdvice,
    NotPlanned,
    Planned,
    Question,
    Stopped,
    Turned,
)
from hyperscale.util.child_process import ENVIRONMENT as ENVIRONMENT

logger = logging.getLogger(__name__)

COMMAND: Final = (sys.executable, "-m", "hyperscale.planner.service.worker", "--nice", "5")
AGAIN_FRACTION: Final = 0.25
"""Part of the deadline by which a search ends that the first attempt did not end in time."""
GRACE_SECONDS: Final = 1.0
"""Beyond the planner's own deadline, for the way there and back."""
START_SECONDS: Final = 30.0
"""Longest start of the process: it loads numpy and networkx, on a busy machine, for the first time."""
STOP_SECONDS: Final = 1.0
REJECTED: Final = "PlanRejected"
QUEUE_FAILED: Final = "QueueRuleFailed"
"""Pending jobs could not be decided together; they start in order of arrival."""
MOVES_FAILED: Final = "MigrationCheckFailed"
"""Running jobs could not be judged; they stay where they are."""
STOPS_FAILED: Final = "PreemptionCheckFailed"
"""It could not be judged who should be stopped for whom; all running jobs continue."""


class PlannerProcess:
    """One planner process, started on demand; questions are put one after the other."""

    def __init__(
        self,
        command: Sequence[str] = COMMAND,
        *,
        environment: Mapping[str, str] = ENVIRONMENT,
        memory_bytes: int = 0,
        grace_seconds: float = GRACE_SECONDS,
        start_seconds: float = START_SECONDS,
        on_failure: Callable[[str], None] = lambda fallback: None,
    ) -> None:
        """Nothing is started yet.

        command:      of the planner, an argument list
        memory_bytes: memory that the planner may write; 0 sets no limit
        on_failure:   called with the name of every fallback, e.g. to count it
        """
        self._command = (*command, *(("--memory-bytes", str(memory_bytes)) if memory_bytes else ()))
        self._memory_bytes = memory_bytes
        self._environment = dict(environment)
        self._grace_seconds = grace_seconds
        self._start_seconds = start_seconds
        self._on_failure = on_failure
        self._lock = asyncio.Lock()
        self._child: Child | None = None
        self._number = 0

    @property
    def pid(self) -> int | None:
        """Process id of the planner; None while there is none."""
        return self._child.pid if self._child is not None else None

    async def start(self) -> None:
        """Start the planner, so that the first plan need not wait for it; a failure is logged and tried again with the first plan."""
        async with self._lock:
            try:
                await self._alive()
            except PlannerError as failure:
                logger.warning("planner did not start: %s", failure)
                await self._drop()

    async def stop(self) -> None:
        """End the planner: by the end of its input, or by force after a second."""
        async with self._lock:
            if self._child is not None:
                await self._child.close(STOP_SECONDS)
                self._child = None

    async def plan(self, request: PlanRequest, snapshot: ClusterSnapshot, policy: PolicySpec) -> Plan | Infeasible:
        """A checked plan, or why there is none; takes at most twice the deadline with its grace, and the planner's start."""
        fallbacks: tuple[str, ...] = ()
        message = ""
        for attempt in (request, _again(request)):
            try:
                answer = await self._attempt(attempt, request.deadline_seconds, snapshot, policy)
            except PlannerError as failure:
                logger.warning("%s: planner %s failed: %s: %s", request.job_key, attempt.job.planner.value, failure.fallback, failure)
                self._on_failure(failure.fallback)
                fallbacks = (*fallbacks, failure.fallback)
                message = str(failure)
                continue
            return replace(answer, fallbacks=(*fallbacks, *answer.fallbacks)) if isinstance(answer, Plan) else answer
        return Infeasible(reason="PlannerFailed", message=f"no planner gave a usable answer ({', '.join(fallbacks)}): {message}")

    async def _attempt(
        self, request: PlanRequest, deadline_seconds: float, snapshot: ClusterSnapshot, policy: PolicySpec
    ) -> Plan | Infeasible:
        answer = await self._answer(partial(Ask, request=request), deadline_seconds, snapshot, policy)
        if not isinstance(answer, Planned | NotPlanned):
            raise PlannerError(CRASHED, "the planner answered another question")
        plan = answer.plan if isinstance(answer, Planned) else answer.infeasible
        if isinstance(plan, Plan) and (wrong := violations(plan, request, snapshot)):
            raise PlannerError(REJECTED, "; ".join(wrong[:3]))
        return plan

    async def turns(self, question: AdmissionRequest, snapshot: ClusterSnapshot, policy: PolicySpec) -> AdmissionResult | None:
        """Who of several pending jobs starts, every plan checked; None where the planner failed on that, which is counted."""
        try:
            return await self._turns(question, snapshot, policy)
        except PlannerError as failure:
            logger.warning("%d pending jobs: %s: %s", len(question.jobs), failure.fallback, failure)
            self._on_failure(QUEUE_FAILED)
            return None

    async def _turns(self, question: AdmissionRequest, snapshot: ClusterSnapshot, policy: PolicySpec) -> AdmissionResult:
        answer = await self._answer(partial(AskTurns, question=question), question.deadline_seconds, snapshot, policy)
        if not isinstance(answer, Turned):
            raise PlannerError(CRASHED, "the planner answered another question")
        if wrong := unsound(answer.turns, question, snapshot):
            raise PlannerError(REJECTED, "; ".join(wrong[:3]))
        return answer.turns

    async def moves(self, question: MigrationQuestion, snapshot: ClusterSnapshot, policy: PolicySpec) -> MigrationAnswer | None:
        """Which of several running jobs would be better off elsewhere, every plan checked; None where the planner failed on that."""
        try:
            return await self._moves(question, snapshot, policy)
        except PlannerError as failure:
            logger.warning("%d running jobs: %s: %s", len(question.jobs), failure.fallback, failure)
            self._on_failure(MOVES_FAILED)
            return None

    async def _moves(self, question: MigrationQuestion, snapshot: ClusterSnapshot, policy: PolicySpec) -> MigrationAnswer:
        answer = await self._answer(partial(AskMoves, question=question), question.deadline_seconds, snapshot, policy)
        if not isinstance(answer, MigrationAdvice):
            raise PlannerError(CRASHED, "the planner answered another question")
        if wrong := unsound_moves(answer.moves, question, snapshot):
            raise PlannerError(REJECTED, "; ".join(wrong[:3]))
        return answer.moves

    async def preempt(self, question: PreemptionQuestion, snapshot: ClusterSnapshot, policy: PolicySpec) -> PreemptionAnswer | None:
        """Which running jobs would better be stopped for others, checked; None where the planner failed on that, which is counted."""
        try:
            return await self._preempt(question, snapshot, policy)
        except PlannerError as failure:
            logger.warning("%d stoppable jobs: %s: %s", len(question.running), failure.fallback, failure)
            self._on_failure(STOPS_FAILED)
            return None

    async def _preempt(self, question: PreemptionQuestion, snapshot: ClusterSnapshot, policy: PolicySpec) -> PreemptionAnswer:
        answer = await self._answer(partial(AskStops, question=question), question.deadline_seconds, snapshot, policy)
        if not isinstance(answer, Stopped):
            raise PlannerError(CRASHED, "the planner answered another question")
        if wrong := unsound_stops(answer.stops, question):
            raise PlannerError(REJECTED, "; ".join(wrong[:3]))
        return answer.stops

    async def _answer(
        self, asked: Callable[[int, str], Question], deadline_seconds: float, snapshot: ClusterSnapshot, policy: PolicySpec
    ) -> Answer:
        """What the planner says to a question, which is made from its number and the name of its cluster."""
        async with self._lock:
            try:
                child = await self._alive()
                self._number += 1
                question = partial(asked, self._number)
                return await child.ask(self._number, question, snapshot, policy, deadline_seconds + self._grace_seconds)
            except BaseException as failure:
                # Also when the caller was cancelled: half an answer may be on its way.
                if not (isinstance(failure, PlannerError) and failure.healthy):
                    await self._drop()
                raise

    async def _alive(self) -> Child:
        """The planner, started when there is none; raises PlannerError when it does not come up."""
        if self._child is not None and (not self._child.alive or _has_ended(self._child.pid)):
            await self._drop()
        if self._child is None:
            try:
                process = await asyncio.create_subprocess_exec(
                    *self._command,
                    env=self._environment,
                    stdin=asyncio.subprocess.PIPE,
                    stdout=asyncio.subprocess.PIPE,
                    stderr=asyncio.subprocess.PIPE,
                )
            except OSError as error:
                raise PlannerError(CRASHED, f"cannot start {self._command[0]}: {error}") from error
            self._child = Child(process, self._memory_bytes)
            await self._child.greet(self._start_seconds)
        return self._child

    async def _drop(self) -> None:
        """Kill the planner; the next question starts a new one."""
        child, self._child = self._child, None
        if child is not None:
            await child.close(0)


def _has_ended(pid: int) -> bool:
    """Whether a child ended, also where the event loop has not been notified yet; leaves its status for the loop to collect."""
    try:
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:
        return True


def _again(request: PlanRequest) -> PlanRequest:
    """The question for the second time: by the heuristic, with less time to search and so more for what nothing interrupts."""
    seconds = request.deadline_seconds * AGAIN_FRACTION
    return replace(request, job=replace(request.job, planner=PlannerChoice.HEURISTIC), deadline_seconds=seconds)
