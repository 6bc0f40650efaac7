"""Nodes, pods and metrics as last seen, and the snapshot of the cluster that follows from them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from hyperscale.control.cache.asked_sizes import AskedSizes
from hyperscale.control.cache.pod_index import PodIndex, matters
from hyperscale.control.cache.records import Key
from hyperscale.model.api.policy import PolicySpec
from hyperscale.model.cluster import ClusterSnapshot
from hyperscale.model.metrics_reading import MetricsReading
from hyperscale.model.pods import PodView
from hyperscale.observe.kube.fabric import Fabric, FabricClaims
from hyperscale.observe.series.recently_freed import Releases
from hyperscale.observe.snapshot.build_snapshot import SnapshotFigures, build_snapshot, warm
from hyperscale.observe.snapshot.snapshot_cache import Memory
from hyperscale.util.threads import in_daemon_thread

Json = dict[str, Any]


class SnapshotSource:
    """Builds a snapshot again only after a node, a pod, a metric or the policy changed."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """clock: Unix seconds."""
        self._clock = clock
        self.reading = MetricsReading(taken_at=0.0)
        self.ground = 0
        """Grows whenever nodes come, go, or differ by more than cordons, taints and conditions, and with the topology that others tell."""
        self.pods = PodIndex()
        self.asked = AskedSizes()
        self.memory = Memory()
        """Of the snapshot before."""
        self.memory.moved = {}
        self.releases = Releases()
        self._nodes: dict[str, Json] = {}
        self._fabric = Fabric()
        self._snapshot: tuple[tuple[float, PolicySpec], ClusterSnapshot] | None = None

    def node(self, name: str) -> Json | None:
        """The node as last seen; the same object until it changes."""
        return self._nodes.get(name)

    def put_node(self, name: str, after: Json | None) -> None:
        """A node from now on; None where it is gone."""
        before = self._nodes.get(name)
        if before == after:
            return  # the same object stays: views are found by it
        self.ground += _lasting(before) != _lasting(after)
        if after is not None:
            self._nodes[name] = after
        else:
            self._nodes.pop(name, None)
        self._snapshot = None

    def put_pod(self, key: Key, after: PodView | None) -> tuple[Key, ...]:
        """A pod from now on, None where it is gone; the jobs that the change concerns."""
        before = self.pods.get(key)
        if after is not None and not matters(after):
            after = None
        if before == after:
            return ()
        self.pods.put(key, after)
        self.asked.note(before, after, self._clock())
        if self.memory.moved is not None:
            self.memory.moved[key] = after
        if _claim(before) != _claim(after):
            self._snapshot = None
            if before is not None and before.gpus and _holds_resources(before) and not _holds_resources(after):
                self.releases.note(before.node, before.gpus, self._clock())
        return _jobs_of(before, after)

    async def see_fabric(self, fabric: Fabric) -> None:
        """Take in what other operators say of the topology; which nodes their patterns fit is found in a thread."""
        if fabric == self._fabric:
            return
        nodes = tuple(self._nodes.values())

        def claims_of_nodes() -> FabricClaims:
            claims = FabricClaims(fabric.hypernodes)
            claims.labels(nodes)
            return claims

        self.memory.claims = await in_daemon_thread(claims_of_nodes)
        self._fabric, self._snapshot = fabric, None
        self.ground += 1

    def absorb(self) -> None:
        """Prepare what the next snapshot needs of the objects taken in so far, so that less is left to do at once."""
        self.memory.take_in(self._nodes.values(), self.pods.values())

    def names(self) -> tuple[tuple[Json, ...], tuple[PodView, ...]]:
        """What series are assigned to nodes by, for a thread: nodes and pods of now."""
        return tuple(self._nodes.values()), tuple(self.pods.values())

    async def publish_metrics(self, figures: SnapshotFigures, policy: PolicySpec) -> None:
        """Make figures that a thread judged those of now; in small steps, so that the event loop is not held up."""
        self.memory.laid = (policy.overrides, self._fabric)
        self.memory.see(self._nodes.values(), self.pods.values())
        for _ in warm(self.memory, policy, figures, self.releases.by_node()):
            await asyncio.sleep(0)
        self.memory.published, self.memory.outdated = figures, False
        self.reading = figures.reading
        self._snapshot = None

    def current(self, policy: PolicySpec, now: float) -> ClusterSnapshot:
        """The cluster now; the same object as long as neither nodes, pods nor metrics changed."""
        basis = (self.reading.taken_at, policy)
        if self._snapshot is None or self._snapshot[0] != basis:
            built = build_snapshot(
                self._nodes.values(), self.pods.values(), self.reading, policy, now, self.releases.by_node(), self.memory, self._fabric
            )
            self._snapshot = (basis, built)
        return self._snapshot[1]

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


def _lasting(node: Json | None) -> tuple[object, ...] | None:
    """What a node is, whatever its state; None where there is none."""
    if node is None:
        return None
    status = node.get("status") or {}
    return node["metadata"].get("labels"), status.get("allocatable")


def _jobs_of(*pods: PodView | None) -> tuple[Key, ...]:
    return tuple(Key(pod.namespace, pod.job_name) for pod in pods if pod is not None and pod.job_name)


def _holds_resources(pod: PodView | None) -> bool:
    return pod is not None and pod.holds_resources


def _claim(pod: PodView | None) -> tuple[object, ...] | None:
    """What a pod takes from its node; None when nothing."""
    if pod is None or not pod.holds_resources:
        return None
    return pod.node, pod.gpus, pod.cpu_cores, pod.memory_bytes, pod.further, pod.unreadable
