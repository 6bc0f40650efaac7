"""Running jobs judged on a cluster whose links change: hold-down, advice, acts, and silence where nothing is new."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import permutations
from typing import Any

import msgspec
import pytest

from hyperscale import names
from hyperscale.drift import ADVISES, DriftWatch
from hyperscale.graph.cluster import build
from hyperscale.jobreader import JobReader
from hyperscale.model.cluster import ClusterSnapshot, MetricsState
from hyperscale.model.metrics import MetricsReading, Series
from hyperscale.model.moves import MoveQuestion, Moves
from hyperscale.model.plan import Plan
from hyperscale.model.policy import PolicySpec
from hyperscale.model.status import JobStatus, LastMove, from_plan, to_wire
from hyperscale.movable import is_moving
from hyperscale.plan.moves import judge
from hyperscale.planning import Planning
from hyperscale.render.mpijob import plan_annotation
from hyperscale.telemetry import Telemetry
from hyperscale.workload.profile import profile
from hyperscale.world import Key, World
from tests.builders.seen import MPIJOB_UID, UID, plan

CORA = Key("team", "cora")
NODES = ("node-a", "node-b", "node-c", "node-d")
PLAN = plan("node-a", "node-b")
SPEC: dict[str, Any] = {
    "model": {"architecture": "GraphSAGE", "layers": 3, "hiddenSize": 256, "epochs": 100_000},
    "dataset": {"source": {"pvc": {"claimName": "g"}}, "vertices": 2_449_029, "edges": 123_718_280, "featureSize": 100, "classes": 47},
    "workers": {"min": 2, "max": 2},
    "checkpoint": {"volumeClaimName": "state", "everyEpochs": 10},
}
HOUR = 3600.0


class InProcess:
    """The real judge, without the process around it."""

    def __init__(self) -> None:
        self.asked: list[MoveQuestion] = []
        self.fails = False

    async def moves(self, question: MoveQuestion, snapshot: ClusterSnapshot, policy: PolicySpec) -> Moves | None:
        self.asked.append(question)
        if self.fails:
            return None
        return judge(question, build(snapshot, policy), policy, lambda job: profile(job.request.job), lambda: False)


class Cluster:
    """Four nodes, one job of two ranks that has run for an hour, and a watch over it."""

    def __init__(self, mode: str = "Advise", **spec: Any) -> None:
        self.now = 1_800_000_000.0
        self.world = World()
        self.planner = InProcess()
        self.woken: list[Key] = []
        self.version = 1
        self.spec = {**SPEC, **spec}
        self.policy = {"replan": {"mode": mode, "checkSeconds": 10, "holdDownSeconds": 60, "restartSeconds": 60}}
        self.start()
        self.world.replace("node", [node(name) for name in NODES])
        self.world.see_policy({"metadata": {"name": "default", "uid": "p", "generation": 1}, "spec": self.policy})
        self.see_job(JobStatus(plan=from_plan(PLAN)))
        self.world.see_mpijob(mpijob())
        for rank, name in enumerate(("node-a", "node-b")):
            self.world.see_pod(pod(rank, name))
        self.read()

    def start(self) -> None:
        """A new operator process."""
        telemetry = Telemetry()
        planning = Planning(self.world, self.planner, telemetry, lambda: self.now)  # type: ignore[arg-type] # a counting stand-in for the metrics
        self.watch: DriftWatch = planning.drift
        self.planning = planning
        self.reader: JobReader = planning.reader
        self.watch.wake = self.woken.append

    def see_job(self, status: JobStatus) -> None:
        self.version += 1
        metadata = {"namespace": "team", "name": "cora", "uid": UID, "generation": 1, "resourceVersion": str(self.version)}
        self.world.see_job({"metadata": metadata, "spec": self.spec, "status": to_wire(status)})

    def read(self, slow: Iterable[str] = (), available: bool = True) -> None:
        """A fresh reading of all links; those of `slow` nodes are ten times slower."""
        bad = set(slow)
        pairs = [({"source": a, "destination": b}, 10.0 if {a, b} & bad else 1.0) for a, b in permutations(NODES, 2)]
        series = {
            "link_latency": tuple(Series(labels, 1e-4 * factor, self.now) for labels, factor in pairs),
            "link_bandwidth": tuple(Series(labels, 1e9 / factor, self.now) for labels, factor in pairs),
        }
        state = MetricsState(available=available, reason="" if available else "MetricsStale")
        self.world.reading = MetricsReading(self.now, state, series if available else {})

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
            "allocatable": {"cpu": "32", "memory": "256Gi", names.GPU_RESOURCE: "1"},
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
                names.MPI_JOB_NAME_LABEL: "cora",
                names.MPI_JOB_ROLE_LABEL: "worker",
                names.MPI_REPLICA_INDEX_LABEL: str(rank),
            },
            "ownerReferences": [{"kind": "MPIJob", "name": "cora", "uid": MPIJOB_UID, "controller": True}],
        },
        "spec": {"nodeName": on, "containers": [{"name": "w", "resources": {"limits": {names.GPU_RESOURCE: "1"}}}]},
        "status": {"phase": "Running"},
    }


def mpijob() -> dict[str, Any]:
    return {
        "metadata": {
            "namespace": "team",
            "name": "cora",
            "uid": MPIJOB_UID,
            "resourceVersion": "1",
            "annotations": {names.PLAN_ANNOTATION: plan_annotation(PLAN)},
            "ownerReferences": [{"uid": UID, "controller": True}],
        },
        "spec": {
            "mpiReplicaSpecs": {"Worker": {"replicas": 2, "template": {"spec": {"schedulingGates": [{"name": names.PLACEMENT_GATE}]}}}}
        },
        "status": {"startTime": "2027-01-15T07:00:00Z", "conditions": [{"type": "Running", "status": "True"}]},
    }


async def test_nothing_is_said_where_nothing_changed() -> None:
    cluster = Cluster()
    await cluster.pass_time(300)
    assert len(cluster.planner.asked) > 3
    assert cluster.woken == []
    view = cluster.watch.view(CORA)
    assert view is not None
    assert (view.proposal, view.plan) == (None, None)


async def test_a_job_is_asked_about_no_more_often_than_the_policy_says() -> None:
    cluster = Cluster()
    for _ in range(40):
        cluster.now += 1.0
        cluster.read()
        await cluster.watch.check()
    assert len(cluster.planner.asked) == 3


async def test_a_slow_node_is_told_after_the_hold_down_and_not_again() -> None:
    cluster = Cluster()
    await cluster.pass_time(60, slow=["node-b"])
    assert cluster.woken == []
    await cluster.pass_time(60, slow=["node-b"])
    view = cluster.watch.view(CORA)
    assert view is not None
    assert view.proposal is not None
    assert view.plan is None
    assert (view.proposal.moves, view.proposal.workers, view.proposal.obstacle) == (1, 2, ADVISES)
    assert view.proposal.ranks[0].source in ("node-b", "node-a")
    assert view.proposal.saved_seconds > view.proposal.price_seconds
    cluster.see_job(JobStatus(plan=from_plan(PLAN), move=view.proposal))
    woken = len(cluster.woken)
    await cluster.pass_time(120, slow=["node-b"])
    assert len(cluster.woken) == woken
    again = cluster.watch.view(CORA)
    assert again is not None
    assert again.proposal == view.proposal


async def test_a_gain_that_comes_and_goes_is_not_told() -> None:
    cluster = Cluster()
    for _ in range(6):
        await cluster.pass_time(40, slow=["node-b"])
        await cluster.pass_time(20)
    assert cluster.woken == []


async def test_a_told_move_is_taken_back_when_the_links_are_well_again() -> None:
    cluster = Cluster()
    await cluster.pass_time(120, slow=["node-b"])
    view = cluster.watch.view(CORA)
    assert view is not None
    cluster.see_job(JobStatus(plan=from_plan(PLAN), move=view.proposal))
    cluster.woken.clear()
    await cluster.pass_time(20)
    assert cluster.woken
    after = cluster.watch.view(CORA)
    assert after is not None
    assert after.proposal is None


async def test_after_a_restart_the_hold_down_goes_on_where_the_status_says() -> None:
    cluster = Cluster()
    await cluster.pass_time(120, slow=["node-b"])
    told = cluster.watch.view(CORA)
    assert told is not None
    cluster.see_job(JobStatus(plan=from_plan(PLAN), move=told.proposal))
    cluster.start()
    cluster.woken.clear()
    assert cluster.watch.view(CORA) is None
    await cluster.pass_time(30, slow=["node-b"])
    view = cluster.watch.view(CORA)
    assert view is not None
    assert view.proposal == told.proposal
    assert cluster.woken == []


async def test_act_offers_the_plan_once_and_takes_its_gpus() -> None:
    cluster = Cluster("Act")
    await cluster.pass_time(120, slow=["node-b"])
    view = cluster.watch.view(CORA)
    assert view is not None
    assert view.plan is not None
    assert cluster.woken[-1] == CORA
    policy = cluster.reader.policy_named("default", cluster.world.policies)
    assert await cluster.planning.begin_move(CORA, view.plan, policy) is not None
    taken = cluster.watch.view(CORA)
    assert taken is not None
    assert taken.plan is None
    moved = {worker.node for worker in view.plan.workers} - {"node-a", "node-b"}
    snapshot = cluster.world.snapshot(policy, cluster.now)
    others = cluster.world.free_gpus(snapshot, Key("team", "other"))
    assert moved
    assert all(others[name] == 0 for name in moved)
    cluster.world.assume(CORA, None)
    assert cluster.world.free_gpus(snapshot, Key("team", "other")) == {}


async def test_a_move_that_does_not_fit_any_more_is_not_begun() -> None:
    cluster = Cluster("Act")
    await cluster.pass_time(120, slow=["node-b"])
    view = cluster.watch.view(CORA)
    assert view is not None
    assert view.plan is not None
    cluster.world.assume(Key("team", "other"), plan("node-c", "node-d"))
    policy = cluster.reader.policy_named("default", cluster.world.policies)
    assert await cluster.planning.begin_move(CORA, view.plan, policy) is None


async def test_act_without_a_checkpoint_only_tells_why_it_does_not() -> None:
    cluster = Cluster("Act", checkpoint=None)
    await cluster.pass_time(200, slow=["node-b"])
    view = cluster.watch.view(CORA)
    assert view is not None
    assert view.plan is None
    assert view.proposal is not None
    assert "checkpoint" in view.proposal.obstacle


async def test_so_soon_after_a_move_nothing_is_proposed() -> None:
    cluster = Cluster()
    await cluster.pass_time(60)
    recent = LastMove("2027-01-15T08:00:50Z", 1, 100.0)
    cluster.see_job(JobStatus(plan=from_plan(PLAN), last_move=recent))
    start = cluster.now
    while not cluster.woken and cluster.now < start + 300:
        await cluster.pass_time(10, slow=["node-b"])
    assert cluster.now - 1_800_000_050.0 >= 60.0


async def test_without_measurements_nothing_is_judged() -> None:
    cluster = Cluster()
    for _ in range(10):
        cluster.now += 10.0
        cluster.read(available=False)
        await cluster.watch.check()
    assert cluster.planner.asked == []


async def test_a_planner_that_fails_is_left_alone_for_a_while() -> None:
    cluster = Cluster()
    cluster.planner.fails = True
    await cluster.pass_time(60)
    assert 1 <= len(cluster.planner.asked) <= 2


async def test_a_policy_that_is_switched_off_takes_back_what_was_told() -> None:
    cluster = Cluster()
    await cluster.pass_time(120, slow=["node-b"])
    view = cluster.watch.view(CORA)
    assert view is not None
    cluster.see_job(JobStatus(plan=from_plan(PLAN), move=view.proposal))
    off = {"replan": {"mode": "Off"}}
    cluster.world.see_policy({"metadata": {"name": "default", "uid": "p", "generation": 2}, "spec": off})
    cluster.woken.clear()
    await cluster.pass_time(20, slow=["node-b"])
    after = cluster.watch.view(CORA)
    assert cluster.woken == [CORA]
    assert after is not None
    assert after.proposal is None


async def test_progress_counts_slow_epochs_as_slow() -> None:
    cluster = Cluster()
    policy = cluster.reader.policy_named("default", cluster.world.policies)
    await cluster.pass_time(30, slow=["node-b"])
    snapshot = cluster.world.snapshot(policy, cluster.now)
    before = cluster.watch.running_job(CORA, policy, snapshot)
    cluster.now += 100.0
    after = cluster.watch.running_job(CORA, policy, snapshot)
    assert before is not None
    assert after is not None
    assert before.remaining_epochs - after.remaining_epochs < 100.0 / PLAN.predicted.epoch_seconds
    assert after.redone_epochs == pytest.approx(10.0)


def test_a_status_with_the_condition_counts_as_moving() -> None:
    wire = {"conditions": [{"type": "Moving", "status": "True", "reason": "MovingWorkers"}]}
    assert is_moving(msgspec.convert(wire, JobStatus))
    assert isinstance(PLAN, Plan)
