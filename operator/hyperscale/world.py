"""The operator's picture of the cluster: narrow projections of watched objects, and what they add up to.

Fed by watch events and by the operator's own writes; a full listing replaces it at start and at every resync, so that a lost event
is mended. Nothing here talks to the API. Longer than other modules: everything here shares one set of indices.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, NamedTuple

from hyperscale.daemonthread import in_daemon_thread
from hyperscale.ledger import Ledger
from hyperscale.model.cluster import ClusterSnapshot
from hyperscale.model.decision import MpiJobView, PartitionView
from hyperscale.model.measured import Measured
from hyperscale.model.metrics import MetricsReading
from hyperscale.model.plan import Plan
from hyperscale.model.pods import LAUNCHER, PARTITION, PodView
from hyperscale.model.policy import PolicySpec
from hyperscale.model.status import JobStatus, read_status
from hyperscale.movable import THOUSANDTHS, held_amounts, held_gpus, holds_plan, is_moving
from hyperscale.observe.fabric import Claims, Fabric
from hyperscale.observe.kube import pod_view
from hyperscale.observe.measured import read_measured
from hyperscale.observe.memory import Memory
from hyperscale.observe.mpijob import mpijob_view
from hyperscale.observe.narrow import narrow, narrow_node
from hyperscale.observe.partitionjob import partition_view
from hyperscale.observe.released import Releases
from hyperscale.observe.snapshot import Figures, build_snapshot, warm
from hyperscale.stoppable import is_preempted, waits_again

Json = dict[str, Any]


class Key(NamedTuple):
    """A namespaced object."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class JobRecord(NamedTuple):
    """A GNNTrainingJob as last seen."""

    resource: Json
    status: JobStatus
    plan: Plan | None
    """The plan in `status`."""


