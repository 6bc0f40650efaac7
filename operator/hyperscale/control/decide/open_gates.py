"""Gates: the workers' open all together or not at all, the launcher's after all workers are Ready."""

from __future__ import annotations

from hyperscale.control.decide.recover_workers import plan_gated_workers
from hyperscale.control.decide.release_gang import delay_of_release
from hyperscale.model import constants
from hyperscale.model.decision import Decision, OpenLauncher, Reason, ReleaseWorkers, Stop, Wait
from hyperscale.model.observed.reconcile_input import ReconcileInput
from hyperscale.model.plan import Plan


def gates_closed(state: ReconcileInput) -> Decision | None:
    """Open the gates once every worker's pod exists and its node still has capacity: all or none."""
    gang = state.gang
    gated, plan, mpijob = gang.gated_workers, state.plan.in_force, gang.mpijob
    if not gated or plan is None or mpijob is None:
        return None
    if (incomplete := _gang_incomplete(state, plan)) is not None:
        return incomplete
    if state.capacity.misfits:
        return plan_gated_workers(state, mpijob, gated)
    if not state.plan.recorded:
        return Wait(Reason.PLAN_UNRECORDED, retry_after_seconds=0.0)
    if (delay := delay_of_release(state)) is not None:
        return delay
    return _open_gates(state, plan)


def _gang_incomplete(state: ReconcileInput, plan: Plan) -> Wait | None:
    """Wait for a worker pod that does not exist yet, or for the queue to assign a topology domain."""
    present = {pod.index for pod in state.gang.workers if not pod.terminating}
    if len(present) < len(plan.workers):
        return Wait(Reason.PODS_MISSING, f"{len(present)} of {len(plan.workers)} worker pods exist")
    if any(constants.KUEUE_TOPOLOGY_GATE in pod.gates for pod in state.gang.gated_workers):
        return Wait(Reason.WAITING_FOR_QUEUE, "the queue has not assigned its topology domain yet")
    return None


def _open_gates(state: ReconcileInput, plan: Plan) -> Decision:
    """Open the gates of a first start, or of replacements where the spec allows them."""
    gang = state.gang
    replaces = any(pod.bound for pod in gang.workers)
    if replaces and not state.job.spec.recovery.replace_lost_workers:
        return Stop(Reason.WORKER_LOST, "spec.recovery.replaceLostWorkers is false: the replacement pods stay gated")
    reason = Reason.REPLACING if replaces else Reason.PLACING
    return ReleaseWorkers(reason, nodes={pod.uid: plan.node_of(pod.index) for pod in gang.gated_workers if pod.index is not None})


def launcher_closed(state: ReconcileInput) -> Decision | None:
    """Open the launcher's gate when every worker is Ready, also after a suspension (mpi-operator#615)."""
    gang = state.gang
    gated = [pod.uid for pod in gang.launchers if constants.LAUNCHER_GATE in pod.gates and not pod.terminating]
    if not gated or gang.mpijob is None:
        return None
    ready = sum(1 for pod in gang.workers if pod.ready and not pod.terminating)
    if ready < gang.mpijob.workers:
        return Wait(Reason.WORKERS_STARTING, f"{ready} of {gang.mpijob.workers} workers are ready")
    return OpenLauncher(Reason.OPENING_LAUNCHER, pod_uids=tuple(sorted(gated)))
