"""Which reasons mean that a job is stalled, at rest, ended or suspended."""

from __future__ import annotations

from typing import Final

from hyperscale.model.decision import Reason
from hyperscale.model.plan import NEVER_FITS, VOLUME_MISSING

STALLED: Final = frozenset(
    {
        Reason.INVALID_SPEC,
        Reason.INVALID_POD_TEMPLATE,
        Reason.NAME_CONFLICT,
        Reason.UNREADABLE_MPIJOB,
        Reason.DATASET_UNREADABLE,
        Reason.PREFLIGHT_FAILED,
        Reason.PREFLIGHT_UNKNOWN,
        Reason.PARTITIONING_FAILED,
        Reason.REJECTED_BY_PERSON,
        Reason.PLAN_CHANGES_EXHAUSTED,
        Reason.WORKER_LOST,
        Reason.FAILED,
        NEVER_FITS,
    }
)
"""Reasons for which only a person can help (kstatus: Stalled)."""

AT_REST: Final = STALLED | {
    Reason.RUNNING,
    Reason.SUCCEEDED,
    Reason.SUSPENDED,
    Reason.SUSPENDED_EXTERNALLY,
    Reason.RESUMED_EXTERNALLY,
    Reason.QUEUED,
    Reason.QUEUED_BY_KUEUE,
    Reason.START_POLICY_NEVER,
    Reason.AWAITING_APPROVAL,
}
"""Reasons in which the operator is not on its way to anything (kstatus: not Reconciling)."""

HELD_BACK: Final = AT_REST | {VOLUME_MISSING}
"""Reasons for which the queue cannot start a job, whatever GPUs are free: that time is no wait."""

ENDED: Final = frozenset({Reason.SUCCEEDED, Reason.FAILED})
"""The run has ended: its pods are gone, or going."""

UNSIZED: Final = frozenset({Reason.INSPECTING_DATASET, Reason.DATASET_UNREADABLE})
"""The size of the training graph is not known, so that no plan counts."""

SUSPENDED: Final = frozenset({Reason.SUSPENDED, Reason.SUSPENDED_EXTERNALLY, Reason.QUEUED, Reason.QUEUED_BY_KUEUE})
"""Reasons for which the MPIJob is suspended and the operator waits for another."""
