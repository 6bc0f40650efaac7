"""What is kept of a GNNTrainingJob, and how objects are named. Pure."""

from __future__ import annotations

from typing import Any, NamedTuple

from hyperscale.model.plan import Plan
from hyperscale.model.status import JobStatus

Json = dict[str, Any]


class Key(NamedTuple):
    """An object by name; a cluster-scoped one has no namespace."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


class JobRecord(NamedTuple):
    """A GNNTrainingJob as last seen."""

    resource: Json
    """Metadata and spec; see `objects.UNREADABLE` for one that cannot be used."""
    status: JobStatus
    status_fault: str = ""
    """Why the status as stored cannot be the operator's own; `status` is empty then."""
    max_workers: int = 0
    """spec.workers.max; 0 where the spec cannot be read."""
    gpus_per_worker: int = 0

    @property
    def uid(self) -> str:
        """Of the job."""
        return str(self.resource["metadata"].get("uid") or "")

    @property
    def plan(self) -> Plan | None:
        """The plan in `status`."""
        return self.status.plan
