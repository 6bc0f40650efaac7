"""The operator's picture of the cluster: narrow projections of watched objects, and what they add up to.

Fed by watch events, by full listings and by the operator's own writes, in any order: what is newer stays. Nothing here talks to the API.
Longer than other modules: everything here shares one set of indices.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Final

from msgspec.structs import replace

from hyperscale.control.cache.intake import JOB, MPIJOB, NODE, PARTITION_JOB, POD, POLICY, Intake, key_of
from hyperscale.control.cache.pod_index import PodIndex, matters
from hyperscale.control.cache.records import JobRecord, Key
from hyperscale.control.cache.reservations import GpuReservations, Reservations
from hyperscale.control.cache.versions import EVERYWHERE, Versions
from hyperscale.control.lifecycle.movable import held_gpus, holds_plan, is_moving
from hyperscale.control.lifecycle.stoppable import is_preempted, run_is_over, waits_again
from hyperscale.control.lifecycle.unscheduled import is_released
from hyperscale.model.api.job import PlannerChoice
from hyperscale.model.api.measured import Measured
from hyperscale.model.api.policy import PolicySpec
from hyperscale.model.cluster import ClusterSnapshot
from hyperscale.model.decision import Reason
from hyperscale.model.metrics_reading import MetricsReading
from hyperscale.model.observed.owned_objects import MpiJobView, PartitionView
from hyperscale.model.plan import Plan
from hyperscale.model.pods import LAUNCHER, WORKER, PodView
from hyperscale.model.status import JobStatus
from hyperscale.observe.kube.fabric import Fabric, FabricClaims
from hyperscale.observe.run_report import read_measured
from hyperscale.observe.series.recently_freed import Releases
from hyperscale.observe.snapshot.build_snapshot import SnapshotFigures, build_snapshot, warm
from hyperscale.observe.snapshot.snapshot_cache import Memory
from hyperscale.spec.api_objects import version_of
from hyperscale.util.threads import in_daemon_thread

__all__ = ["ClusterCache", "JobRecord", "Key", "Listing"]

_LOG = logging.getLogger(__name__)

Json = dict[str, Any]
NO_MATTER_OF_ROOM: Final = frozenset(
    map(str, (Reason.INVALID_SPEC, Reason.INVALID_POD_TEMPLATE, Reason.NAME_CONFLICT, Reason.SUSPENDED, Reason.QUOTA_EXCEEDED))
)
"""Last steps of jobs that GPUs which come free do not help."""
MAX_ENDED: Final = 4096
"""Deleted jobs whose MPIJobs the garbage collector may not have reached yet."""


class Listing:
    """A full listing of one kind while it is taken in."""

    def __init__(self, kind: str, scope: str, version: int) -> None:
        """scope: namespace, or EVERYWHERE; version: of the list, the same on all its pages."""
        self.kind = kind
        self.scope = scope
        self.version = version
        self.listed: set[Key] = set()


class ClusterCache:
    """Last known state of jobs, MPIJobs, pods, nodes, policies and metrics."""

    def __init__(self, clock: Callable[[], float] = time.time, intake: Intake | None = None) -> None:
        """clock: Unix seconds."""
        self._clock = clock
        self.intake = intake or Intake(clock=clock)
        self._releases = Releases()
        self.jobs: dict[Key, JobRecord] = {}
        self.mpijobs: dict[Key, MpiJobView] = {}
        """MPIJobs of known jobs."""
        self.partitions: dict[Key, PartitionView] = {}
        """Partition Jobs as last read or created; they are not watched."""
        self.progress: dict[Key, Measured] = {}
        """What running jobs last said of themselves."""
        self.policies: dict[str, Json] = {}
        self.reading = MetricsReading(taken_at=0.0)
        self.unfinished: set[Key] = set()
        """Jobs whose run has not ended, as far as their status and MPIJob tell."""
        self.waiting: set[Key] = set()
        """Those of them whose workers are not all bound: more room may help them, a lost node concerns them."""
        self.live: dict[Key, MpiJobView] = {}
        """MPIJobs of known jobs that have not ended."""
        self.unstarted: set[Key] = set()
        """Unfinished jobs without an MPIJob, and those whose MPIJob was stopped for others and has no pods left."""
        self.releasing: set[Key] = set()
        """Jobs that were stopped for others and whose pods still hold their GPUs."""
        self.version = 0
        """Grows whenever a plan takes or gives back GPUs, or a job begins or ends being unstarted."""
        self.may_start: Callable[[Json, Mapping[str, Json], Plan | None], bool] = lambda resource, policies, plan: True
        """Whether a job may have an MPIJob with that plan; the reader of specs fills it."""
        self.ground = 0
        """Grows whenever nodes come, go, or differ by more than cordons, taints and conditions, and with the topology that others tell."""
        self._assumed: dict[Key, Plan] = {}
        self._ledger: GpuReservations[Key] = GpuReservations()
        self._reserved: Reservations[Key] = Reservations()
        self._amounts: dict[Key, Mapping[str, float]] = {}
        """What a worker of each assumed plan takes."""
        self._versions = {kind: Versions() for kind in (JOB, MPIJOB, POD, NODE, POLICY)}
        self._named: dict[Key, MpiJobView] = {}
        """All MPIJobs, those of others included."""
        self._made: dict[Key, str] = {}
        """Uids of MPIJobs that this process created, until the status of their jobs names them."""
        self._ended: dict[str, None] = {}
        """Uids of jobs that were deleted lately."""
        self._nodes: dict[str, Json] = {}
        self._pods = PodIndex()
        self._touched: set[Key] = set()
        """Jobs to recount."""
        self._changed: set[Key] = set()
        self._fabric = Fabric()
        self.memory = Memory()
        """Of the snapshot before."""
        self.memory.moved = {}
        self._snapshot: tuple[tuple[float, PolicySpec], ClusterSnapshot] | None = None

    def see_job(self, resource: Json, deleted: bool = False) -> bool:
        """Take in a GNNTrainingJob; False when it is older than what is known."""
        return self._see(JOB, resource, deleted)

    def see_mpijob(self, resource: Json, deleted: bool = False, made: bool = False) -> bool:
        """Take in an MPIJob; `made` is the answer to its creation by this process.

        What its run said of its pace is void where it has another number of workers than before.
        """
        if made:
            self._made[key_of(resource)] = str(resource["metadata"].get("uid") or "")
        return self._see(MPIJOB, resource, deleted)

    def see_policy(self, resource: Json, deleted: bool = False) -> bool:
        """Take in a PlannerPolicy."""
        return self._see(POLICY, resource, deleted)

    def see_node(self, resource: Json, deleted: bool = False) -> bool:
        """Take in a node; True when something that plans depend on changed."""
        before = self._nodes.get(key_of(resource).name)
        self._see(NODE, resource, deleted)
        return self._nodes.get(key_of(resource).name) is not before

    def see_pod(self, resource: Json, deleted: bool = False) -> tuple[PodView | None, PodView | None]:
        """Take in a pod; the view before and after. Pods that hold nothing and belong to no job are not kept."""
        key = key_of(resource)
        before = self._pods.get(key)
        self._see(POD, resource, deleted)
        return before, self._pods.get(key)

    def see_partition(self, key: Key, resource: Json | None) -> None:
        """Take in a job's partition Job as just read; None where there is none."""
        if resource is None:
            self.partitions.pop(key, None)
            self.intake.forget(PARTITION_JOB, key)
        else:
            self.partitions[key] = self.intake.partition(resource)

    def replace(self, kind: str, resources: Iterable[Json], version: int = 0) -> None:
        """Make a full listing of one kind the truth, all at once."""
        listing = self.listing(kind, EVERYWHERE, version)
        for resource in resources:
            self.take_listed(listing, resource)
        self.settle(listing)

    def listing(self, kind: str, scope: str, version: int) -> Listing:
        """A listing that begins; those of one kind come one after the other."""
        if 0 < version < self._versions[kind].listed_at(scope):
            _LOG.warning(
                "resource versions of %s went back from %d to %d: etcd was restored", kind, self._versions[kind].listed_at(scope), version
            )
            self._versions[kind] = Versions()
        return Listing(kind, scope, version)

    def has_listed(self, listing: Listing, key: Key, version: int) -> bool:
        """Whether an item of the listing is known already, or out of date: then there is nothing to take in."""
        known = self._versions[listing.kind][key]
        if not version or version > known:
            return False
        listing.listed.add(key)
        return True

    def take_listed(self, listing: Listing, resource: Json) -> None:
        """Take in one item; jobs are recounted in `recount`, which comes before anything else looks at the world."""
        listing.listed.add(key_of(resource))
        self._take(listing.kind, resource, deleted=False)

    def absorb(self) -> None:
        """Make of what was taken in so far what the next snapshot needs of it, so that less is left to do at once."""
        self.memory.take_in(self._nodes.values(), self._pods.values())

    def settle(self, listing: Listing) -> None:
        """All items are taken in: what the listing lacks is gone, unless it is newer."""
        for key in self._versions[listing.kind].end(listing.scope, listing.version, listing.listed):
            self._put(listing.kind, key, None)
        if listing.kind == POD:
            self._releases.forget(self._clock())
        self.recount()

    async def see_fabric(self, fabric: Fabric) -> None:
        """Take in what other operators say of the topology; which nodes their patterns fit is found in a thread."""
        if fabric == self._fabric:
            return
        nodes = tuple(self._nodes.values())

        def found() -> FabricClaims:
            claims = FabricClaims(fabric.hypernodes)
            claims.labels(nodes)
            return claims

        self.memory.claims = await in_daemon_thread(found)
        self._fabric, self._snapshot = fabric, None
        self.ground += 1

    def mpijob_named(self, key: Key) -> MpiJobView | None:
        """The MPIJob of that name, of any origin."""
        return self._named.get(key)

    def pods_of(self, key: Key, uid: str) -> tuple[PodView, ...]:
        """Pods of one MPIJob, launcher first, then by rank; pods of an earlier MPIJob of that name are left out.

        The same tuple until one of them changes.
        """
        record = self.jobs.get(key)
        return self._pods.ranked(key, uid, record.uid if record is not None else "")

    def measured(self, key: Key, pods: Iterable[PodView]) -> Measured | None:
        """What a run says of itself: the result that its last launcher left behind, else its progress of now."""
        launchers = sorted((pod for pod in pods if pod.role == LAUNCHER and pod.termination), key=lambda pod: pod.created)
        result = read_measured(launchers[-1].termination) if launchers else None
        return result or self.progress.get(key)

    def partition_pods_of(self, key: Key) -> tuple[PodView, ...]:
        """Pods that write a job's partitions, oldest first."""
        return tuple(sorted(self._pods.partitioning(key), key=lambda pod: (pod.created, pod.name)))

    def snapshot(self, policy: PolicySpec, now: float) -> ClusterSnapshot:
        """The cluster now; the same object as long as neither nodes, pods nor metrics changed."""
        basis = (self.reading.taken_at, policy)
        if self._snapshot is None or self._snapshot[0] != basis:
            built = build_snapshot(
                self._nodes.values(), self._pods.values(), self.reading, policy, now, self._releases.by_node(), self.memory, self._fabric
            )
            self._snapshot = (basis, built)
        return self._snapshot[1]

    def names(self) -> tuple[tuple[Json, ...], tuple[PodView, ...]]:
        """What series are assigned to nodes by, for a thread: nodes and pods of now."""
        return tuple(self._nodes.values()), tuple(self._pods.values())

    async def take(self, figures: SnapshotFigures, policy: PolicySpec) -> None:
        """Make figures that a thread judged those of now; in small steps, so that nobody waits long."""
        self.memory.laid = (policy.overrides, self._fabric)
        self.memory.see(self._nodes.values(), self._pods.values())
        for _ in warm(self.memory, policy, figures, self._releases.by_node()):
            await asyncio.sleep(0)
        self.memory.published, self.memory.outdated = figures, False
        self.reading = figures.reading
        self._snapshot = None

    def free_gpus(self, snapshot: ClusterSnapshot, asking: Key | None = None) -> dict[str, int]:
        """Free GPUs of the nodes on which plans of other jobs hold some that no bound pod shows yet."""
        held = self._ledger.held_by_others(asking)
        return {node.name: max(0, node.free_gpus - held[node.name]) for node in snapshot.nodes if node.name in held} if held else {}

    def held(self, asking: Key | None = None, nodes: Collection[str] | None = None) -> dict[str, dict[str, float]]:
        """By node and name what plans of other jobs hold beside GPUs that no bound pod shows yet; of some `nodes`, or of all."""
        return self._reserved.held_by_others(asking, nodes)

    def assume(self, key: Key, plan: Plan | None, amounts: Mapping[str, float] | None = None) -> None:
        """A pass has made this plan: its GPUs are taken until the MPIJob is seen; None when the pass is over.

        amounts: what one worker takes beside GPUs, by resource name; None leaves it as it was
        """
        if plan is None:
            self._assumed.pop(key, None)
            self._amounts.pop(key, None)
        else:
            self._assumed[key] = plan
            self._amounts[key] = self._amounts.get(key, {}) if amounts is None else amounts
        self._touched.add(key)
        self.recount()

    def is_assumed(self, key: Key) -> bool:
        """Whether a plan of this job is on its way to an MPIJob."""
        return key in self._assumed

    def assumed(self) -> Iterable[tuple[Key, Plan]]:
        """Plans whose MPIJobs are not there yet."""
        return ((key, plan) for key, plan in self._assumed.items() if key not in self.mpijobs or key in self.unstarted)

    def plan_in_force(self, key: Key) -> Plan | None:
        """The plan recorded for a job: in its status, else on its MPIJob."""
        record = self.jobs.get(key)
        view = self.mpijobs.get(key)
        return (record.plan if record else None) or (view.plan if view else None)

    def changed(self) -> set[Key]:
        """Jobs of which something has changed since this was last asked."""
        changed, self._changed = self._changed, set()
        return changed

    def unreachable_nodes(self, taints: frozenset[str]) -> tuple[str, ...]:
        """Nodes with one of these taints."""
        return tuple(
            sorted(
                name
                for name, node in self._nodes.items()
                if any(taint.get("key") in taints for taint in (node.get("spec") or {}).get("taints") or [])
            )
        )

    def hostname(self, node: str) -> str:
        """The node's kubernetes.io/hostname label, which may differ from its name."""
        labels = ((self._nodes.get(node) or {}).get("metadata") or {}).get("labels") or {}
        return str(labels.get("kubernetes.io/hostname", node))

    def recount(self) -> None:
        """Bring up to date what follows from jobs that changed."""
        self._changed |= self._touched
        while self._touched:
            self._recount(self._touched.pop())

    def _recount(self, key: Key) -> None:
        """Set what a job's plan holds beside bound pods: in a pass, or while its MPIJob is gated, unfinished and runs or moves."""
        record, view = self.jobs.get(key), self._own(key)
        plan = self._assumed.get(key)
        moving = plan is not None or (record is not None and is_moving(record.status))
        if plan is None and view is not None and record is not None and holds_plan(view, moving) and _wants_gpus(record, view):
            plan = self.plan_in_force(key)
            plan = _within(plan, record, view) if plan is not None else None
        pods = tuple(self._pods.of_job(key, view.uid, record.uid if record is not None else "")) if view is not None else ()
        amounts = self._amounts.get(key) or (view.worker_amounts if view is not None else {})
        held = held_gpus(plan, pods, moving) if plan is not None else {}
        each = plan.workers[0].gpus if plan is not None and plan.workers else 1
        self._reserved.set(key, {node: gpus // max(1, each) for node, gpus in held.items()}, amounts)
        self.version += self._ledger.set(key, held)
        if record is None:
            self._made.pop(key, None)
            self.partitions.pop(key, None)
            self.progress.pop(key, None)
            self.intake.forget(PARTITION_JOB, key)
        stopped = record is not None and view is not None and is_preempted(record.status, view)
        waits = stopped and view is not None and waits_again(view, pods)
        unfinished = record is not None and not _has_ended(record, view)
        if record is not None and not unfinished:
            self.jobs[key] = record.at_rest()
        unstarted = unfinished and (view is None or waits)
        if unstarted != (key in self.unstarted):
            self.version += 1
        refused = record is not None and record.reported and record.status.reason in NO_MATTER_OF_ROOM
        bound = sum(1 for pod in pods if pod.bound and pod.role == WORKER)
        for index, belongs in (
            (self.releasing, stopped and not waits),
            (self.unstarted, unstarted),
            (self.unfinished, unfinished),
            (self.waiting, unfinished and not refused and (view is None or bound < view.workers)),
        ):
            (index.add if belongs else index.discard)(key)

    def _own(self, key: Key) -> MpiJobView | None:
        """The MPIJob of that name where it is the job's: an MPIJob of others holds nothing, whatever is written on it."""
        record, view = self.jobs.get(key), self._named.get(key)
        own = view if view is not None and record is not None and self._is_own(key, view, record) else None
        for store, kept in ((self.mpijobs, own is not None), (self.live, own is not None and own.ending is None)):
            if kept and own is not None:
                store[key] = own
            else:
                store.pop(key, None)
        if view is not None and not view.fault and not view.plan_fault:
            if own is None and view.plan is not None and view.owner_uid not in self._ended:
                self.intake.refuse(MPIJOB, key, view.uid, "it carries a plan and belongs to no GNNTrainingJob; the plan counts for nothing")
            else:
                self.intake.forget(MPIJOB, key)
        return own

    def _is_own(self, key: Key, view: MpiJobView, record: JobRecord) -> bool:
        """Whether an MPIJob with a job's name is the one that the job's status names, or before that one that names the job as controller.

        Creators of MPIJobs may name any owner. A job that may not start has none before its status names one. What a forged one of
        another job can hold is bounded by the job's spec (`_within`), and the job's next pass plans again what does not fit.
        """
        reference = record.status.mpi_job_ref
        if reference is not None and reference.uid == self._made.get(key):
            del self._made[key]
        named = reference is None or view.uid in (reference.uid, self._made.get(key))
        return named and bool(view.uid) and view.owner_uid == record.uid and not self.is_forged(key)

    def is_forged(self, key: Key) -> bool:
        """Whether the MPIJob of that name names the job as its controller, and the operator cannot have made it.

        One that the status names, or whose job cannot be decoded, is given the benefit of the doubt.
        """
        record, view = self.jobs.get(key), self._named.get(key)
        if record is None or view is None or view.owner_uid != record.uid or view.uid == self._made.get(key):
            return False
        if record.status.mpi_job_ref is not None or record.undecoded:
            return False
        try:
            return not self.may_start(record.resource, self.policies, view.plan)
        except Exception:  # a stranger wrote the spec: a job that raises here cannot be started either
            return True

    def _see(self, kind: str, resource: Json, deleted: bool) -> bool:
        taken = self._take(kind, resource, deleted)
        self.recount()
        return taken

    def _take(self, kind: str, resource: Json, deleted: bool) -> bool:
        """Take in an object unless what is known is newer."""
        key = key_of(resource)
        if not self._versions[kind].admit(key, version_of(resource["metadata"].get("resourceVersion"))):
            return False
        self._put(kind, key, None if deleted else resource)
        return True

    def _put(self, kind: str, key: Key, resource: Json | None) -> None:
        """An object of any kind from now on; None where it is gone."""
        if resource is None:
            self.intake.forget(kind, key)
        if kind == POD:
            self._put_pod(key, self.intake.pod(resource) if resource is not None else None)
        elif kind == NODE:
            self._put_node(key.name, self.intake.node(resource) if resource is not None else None)
        elif kind == MPIJOB:
            self._put_mpijob(key, self.intake.mpijob(resource) if resource is not None else None)
        elif kind == JOB:
            self._put_job(key, self.intake.job(resource) if resource is not None else None)
        else:
            self._put_policy(key.name, self.intake.policy(resource) if resource is not None else None)

    def wrote_status(self, key: Key, status: JobStatus) -> None:
        """The operator wrote this status; it is known even where the answer cannot be decoded."""
        record = self.jobs.get(key)
        if record is not None and record.undecoded:
            self._put_job(key, replace(record, status=status, status_fault=""))
            self.recount()

    def _put_job(self, key: Key, record: JobRecord | None) -> None:
        before = self.jobs.get(key)
        if record is not None and before is not None and record.undecoded and record.status == JobStatus() and before.uid == record.uid:
            record = replace(record, status=before.status)
        if before is not None and (record is None or record.uid != before.uid):
            self._ended[before.uid] = None
            while len(self._ended) > MAX_ENDED:
                del self._ended[next(iter(self._ended))]
            self.progress.pop(key, None)
        if record is not None:
            self.jobs[key] = record
        else:
            self.jobs.pop(key, None)
        self._touched.add(key)

    def _put_policy(self, name: str, policy: Json | None) -> None:
        """Which jobs may start follows from it."""
        if policy is not None:
            self.policies[name] = policy
        else:
            self.policies.pop(name, None)
        self._touched |= {key for key in self._named if (record := self.jobs.get(key)) is not None and record.status.mpi_job_ref is None}

    def _put_mpijob(self, key: Key, view: MpiJobView | None) -> None:
        before = self._named.get(key)
        if view is not None:
            self._named[key] = view
        else:
            self._named.pop(key, None)
        if view is not None and before is not None and before.workers != view.workers and key in self.progress:
            self.progress[key] = self.progress[key].without_pace()
        self._touched.add(key)

    def _put_node(self, name: str, after: Json | None) -> None:
        before = self._nodes.get(name)
        if before == after:
            return  # the same object stays: views are found by it
        self.ground += _lasting(before) != _lasting(after)
        if after is not None:
            self._nodes[name] = after
        else:
            self._nodes.pop(name, None)
        self._snapshot = None

    def _put_pod(self, key: Key, after: PodView | None) -> None:
        before = self._pods.get(key)
        after = after if after is not None and matters(after) else None
        if before == after:
            return
        self._pods.put(key, after)
        if self.memory.moved is not None:
            self.memory.moved[key] = after
        if _claim(before) != _claim(after):
            self._snapshot = None
            if before is not None and before.holds_resources and before.gpus and (after is None or not after.holds_resources):
                self._releases.note(before.node, before.gpus, self._clock())
        for view in (before, after):
            if view is not None and view.job_name:
                self._touched.add(Key(view.namespace, view.job_name))


def _has_ended(record: JobRecord, view: MpiJobView | None) -> bool:
    """Whether the run has ended and the status says so of the spec as it is."""
    return run_is_over(record.status) and record.reported and (view is None or view.ending is not None)


def _wants_gpus(record: JobRecord, view: MpiJobView) -> bool:
    """Whether the job's spec lets its ranks be placed by a plan at all, whatever another resumed or wrote on its MPIJob.

    Ranks that were released wait for another plan. A queue's MPIJob is not suspended for that.
    """
    if view.holder and is_released(record.status, view):
        return False
    spec = record.resource.get("spec")
    policy = spec.get("runPolicy") if isinstance(spec, Mapping) else None
    suspended = isinstance(policy, Mapping) and policy.get("suspend") is True
    return not suspended and not (isinstance(spec, Mapping) and spec.get("planner") == PlannerChoice.NONE)


def _within(plan: Plan, record: JobRecord, view: MpiJobView) -> Plan:
    """No more workers and GPUs than the job's spec allows, whatever a status or an annotation says.

    A spec that cannot be read allows nothing, but what a status that names the MPIJob has recorded stays taken.
    """
    most, gpus, reference = record.max_workers, record.gpus_per_worker, record.status.mpi_job_ref
    recorded = plan is record.plan and reference is not None and reference.uid == view.uid
    if (recorded and not most) or (len(plan.workers) <= most and all(worker.gpus <= gpus for worker in plan.workers)):
        return plan
    return replace(plan, workers=tuple(replace(worker, gpus=min(worker.gpus, gpus)) for worker in plan.workers[:most]))


def _lasting(node: Json | None) -> tuple[object, ...] | None:
    """What a node is, whatever its state; None where there is none."""
    if node is None:
        return None
    status = node.get("status") or {}
    return node["metadata"].get("labels"), status.get("allocatable")


def _claim(pod: PodView | None) -> tuple[object, ...] | None:
    """What a pod takes from its node; None when nothing."""
    if pod is None or not pod.holds_resources:
        return None
    return pod.node, pod.gpus, pod.cpu_cores, pod.memory_bytes, pod.further, pod.unreadable