class World:
    """Last known state of jobs, MPIJobs, pods, nodes, policies and metrics."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        """clock: Unix seconds."""
        self._clock = clock
        self._releases = Releases()
        self.jobs: dict[Key, JobRecord] = {}
        self.mpijobs: dict[Key, MpiJobView] = {}
        self.partitions: dict[Key, PartitionView] = {}
        """Partition Jobs as last read or created; they are not watched."""
        self.progress: dict[Key, Measured] = {}
        """What running jobs last said of themselves."""
        self.policies: dict[str, Json] = {}
        self.reading = MetricsReading(taken_at=0.0)
        self.unstarted: set[Key] = set()
        """Jobs without an MPIJob, and those whose MPIJob was stopped for others and has no pods left."""
        self.releasing: set[Key] = set()
        """Jobs that were stopped for others and whose pods still hold their GPUs."""
        self.version = 0
        """Grows whenever a plan takes or gives back GPUs, or a job begins or ends being unstarted."""
        self._assumed: dict[Key, Plan] = {}
        self._ledger: Ledger[Key, str] = Ledger()
        self._reserved: Ledger[Key, tuple[str, str]] = Ledger()
        """Thousandths of resources beside GPUs, by node and name."""
        self._amounts: dict[Key, Mapping[str, float]] = {}
        """What a worker of each assumed plan takes."""
        self._versions: dict[tuple[str, Key], int] = {}
        self._nodes: dict[str, Json] = {}
        self._pods: dict[Key, PodView] = {}
        self._pods_of: dict[Key, set[Key]] = {}
        self._fabric = Fabric()
        self.memory = Memory()
        """Of the snapshot before."""
        self._snapshot: tuple[tuple[float, PolicySpec], ClusterSnapshot] | None = None

    def see_job(self, resource: Json, deleted: bool = False) -> bool:
        """Take in a GNNTrainingJob; False when it is older than what is known."""
        return self._see("job", self.jobs, resource, _record(resource), deleted)

    def see_mpijob(self, resource: Json, deleted: bool = False) -> bool:
        """Take in an MPIJob; what its run said of its pace is void where it has another number of workers than before."""
        key, view = _key(resource), mpijob_view(resource)
        before = self.mpijobs.get(key)
        newer = self._see("mpijob", self.mpijobs, resource, view, deleted)
        if newer and before is not None and before.workers != view.workers and key in self.progress:
            self.progress[key] = self.progress[key].without_pace()
        return newer

    def see_partition(self, key: Key, resource: Json | None) -> None:
        """Take in a job's partition Job as just read; None where there is none."""
        if resource is None:
            self.partitions.pop(key, None)
        else:
            self.partitions[key] = partition_view(resource)

    def see_policy(self, resource: Json, deleted: bool = False) -> None:
        """Take in a PlannerPolicy."""
        name = resource["metadata"]["name"]
        if deleted:
            self.policies.pop(name, None)
        else:
            self.policies[name] = narrow(resource)

    async def see_fabric(self, fabric: Fabric) -> None:
        """Take in what other operators say of the topology; which nodes their patterns fit is found in a thread."""
        if fabric == self._fabric:
            return
        nodes = tuple(self._nodes.values())

        def found() -> Claims:
            claims = Claims(fabric.hypernodes)
            claims.labels(nodes)
            return claims

        self.memory.claims = await in_daemon_thread(found)
        self._fabric, self._snapshot = fabric, None

    def see_node(self, resource: Json, deleted: bool = False) -> bool:
        """Take in a node; True when something that plans depend on changed."""
        name = resource["metadata"]["name"]
        before = self._nodes.get(name)
        if deleted:
            self._nodes.pop(name, None)
        else:
            after = narrow_node(resource)
            self._nodes[name] = before if before is not None and before == after else after  # the same object: views are found by it
        changed = before != self._nodes.get(name)
        if changed:
            self._snapshot = None
        return changed

    def see_pod(self, resource: Json, deleted: bool = False) -> tuple[PodView | None, PodView | None]:
        """Take in a pod; the view before and after. Pods that hold no GPU and belong to no MPIJob are not kept."""
        view = pod_view(resource)
        key = Key(view.namespace, view.name)
        before = self._pods.get(key)
        if self._older("pod", key, resource):
            return before, before
        after = None if deleted or not (view.gpus or view.job_name or view.bound) else view
        self._put_pod(key, before, after)
        return before, after

    def replace(self, kind: str, resources: Iterable[Json], version: int = 0) -> None:
        """Make a full listing of one kind the truth: what is not in it is gone, unless it is newer than the listing's `version`."""
        self.settle(kind, self.viewed(kind, resources), version)

    def viewed(self, kind: str, resources: Iterable[Json]) -> list[Any]:
        """What `settle` takes of a part of a listing: a part at a time, so that a listing of thousands holds nobody up. Changes nothing."""
        if kind == "pod":
            return [pod_view(item) for item in resources]
        if kind != "node":
            return list(resources)
        views = map(narrow_node, resources)
        return [before if (before := self._nodes.get(view["metadata"]["name"])) == view else view for view in views]

    def settle(self, kind: str, resources: list[Any], version: int = 0) -> None:
        """`replace` with what `viewed` made of the whole listing."""
        if kind == "node":
            before, self._nodes = self._nodes, {item["metadata"]["name"]: item for item in resources}
            if before != self._nodes:
                self._snapshot = None
        elif kind == "policy":
            self.policies = {item["metadata"]["name"]: narrow(item) for item in resources}
        elif kind == "pod":
            listed = {Key(view.namespace, view.name): view for view in resources}
            self._releases.forget(self._clock())
            for key in self._gone(kind, self._pods, listed.keys(), version):
                self._put_pod(key, self._pods[key], None)
            for key, view in listed.items():
                self._put_pod(key, self._pods.get(key), view if view.gpus or view.job_name or view.bound else None)
        else:
            store: dict[Key, Any] = self.jobs if kind == "job" else self.mpijobs
            see = self.see_job if kind == "job" else self.see_mpijob
            kept = {_key(item) for item in resources if see(item) or True}
            for key in self._gone(kind, store, kept, version):
                del store[key]
                self._recount(key)

    def _gone(self, kind: str, store: Mapping[Key, object], listed: Collection[Key], version: int) -> list[Key]:
        """Known keys that a listing does not have; forgets tombstones older than it."""
        gone = [key for key in store if key not in listed and self._versions.get((kind, key), 0) <= version]
        for of_kind, key in [entry for entry in self._versions if entry[0] == kind and entry[1] not in listed]:
            if key not in store or key in gone:
                del self._versions[(of_kind, key)]
        return gone

    def pods_of(self, key: Key, uid: str) -> tuple[PodView, ...]:
        """Pods of one MPIJob, launcher first, then by rank; pods of an earlier MPIJob of that name are left out."""
        pods = (self._pods[pod] for pod in self._pods_of.get(key, ()))
        return tuple(sorted((pod for pod in pods if _belongs(pod, uid)), key=lambda pod: (pod.role, pod.rank or 0, pod.name)))

    def measured(self, key: Key, pods: Iterable[PodView]) -> Measured | None:
        """What a run says of itself: the result that its last launcher left behind, else its progress of now."""
        launchers = sorted((pod for pod in pods if pod.role == LAUNCHER and pod.termination), key=lambda pod: pod.created)
        result = read_measured(launchers[-1].termination) if launchers else None
        return result or self.progress.get(key)

    def partition_pods_of(self, key: Key) -> tuple[PodView, ...]:
        """Pods that write a job's partitions, oldest first."""
        pods = (self._pods[pod] for pod in self._pods_of.get(key, ()))
        return tuple(sorted((pod for pod in pods if pod.role == PARTITION), key=lambda pod: (pod.created, pod.name)))

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

    async def take(self, figures: Figures, policy: PolicySpec) -> None:
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

    def held(self, asking: Key | None = None) -> dict[str, dict[str, float]]:
        """By node and name what plans of other jobs hold beside GPUs that no bound pod shows yet."""
        found: dict[str, dict[str, float]] = {}
        for (node, name), amount in sorted(self._reserved.held_by_others(asking).items()):
            found.setdefault(node, {})[name] = amount / THOUSANDTHS
        return found

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
        self._recount(key)

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

    def waiting_jobs(self) -> Iterable[Key]:
        """Jobs whose ranks are not all bound: more room may help them, a lost node concerns them."""
        for key in self.jobs:
            view = self.mpijobs.get(key)
            if view is None or not (view.is_true("Succeeded") or view.is_true("Failed")):
                bound = sum(1 for pod in self.pods_of(key, view.uid) if pod.bound and pod.role == "worker") if view else 0
                if view is None or bound < view.workers:
                    yield key

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

    def _recount(self, key: Key) -> None:
        """Set what a job's plan holds beside bound pods: in a pass, or while its MPIJob is gated, unfinished and runs or moves."""
        view, record = self.mpijobs.get(key), self.jobs.get(key)
        plan = self._assumed.get(key)
        moving = plan is not None or (record is not None and is_moving(record.status))
        if plan is None and view is not None and holds_plan(view, moving):
            plan = self.plan_in_force(key)
        pods = self.pods_of(key, view.uid) if plan is not None and view is not None else ()
        amounts = self._amounts.get(key) or (view.worker_amounts if view is not None else {})
        self._reserved.set(key, held_amounts(plan, pods, moving, amounts) if plan is not None else {})
        self.version += self._ledger.set(key, held_gpus(plan, pods, moving) if plan is not None else {})
        if key not in self.jobs:
            self.partitions.pop(key, None)
            self.progress.pop(key, None)
        stopped = record is not None and view is not None and is_preempted(record.status, view)
        waits = stopped and view is not None and waits_again(view, self.pods_of(key, view.uid))
        (self.releasing.add if stopped and not waits else self.releasing.discard)(key)
        unstarted = record is not None and (view is None or waits)
        if unstarted != (key in self.unstarted):
            self.version += 1
            (self.unstarted.add if unstarted else self.unstarted.discard)(key)

    def _see(self, kind: str, store: dict[Key, Any], resource: Json, view: object, deleted: bool) -> bool:
        key = _key(resource)
        if self._older(kind, key, resource):
            return False
        if deleted:
            store.pop(key, None)
        else:
            store[key] = view
        self._recount(key)
        return True

    def _older(self, kind: str, key: Key, resource: Json) -> bool:
        """Whether a newer version is known already: watch events may trail the operator's own writes.

        Resource versions of one resource are ordered numbers (kubernetes/enhancements#5504).
        """
        version = int(resource["metadata"].get("resourceVersion") or 0)
        if version < self._versions.get((kind, key), 0):
            return True
        self._versions[(kind, key)] = version
        return False

    def _put_pod(self, key: Key, before: PodView | None, after: PodView | None) -> None:
        if before is not None and before.job_name:
            self._pods_of.get(Key(before.namespace, before.job_name), set()).discard(key)
        if after is None:
            self._pods.pop(key, None)
            self._versions.pop(("pod", key), None)
        else:
            self._pods[key] = after
            if after.job_name:
                self._pods_of.setdefault(Key(after.namespace, after.job_name), set()).add(key)
        if _claim(before) != _claim(after):
            self._snapshot = None
            if before is not None and before.holds_resources and before.gpus and (after is None or not after.holds_resources):
                self._releases.note(before.node, before.gpus, self._clock())
        for view in (before, after):
            if view is not None and view.job_name:
                self._recount(Key(view.namespace, view.job_name))


def _claim(pod: PodView | None) -> tuple[object, ...] | None:
    """What a pod takes from its node; None when nothing."""
    return (pod.node, pod.gpus, pod.cpu_cores, pod.memory_bytes, pod.further) if pod is not None and pod.holds_resources else None


def _belongs(pod: PodView, mpijob_uid: str) -> bool:
    """Workers are controlled by the MPIJob; the launcher by its Job, whose uid differs: there the label decides."""
    return pod.owner_uid == mpijob_uid or (pod.owner_kind == "Job" and pod.role != PARTITION)


def _key(resource: Mapping[str, Any]) -> Key:
    return Key(resource["metadata"]["namespace"], resource["metadata"]["name"])


def _record(resource: Json) -> JobRecord:
    status = read_status(resource.get("status") or {})
    return JobRecord(narrow(resource), status, status.plan)
