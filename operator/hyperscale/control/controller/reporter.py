"""The end of a pass: what is asked about the job beside it, its one status write where anything differs, and its events after that."""

from __future__ import annotations

import logging
from typing import Final

from msgspec.structs import replace

from hyperscale.control.apply.actions import Actions
from hyperscale.control.apply.api_answers import ConflictError
from hyperscale.control.cache.records import Key
from hyperscale.control.controller.context import DriftCount, PrunedStatuses, ReconcileContext, events_for, is_progress
from hyperscale.control.controller.workqueue import WorkQueue
from hyperscale.control.history.decision_recorder import DecisionRecorder
from hyperscale.control.history.recorder import RunRecorder
from hyperscale.control.scheduler.control_context import ControlContext
from hyperscale.control.scheduler.planner_client import Planning
from hyperscale.control.scheduler.preflight_runner import PreflightRunner
from hyperscale.control.status.conditions import derive
from hyperscale.model.decision import Decision
from hyperscale.model.observed.reconcile_input import ReconcileInput
from hyperscale.model.status import JobStatus

_LOG = logging.getLogger(__name__)

PROGRESS_INTERVAL_SECONDS: Final = 1.0
"""Counts of ready pods are written at most this often: a thousand workers must not mean a thousand writes."""


class Reporter:
    """Writes what passes found."""

    def __init__(
        self,
        context: ControlContext,
        queue: WorkQueue[Key],
        planning: Planning,
        preflights: PreflightRunner,
        actions: Actions,
        recorders: tuple[RunRecorder, DecisionRecorder],
    ) -> None:
        """queue: where another pass is asked for that writes progress later."""
        self._cache, self._reader, self._telemetry, self._clock = context.cache, context.reader, context.telemetry, context.clock
        self._queue, self._planning, self._preflights, self._actions = queue, planning, preflights, actions
        self._recorder, self._decisions = recorders
        self._written_at: dict[Key, float] = {}
        self._drift = DriftCount(context.telemetry)
        self._pruned = PrunedStatuses()

    def forget(self, key: Key) -> None:
        """Forget a job that is gone."""
        self._written_at.pop(key, None)
        self._drift.forget(key)
        self._pruned.forget(key)

    async def report(self, run: ReconcileContext, state: ReconcileInput, decision: Decision, version: str) -> None:
        """Write the status if anything differs, then the events; `version` is the job's as it was seen.

        Raises ConflictError where another job has its name by now.
        """
        if state.job.deleting:
            return
        if (record := self._cache.jobs.get(run.key)) is not None and record.uid != state.job.metadata.uid:
            raise ConflictError(409, "the job was replaced during the pass")
        self._drift.count(run.key, state)
        state = self._asked(run, state)
        before = record.status if record is not None else state.job.status
        status = derive(state, decision)
        self._recorder.note(state, status)
        self._decisions.note(record, state, status)
        faulty = record is not None and bool(record.status_fault)
        if not self._is_due(run, before, status, faulty):
            return
        await self._write(run.key, state, status, version)
        self._telemetry.count_finished(before.state, status.state)
        self._telemetry.count_preflight(before.preflight, status.preflight)
        if replace(status, measured=None) != replace(before, measured=None):
            _LOG.info("job %s", decision.reason, extra={"job": str(run.key), "state": str(status.state), "detail": decision.message})
        for event in events_for(run, state, decision, before, status):
            await self._actions.emit(state.job.metadata, event.reason, event.message, event.warning)

    def _asked(self, run: ReconcileContext, state: ReconcileInput) -> ReconcileInput:
        """Ask for alternatives, an evaluation and a preflight; none of them is waited for."""
        self._planning.alternatives.consider(run.key, state, run.policy)
        if (evaluator := self._planning.evaluator) is not None:
            evaluator.consider(run.key, state, run.policy)
            state = replace(state, plan=replace(state.plan, evaluation=evaluator.view(run.key)))
        self._preflights.consider(run.key, state)
        if state.plan.alternatives is None and state.job.status.alternatives is None:
            return state
        weights = self._reader.weights_of(run.key.namespace, run.policy)
        return replace(state, plan=replace(state.plan, weights=weights, weights_read=self._reader.decisions_read))

    def _is_due(self, run: ReconcileContext, before: JobStatus, status: JobStatus, faulty: bool) -> bool:
        """Whether the status is to be written now; faulty: the stored one cannot be read."""
        same = status == before or self._pruned.is_vain(run.key, status, before, self._clock())
        if same and not faulty:
            return False
        return not (is_progress(before, status) and run.plan is None and self._put_off(run.key))

    async def _write(self, key: Key, state: ReconcileInput, status: JobStatus, version: str) -> None:
        """The one status write; who reads it finds the GPUs of a plan that waits free."""
        if state.gang.mpijob is None:
            self._cache.assume(key, None)
        await self._actions.write_status(key, state.job.metadata, status, version)
        self._written_at[key] = self._clock()
        if (stored := self._cache.jobs.get(key)) is not None:
            self._pruned.note(key, status, stored.status, self._clock())

    def _put_off(self, key: Key) -> bool:
        """Whether progress was written a moment ago; another pass then writes it later."""
        due = self._written_at.get(key, 0.0) + PROGRESS_INTERVAL_SECONDS - self._clock()
        if due > 0:
            self._queue.add_after(key, due)
        return due > 0
