"""Checks that end a reconcile before any policy applies: the job is being deleted, cannot be read, or has ended."""

from __future__ import annotations

from hyperscale.control.lifecycle.run_messages import run_condition
from hyperscale.control.lifecycle.stoppable import run_is_over
from hyperscale.model.decision import Decision, Reason, Stop, Wait
from hyperscale.model.observed.reconcile_input import ReconcileInput


def deleted(state: ReconcileInput) -> Decision | None:
    """Create nothing for a job that is being deleted; the owner reference deletes its MPIJob."""
    return Stop(Reason.DELETED) if state.job.deleting else None


def name_is_taken(state: ReconcileInput) -> Decision | None:
    """Never touch an MPIJob of the job's name that the job does not own."""
    metadata, mpijob = state.job.metadata, state.gang.mpijob
    if mpijob is None or mpijob.owner_uid == metadata.uid or run_is_over(state.job.status):
        return None
    whose = "of another owner" if mpijob.owner_uid else "that this operator did not make"
    return Stop(
        Reason.NAME_CONFLICT,
        f'an MPIJob "{metadata.name}" {whose} exists in namespace {metadata.namespace}; delete it or rename this job',
    )


def unreadable_mpijob(state: ReconcileInput) -> Decision | None:
    """Leave an own MPIJob alone that cannot be read: it may run, so no second one is created."""
    mpijob = state.gang.mpijob
    if mpijob is None or not mpijob.fault or run_is_over(state.job.status):
        return None
    name, fault = state.job.metadata.name, mpijob.fault
    return Stop(Reason.UNREADABLE_MPIJOB, f'the MPIJob "{name}" cannot be read: {fault}; delete it, and the operator creates it again')


def finished(state: ReconcileInput) -> Decision | None:
    """A run ends once: no restart of the operator, TTL of the MPIJob or other MPIJob of that name starts it again."""
    status, mpijob = state.job.status, state.gang.mpijob
    if mpijob is not None and mpijob.owner_uid == state.job.metadata.uid and not mpijob.fault:
        for condition, reason in (("Succeeded", Reason.SUCCEEDED), ("Failed", Reason.FAILED)):
            if mpijob.is_true(condition):
                return Stop(reason, run_condition(state, condition)[1])
        return None
    if run_is_over(status):
        return Stop(Reason(status.state.value), "the MPIJob is gone; this run has ended")
    return None


def spec_is_bad(state: ReconcileInput) -> Decision | None:
    """Create nothing from an invalid spec; a running MPIJob continues."""
    fault = state.job.fault
    if fault is None:
        return None
    return Stop(fault.reason, f"{fault.path}: {fault.message}")


def leaving_mpijob(state: ReconcileInput) -> Decision | None:
    """Wait for an MPIJob that is being deleted: it keeps its name and its GPUs until it is gone."""
    mpijob = state.gang.mpijob
    if mpijob is not None and mpijob.deleting:
        return Wait(Reason.CREATING, "the previous MPIJob of this name is still being deleted")
    return None
