"""Carries the decisions of a pass out, one at a time, and notes on the pass what it has begun.

What is begun here (a move, a stop, a release) is in force once the pass has written its status: a crash before that leaves nothing behind.
"""

from __future__ import annotations

from collections.abc import Callable

from hyperscale.control.apply.actions import Actions
from hyperscale.control.controller.context import ReconcileContext
from hyperscale.control.lifecycle.stoppable import epochs_safe
from hyperscale.control.lifecycle.unscheduled import begun
from hyperscale.control.scheduler.planner_client import Planning
from hyperscale.control.telemetry.metrics import Telemetry
from hyperscale.model.decision import (
    BeginMove,
    BeginStop,
    CreateMpiJob,
    Decision,
    DeletePods,
    EnsurePartitions,
    FindWorkload,
    MakePlan,
    OpenLauncher,
    ReleaseGang,
    ReleaseWorkers,
    SetSuspend,
)
from hyperscale.model.observed.reconcile_input import ReconcileInput
from hyperscale.model.plan import Plan
from hyperscale.model.status import LastMove
from hyperscale.util.rfc3339 import timestamp


class Steps:
    """The hands of the reconciler."""

    def __init__(self, planning: Planning, actions: Actions, telemetry: Telemetry, clock: Callable[[], float]) -> None:
        """clock: Unix seconds."""
        self._planning = planning
        self._actions = actions
        self._telemetry = telemetry
        self._clock = clock

    async def take(self, run: ReconcileContext, seen: ReconcileInput, decision: Decision) -> bool:
        """Carry one decision out; False when there is nothing more to decide in this pass."""
        match decision:
            case MakePlan():
                await self._plan(run, seen, decision)
            case EnsurePartitions() | FindWorkload():
                await self._read(run, seen, decision)
            case CreateMpiJob() if seen.job is not None:
                await self._actions.create_mpijob(run.key, seen, seen.job, run.began)
            case ReleaseWorkers() if seen.job is not None:
                await self._actions.release(seen, decision, seen.job)
            case OpenLauncher():
                await self._actions.open_launcher(seen, decision)
            case SetSuspend():
                await self._actions.set_suspend(run.key, seen, decision)
            case BeginMove() if decision.plan is not None:
                await self._begin_move(run, seen, decision.plan)
            case BeginStop() | ReleaseGang():
                self._stop(run, seen, decision)
            case DeletePods():
                await self._actions.delete_pods(seen, decision)
                return False
            case _:
                return False
        return True

    async def _read(self, run: ReconcileContext, seen: ReconcileInput, decision: EnsurePartitions | FindWorkload) -> None:
        """Read what is not watched, once a pass; a partition Job that is not there is created."""
        if isinstance(decision, FindWorkload):
            run.workload_looked = True
            run.workload = await self._actions.find_workload(run.key, seen.mpijob) if seen.mpijob is not None else None
        elif seen.job is not None:
            run.partition_looked = True
            await self._actions.ensure_partitions(run.key, seen, seen.job, run.began)

    async def _plan(self, run: ReconcileContext, seen: ReconcileInput, step: MakePlan) -> None:
        answer, snapshot, run.turn = await self._planning.make(run.key, seen, step, run.policy)
        if not isinstance(answer, Plan):
            run.refusal = answer
            return
        if seen.mpijob is not None:
            await self._actions.write_plan_file(seen.metadata, answer)
        run.plan, run.refusal, run.metrics = answer, None, snapshot.metrics
        shrinks = step.may_shrink and seen.mpijob is not None and len(answer.workers) < seen.mpijob.workers
        run.replans += 1 if step.counts_as_replan or shrinks else 0
        if seen.mpijob is not None and seen.mpijob.suspended:
            # From here on like a move: the plan is written down, then the MPIJob resumed on it.
            run.resuming = True
        if seen.preempted:
            self._telemetry.preemptions.labels(outcome="resumed").inc()
        if shrinks:
            self._note_move(run, seen, answer)
        self._telemetry.predicted_seconds.labels(*run.key).set(answer.predicted.epoch_seconds)
        self._actions.probe("planned")

    def _stop(self, run: ReconcileContext, seen: ReconcileInput, decision: BeginStop | ReleaseGang) -> None:
        """A stop for others, or of ranks that the scheduler leaves waiting; it is in force once this pass has reported it."""
        if isinstance(decision, BeginStop):
            run.last_stop = self._planning.stops.begin(run.key, run.policy)
            self._actions.probe("stop-begun")
        else:
            run.scheduling = begun(seen)
            self._telemetry.scheduling_timeouts.inc()
            self._actions.probe("gang-released")

    async def _begin_move(self, run: ReconcileContext, seen: ReconcileInput, plan: Plan) -> None:
        """The new plan is in force once this pass has reported it; until then nothing has happened."""
        snapshot = await self._planning.begin_move(run.key, plan, run.policy)
        if snapshot is None:
            return
        await self._actions.write_plan_file(seen.metadata, plan)
        run.plan, run.metrics = plan, snapshot.metrics
        run.replans += 1
        self._note_move(run, seen, plan)
        self._telemetry.predicted_seconds.labels(*run.key).set(plan.predicted.epoch_seconds)
        self._actions.probe("move-begun")

    def _note_move(self, run: ReconcileContext, seen: ReconcileInput, plan: Plan) -> None:
        """A running job's new plan is to be carried out by a stop and a start."""
        moved = len([pod for pod in seen.workers if pod.index in range(len(plan.workers)) and pod.node != plan.node_of(pod.index or 0)])
        kept = epochs_safe(seen.job, seen.measured, seen.status, seen.move.epochs_done if seen.move is not None else 0.0)
        run.last_move = LastMove(timestamp(self._clock()), moved, kept)
