"""A running job on links that change. A better place is reported, or it is moved there by a stop and a start, with few moved workers."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from typing import Final

import pytest

from e2e.cluster import audit
from e2e.cluster.api import Api, Object
from e2e.cluster.cluster import Cluster
from e2e.cluster.operator import USER, OperatorProcess, start_operator
from e2e.jobs import Job, claim_volume, namespace, state_of

POLICIES: Final = "/apis/hyperscale.dev/v1alpha1/plannerpolicies"
IDENTITY: Final = {"HYPERSCALE_IDENTITY": "hyperscale-0"}
HOLD_SECONDS: Final = 12
JUDGED_SECONDS: Final = 180.0
"""Patience with a judgement and what follows it: a stop, a start, pods."""
MIGRATION: Final = {
    "checkPeriodSeconds": 5,
    "holdDownSeconds": HOLD_SECONDS,
    "restartSeconds": 1,
    "workerReloadSeconds": 0,
    "minGainPercent": 5,
}
GIANT: Final = frozenset({"eu-h100-0", "eu-h100-1", "eu-a100-0", "eu-a100-1"})
"""Nodes of eight GPUs: three workers of eight leave one of them over."""
SPEC: Final[Object] = {
    "model": {"architecture": "GraphSAGE", "layers": 3, "hiddenSize": 256, "epochs": 1_000_000},
    "dataset": {"source": {"s3": {"bucket": "graphs"}}, "vertices": 2_449_029, "edges": 123_718_280, "featureSize": 100, "classes": 47},
    "workers": {"minReplicas": 3, "maxReplicas": 3, "resources": {"limits": {"nvidia.com/gpu": 8}}},
    "partitioning": {"balance": "Equal"},
}
CHECKPOINT: Final = {"claimName": "state", "everyEpochs": 10}
SHRINK_SECONDS: Final = 20
SPARE: Final = "eu-a100-1"
SLOW_GPUS: Final[tuple[Object, ...]] = tuple(
    {"product": product, "gigaflops": 10} for product in ("NVIDIA-H100-80GB-HBM3", "NVIDIA-A100-SXM4-80GB")
)
"""So slow that every further worker pays."""
MOVE_POINTS: Final = ("move-begun", "before-suspend", "before-resume")


@pytest.fixture
def space(installed: Cluster, calm: Cluster, request: pytest.FixtureRequest) -> Iterator[str]:
    api = installed.api()
    calm.reset_exporter()
    calm.wait_scraped(time.time())  # else the first plan avoids the node that the test before made slow
    with namespace(api, "move-" + str(abs(hash(request.node.name)))[:8]) as name:
        yield name
    for policy in ("advise", "automatic", "never"):
        if api.find(f"{POLICIES}/move-{policy}") is not None:
            api.delete(f"{POLICIES}/move-{policy}")


@contextlib.contextmanager
def operating(cluster: Cluster, wait: bool = True, **settings: str) -> Iterator[OperatorProcess]:
    process = start_operator(cluster, {**IDENTITY, **settings}, name="operator-move", wait=wait)
    try:
        yield process
    finally:
        process.stop()


def running_job(cluster: Cluster, space: str, mode: str, gpus: tuple[Object, ...] = (), **spec: object) -> Job:
    """A job under a policy of that mode and GPU speeds, all its workers where they were planned."""
    api = cluster.api()
    name = f"move-{mode.lower()}"
    policy = {"apiVersion": "hyperscale.dev/v1alpha1", "kind": "PlannerPolicy", "metadata": {"name": name}}
    api.create(POLICIES, {**policy, "spec": {"migration": {"mode": mode, **MIGRATION}, "gpus": list(gpus)}})
    job = Job(api, space, "train")
    job.create(policyRef={"name": name}, **{**SPEC, **spec})
    job.wait_state("Running")
    job.wait(lambda: job.pod_nodes() == job.nodes(), "ranks are not where they were planned")
    return job


def slow_down(cluster: Cluster, node: str) -> None:
    """All links of a node to the other large ones become ten times slower."""
    for other in sorted(GIANT - {node}):
        cluster.slow_link(node, other, 10)


def writes_of_operator(cluster: Cluster, since: int) -> list[str]:
    """Its writes beside the Lease and the ClusterTopology, which tells how sure of changed links it has become."""
    written = [e for e in cluster.requests(since) if e.user == USER and e.verb in audit.WRITES]
    return [f"{e.verb} {e.resource}" for e in written if e.resource != "leases" and not e.resource.startswith("clustertopologies")]


def assert_one_worker_should_leave(move: Object, source: str, target: str) -> None:
    """The proposal of a policy that only advises."""
    assert [(worker["sourceNode"], worker["targetNode"]) for worker in move["workerMigrations"]] == [(source, target)]
    assert move["migratedWorkers"] == 1
    assert move["savedSeconds"] > move["costSeconds"]
    assert "only advises" in move["blocker"]


def test_a_slow_link_is_told_after_the_hold_down_and_taken_back_when_it_is_well_again(installed: Cluster, space: str) -> None:
    with operating(installed):
        job = running_job(installed, space, "Advise")
        planned = job.nodes()
        time.sleep(HOLD_SECONDS + 8)
        job.wait(lambda: bool(job.condition("Evaluated")), "its plan is not evaluated")  # which is written once
        since = installed.position()
        time.sleep(8)
        assert not job.condition("MigrationProposed"), "nothing changed"
        assert writes_of_operator(installed, since) == [], "an idle job costs nothing although it is judged"

        slow = planned[1]
        began = time.monotonic()
        slow_down(installed, slow)
        job.wait(lambda: bool(job.condition("MigrationProposed")), "no advice", seconds=JUDGED_SECONDS)
        after_seconds = time.monotonic() - began
        print(f"proposed {after_seconds:.0f} s after the link became slow: {job.condition('MigrationProposed')['message']}")
        assert after_seconds >= HOLD_SECONDS
        assert job.condition("MigrationProposed")["reason"] == "BetterPlacementFound"
        job.wait(lambda: "MigrationProposed" in {event["reason"] for event in job.events()}, "no event")
        assert_one_worker_should_leave(job.status()["proposedMigration"], slow, *(GIANT - set(planned)))
        assert job.pod_nodes() == planned

        time.sleep(6)
        since = installed.position()
        time.sleep(12)
        assert writes_of_operator(installed, since) == [], "the same advice is not written again"

        installed.reset_exporter()
        job.wait(lambda: not job.condition("MigrationProposed"), "the advice stays", seconds=JUDGED_SECONDS)
        assert "proposedMigration" not in job.status()


def moved(job: Job, old: list[str]) -> bool:
    nodes = job.pod_nodes()
    return job.nodes() != old and nodes == job.nodes() and job.state() == "Running" and not job.condition("Migrating")


def test_a_policy_that_acts_moves_one_worker_by_stop_and_start_and_leaves_the_others_where_they_were(
    installed: Cluster, space: str
) -> None:
    claim_volume(installed.api(), space)
    with operating(installed):
        job = running_job(installed, space, "Automatic", checkpoint=CHECKPOINT)
        planned, mpijob = job.nodes(), job.mpijob()
        assert mpijob is not None
        slow_down(installed, planned[1])
        began = time.monotonic()
        job.wait(lambda: moved(job, planned), "it does not move", seconds=JUDGED_SECONDS)
        status = job.status()
        after = job.mpijob()
        print(f"moved {time.monotonic() - began:.0f} s after the link became slow: {planned} -> {job.pod_nodes()}")
        assert after is not None
        assert after["metadata"]["uid"] == mpijob["metadata"]["uid"]
        (spare,) = GIANT - set(planned)
        assert job.pod_nodes() == [planned[0], spare, planned[2]]
        assert status["planChanges"] == 1
        assert status["lastMigration"]["migratedWorkers"] == 1
        assert status["columns"]["ready"] == "3/3"
        time.sleep(HOLD_SECONDS + 8)
        assert job.status()["planChanges"] == 1, "one move is enough"


@pytest.mark.parametrize("point", MOVE_POINTS)
def test_killed_at_any_point_of_a_move_it_ends_with_one_mpijob_on_the_new_plan(installed: Cluster, space: str, point: str) -> None:
    claim_volume(installed.api(), space)
    since = installed.position()
    with operating(installed, KILL_OPERATOR_AT=point) as dying:
        job = running_job(installed, space, "Automatic", checkpoint=CHECKPOINT)
        planned = job.nodes()
        slow_down(installed, planned[1])
        dying.wait_killed(JUDGED_SECONDS)
    with operating(installed):
        job.wait(lambda: moved(job, planned), "it does not move", seconds=JUDGED_SECONDS)
        (spare,) = GIANT - set(planned)
        assert job.pod_nodes() == [planned[0], spare, planned[2]]
        assert job.status()["planChanges"] == 1
    assert mpijobs_created(installed, since, space) == 1


def test_a_job_whose_lost_rank_finds_no_room_goes_on_with_fewer_workers_and_with_more_after_a_suspension(
    installed: Cluster, space: str
) -> None:
    """The operator is killed twice on the way."""
    api = installed.api()
    claim_volume(api, space)
    since = installed.position()
    few = {
        "workers": {"minReplicas": 2, "maxReplicas": 4, "resources": {"limits": {"nvidia.com/gpu": 8}}},
        "recovery": {"shrinkAfterSeconds": SHRINK_SECONDS},
    }
    with cordoned(installed, SPARE):
        with operating(installed, KILL_OPERATOR_AT="before-suspend") as dying:
            job = running_job(installed, space, "Never", SLOW_GPUS, checkpoint=CHECKPOINT, **few)
            first, uid = job.nodes(), mpijob_uid(job)
            assert (len(first), hosts(job)) == (3, 3)
            lost = time.monotonic()
            lose_worker(api, job, 1)
            job.wait(lambda: "may go on with fewer workers" in job.condition("Reconciling").get("message", ""), "it does not say when")
            print(job.condition("Reconciling")["message"])
            dying.wait_killed(JUDGED_SECONDS)
        assert time.monotonic() - lost >= SHRINK_SECONDS - 1, "the status tells whole seconds"
        assert job.condition("Migrating")["status"] == "True"
        assert len(job.pods()) == 3, "nothing has happened before it is written down"
        with operating(installed, wait=False, KILL_OPERATOR_AT="before-resume") as dying:  # due at once: it may not get ready
            dying.wait_killed(JUDGED_SECONDS)
        assert job.pods() == []
        with operating(installed):
            job.wait(lambda: moved(job, first), "it does not go on", seconds=JUDGED_SECONDS)
            print(f"continues with {len(job.nodes())} workers {time.monotonic() - lost:.1f} s after the loss: {first} -> {job.pod_nodes()}")
            assert sorted(job.nodes()) == sorted({*first} - {first[1]})
            assert (job.status()["columns"]["ready"], job.status()["planChanges"], hosts(job)) == ("2/2", 1, 2)
            for node in (first[1], SPARE):
                api.patch(f"/api/v1/nodes/{node}", {"spec": {"unschedulable": None}})
            suspend(job)
            again = time.monotonic()
            job.patch(spec={"runPolicy": {"suspend": False}})
            job.wait(lambda: runs_with(job, 4), "it does not go on with four workers", seconds=JUDGED_SECONDS)
            print(f"continues with 4 workers {time.monotonic() - again:.1f} s after the suspension: {job.pod_nodes()}")
            assert (job.status()["columns"]["ready"], job.status()["planChanges"], hosts(job)) == ("4/4", 1, 4)
            assert mpijob_uid(job) == uid
    assert mpijobs_created(installed, since, space) == 1


def mpijob_uid(job: Job) -> str:
    mpijob = job.mpijob()
    assert mpijob is not None
    return str(mpijob["metadata"]["uid"])


def mpijobs_created(cluster: Cluster, since: int, space: str) -> int:
    created = [e for e in cluster.requests(since) if e.resource == "mpijobs" and e.verb == "create" and e.code == 201]
    return len([e for e in created if e.namespace == space])


def lose_worker(api: Api, job: Job, index: int) -> None:
    """Its pod is gone and its node takes no other."""
    api.patch(f"/api/v1/nodes/{job.nodes()[index]}", {"spec": {"unschedulable": True}})
    api.delete(f"/api/v1/namespaces/{job.namespace}/pods/{job.name}-worker-{index}", gracePeriodSeconds="0")


def suspend(job: Job) -> None:
    job.patch(spec={"runPolicy": {"suspend": True}})
    job.wait(lambda: job.reason() == "Suspended" and not job.pods(), "it does not stop")


@contextlib.contextmanager
def cordoned(cluster: Cluster, node: str) -> Iterator[None]:
    """No new pod gets there; at the end all nodes take pods again."""
    api = cluster.api()
    api.patch(f"/api/v1/nodes/{node}", {"spec": {"unschedulable": True}})
    try:
        yield
    finally:
        for name in GIANT:
            api.patch(f"/api/v1/nodes/{name}", {"spec": {"unschedulable": None}})


def runs_with(job: Job, workers: int) -> bool:
    status = job.status()
    placed = job.pod_nodes() == job.nodes() and len(job.nodes()) == workers
    return placed and state_of(status) == "Running" and not job.condition("Migrating")


def hosts(job: Job) -> int:
    """Lines of the host file that mpirun reads."""
    found = job.api.get(f"/api/v1/namespaces/{job.namespace}/configmaps/{job.name}-config")
    return len(found["data"]["hostfile"].split()) // 2
