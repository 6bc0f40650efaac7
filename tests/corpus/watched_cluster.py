"""Four nodes, one running job and a watch over it, without a cluster and with a clock of its own."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import permutations
from typing import Any

from hyperscale.control.cache.cluster_cache import ClusterCache
from hyperscale.control.cache.records import Key
from hyperscale.control.render.mpijob import plan_annotation
from hyperscale.control.scheduler.control_context import ControlContext
from hyperscale.control.scheduler.migration import MigrationPlanner
from hyperscale.control.scheduler.planner_client import Planning
from hyperscale.control.specs.parsed_specs import JobReader
from hyperscale.control.telemetry.metrics import Telemetry
from hyperscale.model import constants
from hyperscale.model.api.policy import PolicySpec
from hyperscale.model.cluster import ClusterSnapshot, MetricsState
from hyperscale.model.metrics_reading import MetricsReading, Series
from hyperscale.model.running_query import MigrationAnswer, MigrationQuestion, PreemptionAnswer, PreemptionQuestion
from hyperscale.model.status import JobStatus, to_wire
from hyperscale.planner.graph.cluster_graph import build
from hyperscale.planner.migration.migration_evaluation import evaluate_migrations
from hyperscale.planner.search.heuristic import Heuristic
from hyperscale.planner.workload.profile import profile
from tests.builders.seen import MPIJOB_UID, UID, plan

CORA = Key("team", "cora")
NODES = ("node-a", "node-b", "node-c", "node-d")
PLAN = plan("node-a", "node-b")
SPEC: dict[str, Any] = {
    "model": {"architecture": "GraphSAGE", "layers": 3, "hiddenSize": 256, "epochs": 100_000},
    "dataset": {
        "source": {"persistentVolumeClaim": {"claimName": "g"}},
        "vertices": 2_449_029,
        "edges": 123_718_280,
        "featureSize": 100,
        "classes": 47,
    },
    "workers": {"minReplicas": 2, "maxReplicas": 2},
    "checkpoint": {"claimName": "state", "everyEpochs": 10},
}


class InProcess:
    """The real judge, without the process around it."""

    def __init__(self) -> None:
        self.asked: list[MigrationQuestion] = []
        self.fails = False

    async def moves(self, question: MigrationQuestion, snapshot: ClusterSnapshot, policy: PolicySpec) -> MigrationAnswer | None:
        self.asked.append(question)
        if self.fails:
            return None
        return evaluate_migrations(
            question, build(snapshot, policy), policy, lambda job: profile(job.request.job), lambda: False, Heuristic()
        )

    async def preempt(self, question: PreemptionQuestion, snapshot: ClusterSnapshot, policy: PolicySpec) -> PreemptionAnswer | None:
        return None


class Cluster:
    """Four nodes, one job of two ranks that has run for an hour, and a watch over it."""

    def __init__(self, mode: str = "Advise", **spec: Any) -> None:
        self.now = 1_800_000_000.0
        self.step_seconds = 0.0
        """By which the clock was set."""
        self.reader = JobReader()
        self.cache = ClusterCache(lambda: self.now, may_start=self.reader.may_start)
        self.planner = InProcess()
        self.woken: list[Key] = []
        self.version = 1
        self.spec = {**SPEC, **spec}
        self.policy = {"migration": {"mode": mode, "checkPeriodSeconds": 10, "holdDownSeconds": 60, "restartSeconds": 60}}
        self.start()
        self.cache.replace("Node", [node(name) for name in NODES])
        self.cache.see_policy({"metadata": {"name": "default", "uid": "p", "generation": 1}, "spec": self.policy})
        self.see_job(JobStatus(plan=PLAN))
        self.cache.see_mpijob(mpijob())
        for rank, name in enumerate(("node-a", "node-b")):
            self.cache.see_pod(pod(rank, name))
        self.read()

    def start(self) -> None:
        """A new operator process."""
        context = ControlContext(
            self.cache, self.reader, Telemetry(), lambda: self.now + self.step_seconds, self.woken.append, monotonic=lambda: self.now
        )
        self.planning = Planning(context, self.planner)  # type: ignore[arg-type] # a counting stand-in for the planner
        self.watch: MigrationPlanner = self.planning.migration

    def see_job(self, status: JobStatus) -> None:
        self.version += 1
        metadata = {"namespace": "team", "name": "cora", "uid": UID, "generation": 1, "resourceVersion": str(self.version)}
        self.cache.see_job({"metadata": metadata, "spec": self.spec, "status": to_wire(status)})

    def read(self, slow: Iterable[str] = (), available: bool = True) -> None:
        """A fresh reading of all links; those of `slow` nodes are ten times slower."""
        bad = set(slow)
        pairs = [({"source": a, "destination": b}, 10.0 if {a, b} & bad else 1.0) for a, b in permutations(NODES, 2)]
        series = {
            "link_latency": tuple(Series(labels, 1e-4 * factor, self.now) for labels, factor in pairs),
            "link_bandwidth": tuple(Series(labels, 1e9 / factor, self.now) for labels, factor in pairs),
        }
        state = MetricsState(available=available, reason="" if available else "MetricsStale")
        self.cache.snapshots.reading = MetricsReading(self.now, state, series if available else {})

    async def pass_time(self, seconds: float, slow: Iterable[str] = ()) -> None:
        """Let the clock run in steps of ten seconds, with fresh readings, and judge."""
        for _ in range(int(seconds / 10)):
            self.now += 10.0
            self.read(slow)
            await self.watch.check()


def node(name: str) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB"}},
        "status": {
            "allocatable": {"cpu": "32", "memory": "256Gi", constants.GPU_RESOURCE: "1"},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def pod(rank: int, on: str) -> dict[str, Any]:
    return {
        "metadata": {
            "namespace": "team",
            "name": f"cora-worker-{rank}",
            "uid": f"pod-{rank}",
            "resourceVersion": "1",
            "labels": {
                constants.MPI_JOB_NAME_LABEL: "cora",
                constants.MPI_JOB_ROLE_LABEL: "worker",
                constants.MPI_REPLICA_INDEX_LABEL: str(rank),
            },
            "ownerReferences": [{"kind": "MPIJob", "name": "cora", "uid": MPIJOB_UID, "controller": True}],
        },
        "spec": {"nodeName": on, "containers": [{"name": "w", "resources": {"limits": {constants.GPU_RESOURCE: "1"}}}]},
        "status": {"phase": "Running"},
    }


def mpijob() -> dict[str, Any]:
    return {
        "metadata": {
            "namespace": "team",
            "name": "cora",
            "uid": MPIJOB_UID,
            "resourceVersion": "1",
            "annotations": {constants.PLAN_ANNOTATION: plan_annotation(PLAN)},
            "ownerReferences": [{"uid": UID, "controller": True}],
        },
        "spec": {
            "mpiReplicaSpecs": {"Worker": {"replicas": 2, "template": {"spec": {"schedulingGates": [{"name": constants.PLACEMENT_GATE}]}}}}
        },
        "status": {"startTime": "2027-01-15T07:00:00Z", "conditions": [{"type": "Running", "status": "True"}]},
    }
