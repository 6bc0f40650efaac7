"""Named points of a reconcile after which a restarted operator must be able to continue."""

from __future__ import annotations

import enum
from collections.abc import Callable


class Milestone(enum.StrEnum):
    """A point between two effects of a reconcile."""

    LOOK = "look"
    PLANNED = "planned"
    MIGRATION_STARTED = "move-begun"
    PREEMPTION_STARTED = "stop-begun"
    GANG_RELEASED = "gang-released"
    BEFORE_PLAN_FILE = "before-plan-file"
    PLAN_FILE = "plan-file"
    BEFORE_INSPECTION = "before-inspection"
    INSPECTION_CREATED = "inspection-created"
    INSPECTION_DELETED = "inspection-deleted"
    BEFORE_PREFLIGHT = "before-preflight"
    PREFLIGHT_CREATED = "preflight-created"
    PREFLIGHT_DELETED = "preflight-deleted"
    BEFORE_PARTITION = "before-partition"
    PARTITION_CREATED = "partition-created"
    PARTITION_DELETED = "partition-deleted"
    BEFORE_CREATE = "before-create"
    CREATED = "created"
    FIRST_GATE_OPENED = "first-released"
    GATES_OPENED = "released"
    BEFORE_LAUNCHER = "before-launcher"
    BEFORE_SUSPEND = "before-suspend"
    BEFORE_RESUME = "before-resume"
    BEFORE_STATUS = "before-status"
    AFTER_STATUS = "after-status"


OnMilestone = Callable[[Milestone], None]
"""Is called when a reconcile reaches a milestone; the fault tests pass one that kills the process."""


def ignore(milestone: Milestone) -> None:
    """Continue: the operator itself does nothing at a milestone."""
