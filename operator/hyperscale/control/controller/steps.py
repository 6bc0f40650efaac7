"""Carries the decisions of a pass out, one at a time, and notes on the pass what it has begun.

What is begun here (a move, a stop, a release) is in force once the pass has written its status: a crash before that leaves nothing behind.
"""

from __future__ import annotations

from hyperscale.control.apply.actions import Actions
from hyperscale.control.controller.context import ReconcileContext
from hyperscale.control.lifecycle.stoppable import epochs_safe
from hyperscale.control.lifecycle.unscheduled import begun
from hyperscale.control.milestones import Milestone, OnMilestone
from hyperscale.control.scheduler.control_context import ControlContext
from hyperscale.control.scheduler.planner_client import Planning
from hyperscale.model.decision import (
    BeginMigration,
    BeginPreemption,
    CreateMpiJob,
    Decision,
    DeletePods,
    EnsureInspection,
    EnsurePartitions,
    FindWorkload,
    MakePlan,
    OpenLauncher,
    ReleaseGang,
    ReleaseWorkers,
    SetSuspend,
    TakeAlternative,
)
from hyperscale.model.observed.reconcile_input import ReconcileInput
from hyperscale.model.plan import Plan
from hyperscale.model.status import LastMigration
from hyperscale.util.rfc3339 import timestamp


class Steps:
    """The hands of the reconciler."""

    def __init__(self, context: ControlContext, planning: Planning, actions: Actions, on_milestone: OnMilestone) -> None:
        self._planning = planning
        self._actions = actions
        self._telemetry = context.telemetry
        self._clock = context.clock
        self._on_milestone = on_milestone

    async def take(self, run: ReconcileContext, state: ReconcileInput, decision: Decision) -> bool:
        """Carry one decision out; False when there is nothing more to decide in this pass."""
        match decision:
            case MakePlan() | TakeAlternative():
                await self._plan(run, state, decision)
            case EnsurePartitions() | EnsureInspection() | FindWorkload():
                await self._read(run, state, decision)
            case CreateMpiJob() if state.job.parsed is not None:
                await self._actions.create_mpijob(run.key, state, state.job.parsed, run.began)
            case ReleaseWorkers() if state.job.parsed is not None:
                await self._actions.release(state, decision, state.job.parsed)
            case OpenLauncher():
                await self._actions.open_launcher(state, decision)
            case SetSuspend():
                await self._actions.set_suspend(run.key, state, decision)
            case BeginMigration() if decision.plan is not None:
                await self._begin_move(run, state, decision.plan)
            case BeginPreemption() | ReleaseGang():
                self._stop(run, state, decision)
            case DeletePods():
                await self._actions.delete_pods(state, decision)
                return False
            case _:
                return False
        return True

    async def _read(self, run: ReconcileContext, state: ReconcileInput, decision: Decision) -> None:
        """Read what is not watched, once a pass; a Job that is not there is created."""
        if isinstance(decision, FindWorkload):
            run.workload_looked = True
            mpijob = state.gang.mpijob
            run.workload = await self._actions.find_workload(run.key, mpijob) if mpijob is not None else None
        elif state.job.parsed is not None and isinstance(decision, EnsureInspection):
            run.inspection_looked = True
            await self._actions.ensure_inspection(run.key, state, state.job.parsed, run.began, again=decision.again)
        elif state.job.parsed is not None:
            run.partition_looked = True
            await self._actions.ensure_partitions(run.key, state, state.job.parsed, run.began)

    async def _plan(self, run: ReconcileContext, state: ReconcileInput, step: MakePlan | TakeAlternative) -> None:
        """Ask the planners, or put in force what they offered and a person prefers."""
        if isinstance(step, MakePlan):
            await self._make_plan(run, state, step)
        elif step.plan is not None:
            await self._take_alternative(run, state, step.plan)

    async def _make_plan(self, run: ReconcileContext, state: ReconcileInput, step: MakePlan) -> None:
        answer, snapshot, run.turn = await self._planning.make(run.key, state, step, run.policy)
        if not isinstance(answer, Plan):
            run.refusal = answer
            return
        mpijob = state.gang.mpijob
        if mpijob is not None:
            await self._actions.write_plan_file(state.job.metadata, answer)
        run.plan, run.refusal, run.metrics = answer, None, snapshot.metrics
        shrinks = step.may_shrink and mpijob is not None and len(answer.workers) < mpijob.workers
        run.plan_changes += 1 if step.counts_as_replan or shrinks else 0
        if mpijob is not None and mpijob.suspended:
            # From here on like a move: the plan is written down, then the MPIJob resumed on it.
            run.resuming = True
        if state.restart.preempted:
            self._telemetry.preemptions.labels(outcome="Resumed").inc()
        if shrinks:
            self._note_move(run, state, answer)
        self._telemetry.predicted_seconds.labels(*run.key).set(answer.predicted.epoch_seconds)
        self._on_milestone(Milestone.PLANNED)

    async def _take_alternative(self, run: ReconcileContext, state: ReconcileInput, plan: Plan) -> None:
        """The plan that a person prefers is in force, unless the checker refuses it on the cluster of now."""
        snapshot, run.preference_fault = await self._planning.take_alternative(run.key, state, plan, run.policy)
        if run.preference_fault:
            return
        run.plan, run.refusal, run.metrics = plan, None, snapshot.metrics
        self._telemetry.predicted_seconds.labels(*run.key).set(plan.predicted.epoch_seconds)
        self._on_milestone(Milestone.PLANNED)

    def _stop(self, run: ReconcileContext, state: ReconcileInput, decision: BeginPreemption | ReleaseGang) -> None:
        """A stop for others, or of ranks that the scheduler leaves waiting; it is in force once this pass has reported it."""
        if isinstance(decision, BeginPreemption):
            run.last_preemption = self._planning.preemption.begin(run.key, run.policy)
            self._on_milestone(Milestone.PREEMPTION_STARTED)
        else:
            run.scheduling = begun(state)
            self._telemetry.scheduling_timeouts.inc()
            self._on_milestone(Milestone.GANG_RELEASED)

    async def _begin_move(self, run: ReconcileContext, state: ReconcileInput, plan: Plan) -> None:
        """The new plan is in force once this pass has reported it; until then nothing has happened."""
        snapshot = await self._planning.begin_move(run.key, plan, run.policy)
        if snapshot is None:
            return
        await self._actions.write_plan_file(state.job.metadata, plan)
        run.plan, run.metrics = plan, snapshot.metrics
        run.plan_changes += 1
        self._note_move(run, state, plan)
        self._telemetry.predicted_seconds.labels(*run.key).set(plan.predicted.epoch_seconds)
        self._on_milestone(Milestone.MIGRATION_STARTED)

    def _note_move(self, run: ReconcileContext, state: ReconcileInput, plan: Plan) -> None:
        """A running job's new plan is to be carried out by a stop and a start."""
        job, gang, migration = state.job, state.gang, state.restart.migration
        moved = len([pod for pod in gang.workers if pod.index in range(len(plan.workers)) and pod.node != plan.node_of(pod.index or 0)])
        kept = epochs_safe(job.parsed, gang.measured, job.status, migration.epochs_done if migration is not None else 0.0)
        run.last_migration = LastMigration(timestamp(self._clock()), moved, kept)
