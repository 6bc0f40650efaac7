"""One pass over one job: look, decide, act, until there is nothing left to do; then one status write, then one event.

The only place that knows the order of the stages. Every step may be cut off by a crash: what exists is found again by name and owner,
the plan by the MPIJob's annotation or the status, so the next pass continues where this one stopped.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple

from msgspec.structs import replace

from hyperscale.control.apply.actions import Actions
from hyperscale.control.apply.api_answers import ApiError, ConflictError
from hyperscale.control.apply.dependents import DependentRefusedError
from hyperscale.control.cache.records import JobRecord, Key
from hyperscale.control.controller.context import ReconcileContext, plan_state, spec_revision
from hyperscale.control.controller.reporter import Reporter
from hyperscale.control.controller.steps import Steps
from hyperscale.control.controller.workqueue import RetryLaterError, WorkQueue
from hyperscale.control.decide.chain import decide
from hyperscale.control.history.decision_recorder import DecisionRecorder
from hyperscale.control.history.recorder import RunRecorder
from hyperscale.control.lifecycle.movable import is_moving
from hyperscale.control.lifecycle.stoppable import is_preempted
from hyperscale.control.lifecycle.unscheduled import is_released
from hyperscale.control.milestones import Milestone, OnMilestone, ignore
from hyperscale.control.render.batch_jobs import partition_key
from hyperscale.control.scheduler.control_context import ControlContext
from hyperscale.control.scheduler.planner_client import Planning
from hyperscale.control.scheduler.preflight_runner import PreflightRunner
from hyperscale.control.specs.parsed_specs import metadata_of
from hyperscale.model import constants
from hyperscale.model.api.datasets import dataset_key, must_be_read
from hyperscale.model.api.job import JobSpec
from hyperscale.model.decision import Wait
from hyperscale.model.evaluation import EvaluationStatus
from hyperscale.model.observed.owned_objects import MpiJobView
from hyperscale.model.observed.reconcile_input import (
    BatchJobState,
    CapacityState,
    GangState,
    JobState,
    ReconcileClock,
    ReconcileInput,
    RestartState,
)
from hyperscale.model.pods import INSPECT, PARTITION
from hyperscale.model.status import JobStatus

_LOG = logging.getLogger(__name__)

MAX_STEPS: Final = 8
"""Decisions acted on in one pass; more would mean that two checks undo each other."""

LATEST_REPORT_SECONDS: Final = 5.0
"""A report waits no longer for other jobs to be planned."""

_LOST_TAINTS: Final = frozenset({constants.UNREACHABLE_TAINT, constants.OUT_OF_SERVICE_TAINT})


async def _stay() -> None:
    """Return: without a Lease there is one operator."""


class ReconcileHooks(NamedTuple):
    """What the process around the reconciler adds to it."""

    confirm_leader: Callable[[], Awaitable[None]] = _stay
    """Called after a write conflict: asks whether this is still the one operator, and does not return where it is not."""
    on_milestone: OnMilestone = ignore


DEFAULT_HOOKS: Final = ReconcileHooks()


class Reconciler:
    """Passes over jobs, in order of arrival, each job by one worker at a time."""

    def __init__(
        self,
        context: ControlContext,
        queue: WorkQueue[Key],
        planning: Planning,
        actions: Actions,
        recorders: tuple[RunRecorder, DecisionRecorder],
        hooks: ReconcileHooks,
    ) -> None:
        """queue: where the reconciler asks for further reconciles; its owner calls `reconcile` for each key."""
        self._cache = context.cache
        self._reader = context.reader
        self._queue = queue
        self._planning = planning
        self._hooks = hooks
        self._actions = actions
        self._steps = Steps(context, planning, actions, hooks.on_milestone)
        self.preflights = PreflightRunner(context, actions)
        self._telemetry = context.telemetry
        self._clock = context.clock
        self._reporter = Reporter(context, queue, planning, self.preflights, actions, recorders)
        self._unreported: dict[Key, ReconcileContext] = {}
        """Passes that created an MPIJob while other jobs waited for theirs: their report comes after those."""
        self._new: set[Key] = set()
        """Jobs that have never been reconciled."""
        self._uids: dict[Key, str] = {}
        """Of the jobs that were last reconciled: another one of the same name is another job, whose deletion may never be told."""

    async def reconcile(self, key: Key) -> None:
        """One pass; raises RetryLaterError for what may succeed later."""
        record = self._cache.jobs.get(key)
        if record is None or self._uids.get(key, record.uid) != record.uid:
            self._forget(key)
        if record is None:
            self._passed(key)
            return
        self._uids[key] = record.uid
        with self._telemetry.reconcile_seconds.time():
            try:
                run = self._unreported.pop(key, None) or ReconcileContext(
                    key, self._reader.policy_of(record.resource, self._cache.policies), self._clock()
                )
                await self._pass(run, record)
            except ConflictError as error:
                await self._hooks.confirm_leader()
                raise RetryLaterError(str(error)) from error
            except ApiError as error:
                raise RetryLaterError(str(error), error.retry_after_seconds) from error
            finally:
                self._planning.end_reconcile(key)
                self._passed(key)

    def _forget(self, key: Key) -> None:
        """The job is gone, and maybe another has its name."""
        self._queue.forget(key)
        self._unreported.pop(key, None)
        self._uids.pop(key, None)
        self._reporter.forget(key)
        self._telemetry.forget(*key)
        self._planning.forget(key)
        self.preflights.forget(key)

    async def _pass(self, run: ReconcileContext, record: JobRecord) -> None:
        self._hooks.on_milestone(Milestone.LOOK)
        for _ in range(MAX_STEPS):
            state = self._look(run, record)
            decision = decide(state)
            try:
                if not await self._steps.take(run, state, decision):
                    break
            except DependentRefusedError as error:
                decision = error.decision()
                break
            if run.key not in self._cache.jobs:
                return  # deleted meanwhile
            record = self._refreshed(run, record)
        else:
            raise RetryLaterError(f"{run.key}: no end of decisions, the last was {decision.reason}")
        if self._may_report_later(run, state):
            self._unreported[run.key] = run
            self._queue.add_after(run.key, LATEST_REPORT_SECONDS)
            return
        await self._reporter.report(run, state, decision, record.version)
        if isinstance(decision, Wait) and decision.retry_after_seconds is not None:
            self._queue.add_after(run.key, decision.retry_after_seconds)

    def _may_report_later(self, run: ReconcileContext, state: ReconcileInput) -> bool:
        """While other jobs wait for their MPIJob, the report of one that has it can wait: the MPIJob says it all, plan included."""
        return (
            run.plan is not None
            and not state.restart.migrating
            and state.gang.mpijob is not None
            and len(self._new) > 0
            and self._clock() - run.began < LATEST_REPORT_SECONDS
        )

    def enqueue_first(self, key: Key) -> None:
        """A job that has never been reconciled: its first pass goes before the reports of others."""
        self._new.add(key)

    def _passed(self, key: Key) -> None:
        """The first pass over a job is over; after the last of them the reports are made up for."""
        if key in self._new:
            self._new.discard(key)
            if not self._new:
                for waiting in sorted(self._unreported):
                    self._queue.add(waiting)

    def _refreshed(self, run: ReconcileContext, record: JobRecord) -> JobRecord:
        """The job as it is now; a plan made meanwhile for what it was is void, as long as nothing was created from it.

        Raises ConflictError where another job has its name by now: nothing of this pass is of use for that one.
        """
        latest = self._cache.jobs.get(run.key, record)
        if latest.uid != record.uid:
            raise ConflictError(409, "the job was replaced during the pass")
        if spec_revision(latest) != spec_revision(record) and self._cache.mpijob_named(run.key) is None:
            run.plan = run.refusal = run.metrics = run.turn = None
            self._planning.drop(run.key)
        return latest

    def _look(self, run: ReconcileContext, record: JobRecord) -> ReconcileInput:
        """Everything `decide` may know, from the cache as it is now."""
        job, fault = self._reader.read(record.resource, self._cache.policies)
        mpijob = self._cache.mpijob_named(run.key)
        if mpijob is not None and self._cache.is_forged(run.key):
            mpijob = replace(mpijob, owner_uid="")  # whatever it says: it is not the job's
        pods = self._cache.pods_of(run.key, mpijob.uid) if mpijob else ()
        plans = self._cache.plans_of(run.key).with_unwritten(run.plan)
        own_timeout_seconds = job.recovery.scheduling_timeout_seconds if job else None
        now = self._clock()
        state = ReconcileInput(
            job=JobState(
                metadata=metadata_of(record.resource),
                parsed=job,
                status=run.so_far(record.status),
                fault=fault,
                deleting=bool(record.resource["metadata"].get("deletionTimestamp")),
            ),
            clock=ReconcileClock(
                now=now,
                server_ahead_seconds=self._actions.server_ahead_seconds(now),
                scheduling_timeout_seconds=own_timeout_seconds or run.policy.scheduling_timeout_seconds,
            ),
            gang=GangState(mpijob, pods, run.workload, run.workload_looked, self._cache.measured(run.key, pods)),
            plan=plan_state(run, record.status, plans, self._evaluation(run.key), self._planning.alternatives.view(run.key)),
            restart=self._restart(run, record.status, mpijob),
            partitions=BatchJobState(
                key=partition_key(job, plans.in_force) if job is not None else "",
                job=self._cache.partitions.get(run.key),
                read=run.partition_looked,
                pods=self._cache.batch_pods_of(run.key, PARTITION),
            ),
            inspection=self._inspection(run, job),
            preflight=self.preflights.view(run.key, job, metadata_of(record.resource)),
        )
        unreachable = self._cache.snapshots.unreachable_nodes(_LOST_TAINTS) if any(pod.terminating for pod in pods) else ()
        misfits = self._planning.misfits(run.key, state, run.policy)
        return replace(state, capacity=CapacityState(misfits=misfits, unreachable_nodes=unreachable))

    def _evaluation(self, key: Key) -> EvaluationStatus | None:
        return self._planning.evaluator.view(key) if self._planning.evaluator is not None else None

    def _inspection(self, run: ReconcileContext, job: JobSpec | None) -> BatchJobState:
        """The Job that reads the graph of a job that states no sizes."""
        if job is None or not must_be_read(job):
            return BatchJobState()
        pods = self._cache.batch_pods_of(run.key, INSPECT)
        return BatchJobState(dataset_key(job.dataset), self._cache.inspections.get(run.key), run.inspection_looked, pods)

    def _restart(self, run: ReconcileContext, status: JobStatus, mpijob: MpiJobView | None) -> RestartState:
        """Migration, preemption and release, as recorded and as this reconcile has started them."""
        recorded_preemption, recorded_release = is_preempted(status, mpijob), is_released(status, mpijob)
        return RestartState(
            migration=self._planning.migration.view(run.key),
            migrating=run.last_migration is not None or run.resuming or is_moving(status),
            preemption=self._planning.preemption.view(run.key),
            preempted=not run.resuming and (run.last_preemption is not None or recorded_preemption),
            preemption_recorded=recorded_preemption,
            released=not run.resuming and (run.scheduling is not None or recorded_release),
            release_recorded=recorded_release,
        )
