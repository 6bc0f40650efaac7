"""Recovery: replace workers on lost nodes, or continue with fewer workers."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from msgspec.structs import replace

from hyperscale.control.decide.plan_job import REPLAN_AFTER_SECONDS, misfits_text, request_plan
from hyperscale.control.lifecycle.movable import migration_blocker, resizable
from hyperscale.model.api.job import PlacementMode
from hyperscale.model.decision import Decision, DeletePods, MakePlan, Reason, Stop, Wait
from hyperscale.model.observed.owned_objects import MpiJobView
from hyperscale.model.observed.reconcile_input import ReconcileInput
from hyperscale.model.pods import PodView
from hyperscale.util.rfc3339 import timestamp, unix_seconds


def stuck_on_lost_node(state: ReconcileInput) -> Decision | None:
    """Delete pods that can never run or end: pinned to a lost node, or (opt-in) Terminating on an unreachable one."""
    recovery = state.job.spec.recovery
    if not recovery.replace_lost_workers:
        return None
    misfit_nodes = {misfit.node for misfit in state.capacity.misfits}
    pinned = [pod.uid for pod in state.gang.workers if _pinned_unbound(pod, state, misfit_nodes)]
    if pinned and state.job.status.plan_changes < recovery.max_plan_changes:
        return DeletePods(Reason.NODE_LOST, f"{misfits_text(state)}; their waiting pods are replaced", pod_uids=tuple(sorted(pinned)))
    if recovery.force_delete_after_seconds is None:
        return None
    hung = _hung_pods(state, recovery.force_delete_after_seconds)
    return DeletePods(Reason.NODE_LOST, "stuck on an unreachable node", pod_uids=tuple(sorted(hung)), force=True) if hung else None


def _hung_pods(state: ReconcileInput, limit_seconds: float) -> list[str]:
    """Return the uids of pods that have been Terminating on an unreachable node for at least `limit_seconds`."""
    server_now = state.clock.now + state.clock.server_ahead_seconds
    return [
        pod.uid
        for pod in state.gang.pods
        if pod.terminating and pod.node in state.capacity.unreachable_nodes and server_now - unix_seconds(pod.deletion) >= limit_seconds
    ]


def plan_gated_workers(state: ReconcileInput, mpijob: MpiJobView, gated: list[PodView]) -> Decision:
    """Plan only workers again that are still gated; the others keep node and data."""
    job, clock = state.job, state.clock
    recovery = job.spec.recovery
    pinned = _bound_nodes(state.gang.workers, without={pod.index for pod in gated})
    if pinned and job.status.plan_changes >= recovery.max_plan_changes:
        used_up = f"{misfits_text(state)}, and spec.recovery.maxPlanChanges ({recovery.max_plan_changes}) is used up; raise it"
        return Stop(Reason.PLAN_CHANGES_EXHAUSTED, used_up)
    step = MakePlan(
        Reason.PLAN_STALE,
        misfits_text(state),
        workers_fixed=mpijob.workers,
        pinned=pinned,
        excluded_nodes=tuple(sorted({misfit.node for misfit in state.capacity.misfits} - set(pinned.values()))),
        counts_as_replan=bool(pinned),
    )
    due = _shrinks_at(state)
    answer = request_plan(state, replace(step, may_shrink=due is not None and clock.now >= due))
    if due is None or clock.now >= due or not isinstance(answer, Wait):
        return answer
    message = f"{answer.message.removesuffix('.')}; from {timestamp(due)} on it may go on with fewer workers"
    return replace(answer, message=message, retry_after_seconds=min(REPLAN_AFTER_SECONDS, due - clock.now))


def _bound_nodes(workers: Iterable[PodView], without: Collection[int | None]) -> dict[int, str]:
    """Return the nodes of bound workers by index, except of those `without`."""
    return {pod.index: pod.node for pod in workers if pod.bound and pod.index is not None and pod.index not in without}


def _shrinks_at(state: ReconcileInput) -> float | None:
    """Return the Unix seconds from which a job without capacity for its lost workers may continue with fewer; None: never."""
    mpijob, spec, status = state.gang.mpijob, state.job.spec, state.job.status
    after_seconds = spec.recovery.shrink_after_seconds
    if mpijob is None or after_seconds is None or not spec.recovery.replace_lost_workers or not resizable(spec, mpijob):
        return None
    if mpijob.workers <= spec.workers.min_replicas or migration_blocker(spec, mpijob, status.plan_changes):
        return None
    placed = next((condition for condition in status.conditions if condition.type == "Placed" and condition.status == "False"), None)
    return (unix_seconds(placed.last_transition_time) if placed is not None else state.clock.now) + after_seconds


def _pinned_unbound(pod: PodView, state: ReconcileInput, misfit_nodes: set[str]) -> bool:
    """Whether the pod's gate opened for a node that can no longer take it, before the scheduler bound it."""
    plan = state.plan
    if pod.bound or pod.gates or pod.terminating or plan.in_force is None or pod.index is None or pod.index >= len(plan.in_force.workers):
        return False
    strict = state.job.spec.placement.mode is PlacementMode.STRICT
    return strict and plan.in_force.node_of(pod.index) in misfit_nodes
