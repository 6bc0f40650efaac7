"""Which running jobs the operator may move automatically, and how a proposed move reads. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from hyperscale.model.api.condition import Condition
from hyperscale.model.api.job import JobSpec, PlacementMode, StartPolicy
from hyperscale.model.observed.owned_objects import MpiJobView
from hyperscale.model.observed.reconcile_input import ReconcileInput
from hyperscale.model.plan import Plan, WorkerPlacement
from hyperscale.model.pods import PodView
from hyperscale.model.running_query import JobMigration
from hyperscale.model.status import MAX_MOVED, JobStatus, ProposedMigration, WorkerMigration

MIGRATING_CONDITION = "Migrating"
PROPOSED_CONDITION = "MigrationProposed"
ADVISES = "the PlannerPolicy only advises"
MATERIAL_RATIO = 0.1
DIGITS = 4
"""Of figures in status: less is noise."""


def migration_blocker(job: JobSpec, mpijob: MpiJobView, replans: int) -> str:
    """Why the operator must not stop and start this job on its own; empty where it may."""
    if mpijob.holder:
        return f"{mpijob.holder} owns the MPIJob"
    if job.checkpoint is None:
        return "spec.checkpoint is not set, a restart would lose all work"
    if job.placement.mode is not PlacementMode.STRICT:
        return "spec.placement.mode is not Strict"
    if job.start_policy is StartPolicy.MANUAL:
        return "spec.startPolicy is Manual"
    if replans >= job.recovery.max_plan_changes:
        return f"spec.recovery.maxPlanChanges ({job.recovery.max_plan_changes}) is used up"
    return ""


def resizable(job: JobSpec, mpijob: MpiJobView) -> bool:
    """Whether a suspended MPIJob may be resumed with another number of workers than it had.

    A person approved a plan of the former number of workers; a queue admitted that number.
    """
    return mpijob.resizable and not mpijob.holder and job.start_policy is StartPolicy.AUTOMATIC


def resizes(state: ReconcileInput) -> bool:
    """Whether the plan in force has another number of workers than the MPIJob."""
    plan, mpijob = state.plan.in_force, state.gang.mpijob
    return plan is not None and mpijob is not None and len(plan.workers) != mpijob.workers


def is_moving(status: JobStatus) -> bool:
    """Whether a move was written down that has not ended."""
    return status.is_true(MIGRATING_CONDITION)


def holds_plan(mpijob: MpiJobView, moving: bool) -> bool:
    """Whether an MPIJob's plan takes GPUs beside those of bound pods: it is gated, unfinished, and runs or moves."""
    return mpijob.gated and (moving or not mpijob.suspended) and not (mpijob.is_true("Succeeded") or mpijob.is_true("Failed"))


def held_gpus(plan: Plan, pods: Iterable[PodView], moving: bool) -> dict[str, int]:
    """GPUs by node that a plan holds beside bound pods.

    A worker that moves holds its new node while its old pod still runs or ends elsewhere.
    """
    gpus_by_node: dict[str, int] = {}
    for worker in _unbound(plan, pods, moving):
        gpus_by_node[worker.node] = gpus_by_node.get(worker.node, 0) + worker.gpus
    return gpus_by_node


def _unbound(plan: Plan, pods: Iterable[PodView], moving: bool) -> Iterator[WorkerPlacement]:
    """Ranks whose planned node no bound pod shows."""
    bound = {pod.index: pod.node for pod in pods if pod.bound and pod.role == "worker"}
    return (worker for worker in plan.workers if worker.index not in bound or (moving and bound[worker.index] != worker.node))


def misplaced_workers(state: ReconcileInput) -> tuple[PodView, ...]:
    """Workers that are bound to another node than the plan in force says."""
    plan = state.plan.in_force
    if plan is None:
        return ()
    bound = (pod for pod in state.gang.workers if pod.bound and pod.index is not None and pod.index < len(plan.workers))
    return tuple(pod for pod in bound if pod.node != plan.node_of(pod.index or 0))


def arrived(state: ReconcileInput) -> bool:
    """Every worker of the plan in force is on its node."""
    plan, mpijob = state.plan.in_force, state.gang.mpijob
    if plan is None or resizes(state) or (mpijob is not None and mpijob.suspended):
        return False
    bound = {pod.index for pod in state.gang.workers if pod.bound}
    return not misplaced_workers(state) and len(bound) >= len(plan.workers)


def shown_move(advice: JobMigration, running: Plan, since: str, blocker: str) -> ProposedMigration:
    """Advice as the status tells it."""
    planned = advice.plan.workers if advice.plan is not None else ()
    moved = tuple(WorkerMigration(index, running.node_of(index), planned[index].node) for index in advice.moved[:MAX_MOVED])
    return ProposedMigration(
        current_epoch_seconds=short(advice.now_epoch_seconds),
        proposed_epoch_seconds=short(advice.then_epoch_seconds),
        migrated_workers=len(advice.moved),
        workers=len(running.workers),
        remaining_epochs=short(advice.remaining_epochs),
        saved_seconds=short(advice.saved_seconds),
        cost_seconds=short(advice.price_seconds),
        first_proposed_time=since,
        worker_migrations=moved,
        blocker=blocker[:256],
    )


def material(shown: ProposedMigration, fresh: ProposedMigration) -> bool:
    """Whether the difference is worth another write: other numbers of workers, other reasons, or epochs that differ by a tenth.

    That the saving shrinks while the job runs is no news.
    """
    if (shown.migrated_workers, shown.workers, shown.blocker) != (fresh.migrated_workers, fresh.workers, fresh.blocker):
        return True
    pairs = ((shown.current_epoch_seconds, fresh.current_epoch_seconds), (shown.proposed_epoch_seconds, fresh.proposed_epoch_seconds))
    return any(abs(new - old) > MATERIAL_RATIO * old for old, new in pairs)


def proposed(move: ProposedMigration) -> Condition:
    """The condition that says so; the same move gives the same words."""
    workers = ", ".join(f"{worker.index}: {worker.source_node} → {worker.target_node}" for worker in move.worker_migrations)
    more = f" and {move.migrated_workers - len(move.worker_migrations)} more" if move.migrated_workers > len(move.worker_migrations) else ""
    blocked = f"; not done because {move.blocker}" if move.blocker else ""
    message = (
        f"an epoch takes {move.current_epoch_seconds:.4g} s by fresh measurements and would take {move.proposed_epoch_seconds:.4g} s "
        f"with {move.migrated_workers} of {move.workers} workers moved ({workers}{more}); over the {move.remaining_epochs:.4g} epochs left "
        f"that saves {move.saved_seconds:.4g} s for a price of {move.cost_seconds:.4g} s{blocked}"
    )
    return Condition(type=PROPOSED_CONDITION, status="True", reason="BetterPlacementFound", message=message[:2048])


def short(figure: float) -> float:
    """A figure with as many digits as the status tells."""
    return float(f"{figure:.{DIGITS}g}")
