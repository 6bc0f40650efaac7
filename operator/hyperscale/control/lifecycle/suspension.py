"""Who suspended or resumed an MPIJob: the operator, as it recorded, or another. Pure.

The operator writes `runPolicy.suspend` and the annotation `hyperscale.dev/suspend` in one request, also at creation. Where the two differ,
another has written last: a person, Kueue, any controller, or a webhook that changed the operator's own request.
"""

from __future__ import annotations

from hyperscale.model.decision import Reason
from hyperscale.model.observed.owned_objects import MpiJobView
from hyperscale.model.status import JobStatus

_OWN_STOPS = ("Migrating", "Preempted")
"""Conditions under which the operator itself suspends."""


def suspended_by_other(mpijob: MpiJobView, status: JobStatus) -> bool:
    """Whether another suspended the MPIJob, and no queue is named that would do so."""
    return mpijob.suspended and not mpijob.queue and not _suspended_by_operator(mpijob, status)


def resumed_by_other(mpijob: MpiJobView) -> bool:
    """Whether another resumed an MPIJob that the operator had suspended."""
    return not mpijob.suspended and not mpijob.holder and mpijob.suspend_intent is True


def awaits_report(status: JobStatus) -> bool:
    """Whether the status still says that the operator is moving or preempting the job."""
    return any(map(status.is_true, _OWN_STOPS))


def _suspended_by_operator(mpijob: MpiJobView, status: JobStatus) -> bool:
    """By the annotation; an MPIJob of an earlier version has none: there the status tells."""
    if mpijob.suspend_intent is not None:
        return mpijob.suspend_intent
    suspended = status.condition("Suspended")
    own = suspended is not None and (suspended.status, suspended.reason) == ("True", Reason.SUSPENDED)
    return own or awaits_report(status)
