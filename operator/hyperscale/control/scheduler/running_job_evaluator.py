"""What the evaluations of running jobs share, whether they may migrate or be preempted: when to ask, how long to rest, whom to tell."""

from __future__ import annotations

import asyncio
import math
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Iterable, Iterator
from typing import Final, Generic, Protocol, TypeVar

from hyperscale.control.cache.records import JobRecord, Key
from hyperscale.control.lifecycle.stoppable import undisturbed
from hyperscale.control.scheduler.control_context import ControlContext
from hyperscale.model.api.policy import PolicySpec
from hyperscale.model.observed.owned_objects import MpiJobView

TICK_SECONDS: Final = 1.0
REST_FACTOR: Final = 9.0
"""After a question the planner is left alone for this many times the question's length: evaluation takes a tenth of the time at most."""
DISTRUST_SECONDS: Final = 30.0
"""After a failed question nothing is evaluated for so long."""

Answer = TypeVar("Answer")


class Evaluation(Protocol):
    """The last result for one running job."""

    @property
    def shown(self) -> object | None:
        """The proposal that people see."""
        ...

    @property
    def due(self) -> bool:
        """Whether the job's next reconcile is to carry it out."""
        ...


Kind = TypeVar("Kind", bound=Evaluation)


class RunningJobEvaluator(ABC, Generic[Kind]):
    """Asks the planner about undisturbed running jobs, keeps the evaluations, and asks for reconciles where one matters."""

    def __init__(self, context: ControlContext, what: str) -> None:
        """what: Migration or Preemption, as the metrics name it."""
        self._wake = context.wake
        self._planner_lock = context.planner_lock
        self._cache = context.cache
        self._telemetry = context.telemetry
        self._reader = context.reader
        self._clock, self._monotonic = context.clock, context.monotonic
        self._what = what
        self._outcomes = context.telemetry.migrations if what == "Migration" else context.telemetry.preemptions
        self._evaluations: dict[Key, Kind] = {}
        self._rest_until = -math.inf
        """By the clock that is never set."""

    async def run(self) -> None:
        """Evaluate what is due, until cancelled."""
        while True:
            await asyncio.sleep(TICK_SECONDS)
            await self.check()

    @abstractmethod
    async def check(self) -> None:
        """Put one question, if it is time for one."""

    def _must_rest(self) -> bool:
        return self._monotonic() < self._rest_until or self._planner_lock.locked()

    def _runs(self, keys: Iterable[Key]) -> dict[Key, str]:
        """Uids of the jobs' MPIJobs: an answer is about these runs, and not about another job that has the name by then."""
        return {key: view.uid for key in keys if (view := self._cache.mpijobs.get(key)) is not None}

    async def _answered(self, question: Awaitable[Answer | None]) -> Answer | None:
        """The planner's answer to a question that begins now; None where it has none."""
        began = self._monotonic()
        with self._telemetry.plan_seconds.labels(planner=self._what).time():
            answer = await question
        now = self._monotonic()
        self._rest_until = now + (DISTRUST_SECONDS if answer is None else REST_FACTOR * (now - began))
        return answer

    def _keep(self, key: Key, before: Kind, after: Kind, in_status: object | None) -> None:
        """Keep an evaluation; a reconcile is asked for where people should know, or a step is due. in_status: the proposal there."""
        self._evaluations[key] = after
        if after.shown is not None and before.shown is None:
            self._outcomes.labels(outcome="Proposed").inc()
        if after.due or after.shown != in_status:
            self._wake(key)

    def _withdraw(self, key: Key, in_status: object | None, empty: Kind) -> None:
        """Have the job's reconcile withdraw the proposal in its status, where there is one."""
        before = self._evaluations.get(key)
        if in_status is not None and (before is None or before.shown is not None):
            self._evaluations[key] = empty
            self._wake(key)

    def _undisturbed(self) -> Iterator[tuple[Key, JobRecord, MpiJobView]]:
        """Jobs that run undisturbed, in order of their keys."""
        for key, view in sorted(self._cache.live.items()):
            record = self._cache.jobs.get(key)
            if record is not None and undisturbed(record.status, view):
                yield key, record, view

    def _policy(self, key: Key) -> PolicySpec:
        return self._reader.policy_of(self._cache.jobs[key].resource, self._cache.policies)
