"""What the last question said of a job, and whether it would be said again."""

from __future__ import annotations

from dataclasses import dataclass

from hyperscale.control.scheduler.queue_entry import SpecRevision
from hyperscale.model.admission_query import Deferral, QueueScore, Start
from hyperscale.model.api.policy import PolicySpec
from hyperscale.model.cluster import ClusterSnapshot


@dataclass(frozen=True)
class CachedVerdict:
    """What a question said of one job."""

    edition: SpecRevision
    policy: PolicySpec
    snapshot: int
    """Number of the snapshot (`SnapshotNumbers`)."""
    version: int
    """Of the cache, after the question's plans were taken."""
    at: float
    """By the clock that is never set."""
    score: QueueScore | None
    others: int = 0
    """Jobs that the question was about beside this one."""
    start: Start | None = None
    made_on: ClusterSnapshot | None = None
    """What the plan of a start was made on; None for a job that waits, which may do so for days."""
    hold: Deferral | None = None
    fallbacks: tuple[str, ...] = ()


@dataclass
class Grant:
    """A start that its job has not taken yet."""

    verdict: CachedVerdict
    passes: int = 0
    """Passes over the job that ended without taking it."""


class SnapshotNumbers:
    """Tells snapshots apart and keeps the last one only: those of large clusters take megabytes each."""

    def __init__(self) -> None:
        self._last: ClusterSnapshot | None = None
        self._number = 0

    def of(self, snapshot: ClusterSnapshot) -> int:
        """The number of a snapshot; one that comes again after another counts as new."""
        if snapshot is not self._last:
            self._last, self._number = snapshot, self._number + 1
        return self._number
