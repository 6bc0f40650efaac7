"""The operator's picture of the cluster: narrow projections of watched objects, indexed by job.

Fed by watch events, by full listings and by the operator's own writes, in any order: what is newer stays. Nothing here talks to the API.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from msgspec.structs import replace

from hyperscale.control.cache.assumed_plans import AssumedPlans, PlanRecord, plan_in_status
from hyperscale.control.cache.intake import BATCH_JOB, JOB, MPIJOB, NODE, POD, POLICY, Intake
from hyperscale.control.cache.job_standing import Standing, standing
from hyperscale.control.cache.listings import EVERYWHERE, Listing, Listings
from hyperscale.control.cache.mpijob_owners import MayStart, MpiJobOwners
from hyperscale.control.cache.records import JobRecord, Key, key_of
from hyperscale.control.cache.snapshot_source import SnapshotSource
from hyperscale.model.api.measured import Measured
from hyperscale.model.api.policy import PolicySpec
from hyperscale.model.cluster import ClusterSnapshot
from hyperscale.model.observed.owned_objects import BatchJobView, MpiJobView
from hyperscale.model.plan import Plan
from hyperscale.model.pods import PodView
from hyperscale.model.status import JobStatus
from hyperscale.observe.run_report import last_result
from hyperscale.spec.api_objects import version_of

Json = dict[str, Any]
Name = TypeVar("Name")
Value = TypeVar("Value")


class ClusterCache:
    """Last known state of jobs, MPIJobs, pods, nodes, policies and metrics."""

    def __init__(self, clock: Callable[[], float] = time.time, intake: Intake | None = None, may_start: MayStart = lambda *_: True) -> None:
        """clock: Unix seconds."""
        self._clock = clock
        self.intake = intake or Intake(clock=clock)
        self.listings = Listings((JOB, MPIJOB, POD, NODE, POLICY))
        self.snapshots = SnapshotSource(clock)
        self.assumed_plans = AssumedPlans()
        self.owners = MpiJobOwners(may_start)
        self.jobs: dict[Key, JobRecord] = {}
        self.mpijobs: dict[Key, MpiJobView] = {}
        """MPIJobs of known jobs."""
        self.partitions: dict[Key, BatchJobView] = {}
        """Partition Jobs as last read or created; they are not watched."""
        self.inspections: dict[Key, BatchJobView] = {}
        """Likewise the Jobs that read the sizes of graphs."""
        self.preflights: dict[Key, BatchJobView] = {}
        """Likewise the Jobs that try the code of jobs."""
        self.progress: dict[Key, Measured] = {}
        """What running jobs last said of themselves."""
        self.policies: dict[str, Json] = {}
        self.live: dict[Key, MpiJobView] = {}
        """MPIJobs of known jobs that have not ended."""
        self.unfinished, self.waiting, self.unstarted, self.releasing = set[Key](), set[Key](), set[Key](), set[Key]()
        """Jobs by their `Standing`."""
        self.version = 0
        """Grows whenever a plan takes or gives back GPUs, or a job begins or ends being unstarted."""
        self._named: dict[Key, MpiJobView] = {}
        """All MPIJobs, those of others included."""
        self._touched, self._changed = set[Key](), set[Key]()
        """Jobs to recount, and those that changed since they were asked for."""

    def see_job(self, resource: Json, deleted: bool = False) -> bool:
        """Take in a GNNTrainingJob; False when it is older than what is known."""
        return self._see(JOB, resource, deleted)

    def see_mpijob(self, resource: Json, deleted: bool = False, created_here: bool = False) -> bool:
        """Take in an MPIJob; `created_here` marks the answer to its creation by this process.

        What its run said of its pace is void where it has another number of workers than before.
        """
        if created_here:
            self.owners.note_created(key_of(resource), str(resource["metadata"].get("uid") or ""))
        return self._see(MPIJOB, resource, deleted)

    def see_policy(self, resource: Json, deleted: bool = False) -> bool:
        """Take in a PlannerPolicy."""
        return self._see(POLICY, resource, deleted)

    def see_node(self, resource: Json, deleted: bool = False) -> bool:
        """Take in a node; True when something that plans depend on changed."""
        before = self.snapshots.node(key_of(resource).name)
        self._see(NODE, resource, deleted)
        return self.snapshots.node(key_of(resource).name) is not before

    def see_pod(self, resource: Json, deleted: bool = False) -> tuple[PodView | None, PodView | None]:
        """Take in a pod; the view before and after. Pods that hold nothing and belong to no job are not kept."""
        key = key_of(resource)
        before = self.snapshots.pods.get(key)
        self._see(POD, resource, deleted)
        return before, self.snapshots.pods.get(key)

    def see_batch_job(self, jobs: dict[Key, BatchJobView], key: Key, resource: Json | None) -> None:
        """Take in a Job of ours as just read, one of `partitions`, `inspections`, `preflights`; None where there is none.

        A pass over an earlier job of the name may end after its successor came: what that pass read counts for nothing.
        """
        view = self.intake.batch_job(resource) if resource is not None else None
        record = self.jobs.get(key)
        if view is not None and view.owner_uid and (record is None or view.owner_uid != record.uid):
            view = None
        _put_or_drop(jobs, key, view)
        if view is None:
            self.intake.forget(BATCH_JOB, key)

    def replace(self, kind: str, resources: Iterable[Json], version: int = 0) -> None:
        """Make a full listing of one kind the truth, all at once."""
        listing = self.listings.begin(kind, EVERYWHERE, version)
        for resource in resources:
            self.take_listed(listing, resource)
        self.replace_listing(listing)

    def take_listed(self, listing: Listing, resource: Json) -> None:
        """Take in one item; jobs are recounted in `recount`, which comes before anything else reads the cache."""
        listing.listed.add(key_of(resource))
        self._take(listing.kind, resource, deleted=False)

    def replace_listing(self, listing: Listing) -> None:
        """All items are taken in: what the listing lacks is gone, unless it is newer."""
        for key in self.listings.end(listing):
            self._put(listing.kind, key, None)
        if listing.kind == POD:
            self.snapshots.releases.forget(self._clock())
        self.recount()

    def mpijob_named(self, key: Key) -> MpiJobView | None:
        """The MPIJob of that name, of any origin."""
        return self._named.get(key)

    def pods_of(self, key: Key, uid: str) -> tuple[PodView, ...]:
        """Pods of one MPIJob, launcher first, then by rank; pods of an earlier MPIJob of that name are left out.

        The same tuple until one of them changes.
        """
        record = self.jobs.get(key)
        return self.snapshots.pods.ranked(key, uid, record.uid if record is not None else "")

    def measured(self, key: Key, pods: Iterable[PodView]) -> Measured | None:
        """What a run says of itself: the result that its last launcher left behind, else its progress of now."""
        return last_result(pods) or self.progress.get(key)

    def batch_pods_of(self, key: Key, role: str) -> tuple[PodView, ...]:
        """Pods of one of a job's batch Jobs, by `role`, oldest first."""
        record = self.jobs.get(key)
        pods = self.snapshots.pods.of_role(key, role, record.uid if record is not None else "")
        return tuple(sorted(pods, key=lambda pod: (pod.created, pod.name)))

    def snapshot(self, policy: PolicySpec, now: float) -> ClusterSnapshot:
        """The cluster now; the same object as long as neither nodes, pods nor metrics changed."""
        return self.snapshots.current(policy, now)

    def assume(self, key: Key, plan: Plan | None, amounts: Mapping[str, float] | None = None) -> None:
        """A pass has made this plan: its GPUs are taken until the MPIJob is seen; None when the pass is over.

        amounts: what one worker takes beside GPUs, by resource name; None leaves it as it was
        """
        self.assumed_plans.put(key, plan, amounts)
        self._touched.add(key)
        self.recount()

    def assumed(self) -> Iterable[tuple[Key, Plan]]:
        """Plans whose MPIJobs are not there yet."""
        return ((key, plan) for key, plan in self.assumed_plans.items() if key not in self.mpijobs or key in self.unstarted)

    def plans_of(self, key: Key) -> PlanRecord:
        """Return all plans of a job; the unwritten one is the one that `assume` was called with."""
        record, view = self.jobs.get(key), self.mpijobs.get(key)
        in_status = plan_in_status(record, view) if record else None
        return PlanRecord(self.assumed_plans.get(key), in_status, view.plan if view else None)

    def changed(self) -> set[Key]:
        """Jobs of which something has changed since this was last asked."""
        changed, self._changed = self._changed, set()
        return changed

    def recount(self) -> None:
        """Bring up to date what follows from jobs that changed."""
        self._changed |= self._touched
        while self._touched:
            self._recount(self._touched.pop())

    def _recount(self, key: Key) -> None:
        """Set what a job's plan holds beside bound pods, and the sets that the job belongs to."""
        record, view = self.jobs.get(key), self._own(key)
        if record is None:
            self._forget_read(key)
        pods = tuple(self.snapshots.pods.of_job(key, view.uid, record.uid if record is not None else "")) if view is not None else ()
        self.version += self.assumed_plans.recount(key, self.plans_of(key), record, view, pods)
        self._index(key, standing(record, view, pods) if record is not None else Standing())
        if record is not None and key not in self.unfinished:
            self.jobs[key] = record.at_rest()

    def _forget_read(self, key: Key) -> None:
        """What was read of a job and is not watched. Its successor of the same name may come without a deletion in between."""
        for read in (self.partitions, self.inspections, self.preflights, self.progress):
            read.pop(key, None)
        self.intake.forget(BATCH_JOB, key)

    def _index(self, key: Key, where: Standing) -> None:
        """Put a job into the sets that it belongs to, and out of the others."""
        self.version += where.unstarted != (key in self.unstarted)
        for index, belongs in (
            (self.releasing, where.releasing),
            (self.unstarted, where.unstarted),
            (self.unfinished, where.unfinished),
            (self.waiting, where.waiting),
        ):
            (index.add if belongs else index.discard)(key)

    def _own(self, key: Key) -> MpiJobView | None:
        """The MPIJob of that name where it is the job's: an MPIJob of others holds nothing, whatever is written on it."""
        record, view = self.jobs.get(key), self._named.get(key)
        own = view if view is not None and record is not None and self.owners.is_own(key, view, record, self.policies) else None
        self.owners.note_stopped(key, self.mpijobs.get(key), own, self._clock())
        _put_or_drop(self.mpijobs, key, own)
        _put_or_drop(self.live, key, own if own is not None and own.ending is None else None)
        if view is not None and not view.fault and not view.plan_fault:
            if own is None and view.plan is not None and not self.owners.is_left_over(view):
                self.intake.refuse(MPIJOB, key, view.uid, "it carries a plan and belongs to no GNNTrainingJob; the plan counts for nothing")
            else:
                self.intake.forget(MPIJOB, key)
        return own

    def is_forged(self, key: Key) -> bool:
        """Whether the MPIJob of that name names the job as its controller, and the operator cannot have made it."""
        record, view = self.jobs.get(key), self._named.get(key)
        return record is not None and view is not None and self.owners.is_forged(key, view, record, self.policies)

    def _see(self, kind: str, resource: Json, deleted: bool) -> bool:
        taken = self._take(kind, resource, deleted)
        self.recount()
        return taken

    def _take(self, kind: str, resource: Json, deleted: bool) -> bool:
        """Take in an object unless what is known is newer."""
        key = key_of(resource)
        if not self.listings.admit(kind, key, version_of(resource["metadata"].get("resourceVersion"))):
            return False
        self._put(kind, key, None if deleted else resource)
        return True

    def _put(self, kind: str, key: Key, resource: Json | None) -> None:
        """An object of any kind from now on; None where it is gone."""
        if resource is None:
            self.intake.forget(kind, key)
        if kind == POD:
            self._touched.update(self.snapshots.put_pod(key, self.intake.pod(resource) if resource is not None else None))
        elif kind == NODE:
            self.snapshots.put_node(key.name, self.intake.node(resource) if resource is not None else None)
        elif kind == MPIJOB:
            self._put_mpijob(key, self.intake.mpijob(resource) if resource is not None else None)
        elif kind == JOB:
            self._put_job(key, self.intake.job(resource) if resource is not None else None)
        else:
            self._put_policy(key.name, self.intake.policy(resource) if resource is not None else None)

    def wrote_status(self, key: Key, uid: str, status: JobStatus) -> None:
        """The operator wrote this status of the job with that uid; it is known even where the answer cannot be decoded."""
        record = self.jobs.get(key)
        if record is not None and record.uid == uid and record.undecoded:
            self._put_job(key, replace(record, status=status, status_fault=""))
            self.recount()

    def _put_job(self, key: Key, record: JobRecord | None) -> None:
        before = self.jobs.get(key)
        if record is not None and before is not None and record.undecoded and record.status == JobStatus() and before.uid == record.uid:
            record = replace(record, status=before.status)
        if before is not None and (record is None or record.uid != before.uid):
            self.owners.note_deleted_job(key, before.uid)
            self._forget_read(key)
        _put_or_drop(self.jobs, key, record)
        self._touched.add(key)

    def _put_policy(self, name: str, policy: Json | None) -> None:
        """Which jobs may start follows from it."""
        _put_or_drop(self.policies, name, policy)
        self._touched |= {key for key in self._named if (record := self.jobs.get(key)) is not None and record.status.mpi_job_ref is None}

    def _put_mpijob(self, key: Key, view: MpiJobView | None) -> None:
        before = self._named.get(key)
        _put_or_drop(self._named, key, view)
        if view is not None and before is not None and before.workers != view.workers and key in self.progress:
            self.progress[key] = self.progress[key].without_pace()
        self._touched.add(key)


def _put_or_drop(table: dict[Name, Value], key: Name, value: Value | None) -> None:
    if value is not None:
        table[key] = value
    else:
        table.pop(key, None)
