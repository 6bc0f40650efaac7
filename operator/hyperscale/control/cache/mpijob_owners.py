"""Whether an MPIJob with a job's name is the job's: creators of MPIJobs may name any owner and write any plan on them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from hyperscale.control.cache.records import JobRecord, Key
from hyperscale.model.observed.owned_objects import MpiJobView
from hyperscale.model.plan import Plan

Json = dict[str, Any]
MayStart = Callable[[Json, Mapping[str, Json], Plan | None], bool]
"""Whether a job, under these policies, may have an MPIJob with that plan."""
MAX_ENDED: Final = 4096
"""Deleted jobs whose MPIJobs the garbage collector may not have reached yet, and MPIJobs that stopped."""


class MpiJobOwners:
    """What this process knows of who created which MPIJob."""

    def __init__(self, may_start: MayStart) -> None:
        self._may_start = may_start
        self._made: dict[Key, str] = {}
        """Uids of MPIJobs that this process created, until the status of their jobs names them."""
        self._ended: dict[str, None] = {}
        """Uids of jobs that were deleted lately."""
        self.stopped: dict[str, tuple[Key, float]] = {}
        """Uids of MPIJobs that ran and do not run any more: names, and Unix seconds. Their pods follow; the oldest are forgotten."""

    def note_created(self, key: Key, uid: str) -> None:
        """Note an MPIJob that this process has created."""
        self._made[key] = uid

    def note_deleted_job(self, key: Key, uid: str) -> None:
        """Note a job that is gone; its MPIJob may still be there for a while."""
        self._made.pop(key, None)
        self._ended[uid] = None
        while len(self._ended) > MAX_ENDED:
            del self._ended[next(iter(self._ended))]

    def note_stopped(self, key: Key, before: MpiJobView | None, now: MpiJobView | None, at: float) -> None:
        """Note where a job's own MPIJob does not run any more: it has ended, is suspended or deleted, or its job is deleted."""
        if before is not None and before.runs and (now is None or now.uid != before.uid or not now.runs):
            self.stopped[before.uid] = key, at
        while len(self.stopped) > MAX_ENDED:
            del self.stopped[next(iter(self.stopped))]

    def is_left_over(self, view: MpiJobView) -> bool:
        """Whether an MPIJob belongs to a job that was deleted lately."""
        return view.owner_uid in self._ended

    def is_own(self, key: Key, view: MpiJobView, record: JobRecord, policies: Mapping[str, Json]) -> bool:
        """Whether an MPIJob with a job's name is the one that the job's status names, or before that one that names the job as controller.

        A job that may not start has none before its status names one. What a forged one of another job can hold is bounded by the job's
        spec (`assumed_plans.within_spec`), and the job's next pass plans again what does not fit.
        """
        reference = record.status.mpi_job_ref
        if reference is not None and reference.uid == self._made.get(key):
            del self._made[key]
        named = reference is None or view.uid in (reference.uid, self._made.get(key))
        return named and bool(view.uid) and view.owner_uid == record.uid and not self.is_forged(key, view, record, policies)

    def is_forged(self, key: Key, view: MpiJobView, record: JobRecord, policies: Mapping[str, Json]) -> bool:
        """Whether an MPIJob names the job as its controller, and the operator cannot have made it.

        One that the status names, or whose job cannot be decoded, is given the benefit of the doubt.
        """
        if view.owner_uid != record.uid or view.uid == self._made.get(key):
            return False
        if record.status.mpi_job_ref is not None or record.undecoded:
            return False
        try:
            return not self._may_start(record.resource, policies, view.plan)
        except Exception:  # a stranger wrote the spec: a job that raises here cannot be started either
            return True
