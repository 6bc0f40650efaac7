"""The objects that a job owns, as last read: its MPIJob and its batch Jobs."""

from __future__ import annotations

import msgspec

from hyperscale.model.plan import Plan


class MpiJobView(msgspec.Struct, frozen=True, gc=False):
    """An MPIJob as far as the operator cares."""

    name: str
    uid: str
    owner_uid: str
    """uid of the controlling owner; "" without one."""
    workers: int
    suspended: bool
    queue: str
    """Queue label; "" when no queue owns it."""
    gated: bool
    """The worker template carries the placement gate."""
    resizable: bool = False
    """Its launcher goes by the plan in force, so that it may be resumed with another number of workers."""
    conditions: dict[str, tuple[bool, str, str]] = {}
    """By type: (is true, reason, message)."""
    plan: Plan | None = None
    """From the plan annotation; None when absent or unreadable."""
    plan_fault: str = ""
    """Why the plan annotation cannot be used; "" where it can, or is absent."""
    fault: str = ""
    """Why the MPIJob cannot be read; of the rest only what identifies it is there then."""
    start_time: str = ""
    completion_time: str = ""
    launcher_failures: int = 0
    deleting: bool = False
    resource_version: str = ""
    suspend_intent: bool | None = None
    """`suspend` as the operator wrote it last (annotation hyperscale.dev/suspend); None on an MPIJob of an earlier version."""
    suspender: str = ""
    """Field manager that changed `suspend` last; "" where that is the operator, or unknown."""
    worker_amounts: dict[str, float] = {}
    """What one of its worker pods takes of a node beside GPUs, by resource name; empty where its template cannot be read."""
    workload: str = ""
    """Kueue's Workload that has admitted it; "" where none has."""

    @property
    def holder(self) -> str:
        """The external queue that decides when it runs, in words; "" without one."""
        if self.queue:
            return f'queue "{self.queue}"'
        return f'Kueue Workload "{self.workload}"' if self.workload else ""

    @property
    def ending(self) -> str | None:
        """`Succeeded` or `Failed` once the run has ended, else None."""
        return next((kind for kind in ("Succeeded", "Failed") if self.is_true(kind)), None)

    @property
    def runs(self) -> bool:
        """Whether it holds what its plan says, as one of ours."""
        return self.gated and not self.suspended and self.ending is None

    def is_true(self, condition: str) -> bool:
        """Whether a condition of that type is True."""
        return self.conditions.get(condition, (False, "", ""))[0]


class BatchJobView(msgspec.Struct, frozen=True, gc=False):
    """The Job that writes a job's partitions, reads the sizes of its graph or tries its code, as last read."""

    uid: str
    owner_uid: str
    """uid of the controlling owner; "" without one."""
    key: str
    """What it makes partitions from, which `spec.dataset` it reads, or what it tries."""
    succeeded: bool = False
    failed: bool = False
    message: str = ""
    """Why it failed, in the Job controller's words."""
    deleting: bool = False
    created: str = ""
    """metadata.creationTimestamp, RFC 3339."""
    overdue: bool = False
    """It failed because its time was up."""
