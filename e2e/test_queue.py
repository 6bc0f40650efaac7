"""Ten pending jobs are ordered, sized and placed together: by the rule, or by the agent where its choice is rated no worse."""

from __future__ import annotations

import contextlib
import functools
from collections import Counter
from collections.abc import Iterator
from typing import Final

import pytest

from e2e.cluster.api import Object
from e2e.cluster.cluster import Cluster
from e2e.cluster.control_plane import wait_until
from e2e.cluster.operator import OperatorProcess, start_operator
from e2e.cluster.prometheus import try_query
from e2e.jobs import PATIENCE_SECONDS, Job, namespace, state_of

POLICY: Final = "/apis/hyperscale.dev/v1alpha1/plannerpolicies/default"
IDENTITY: Final = {"HYPERSCALE_IDENTITY": "hyperscale-0"}
EPOCHS: Final = (400, 900, 100, 700, 300, 1000, 200, 600, 800, 500)
"""Of the ten jobs in order of creation: the queue must not follow that."""
LONGER: Final = 50
"""Times the epochs: a job is content with poor nodes after 1.6 times what they cost it, half an hour instead of half a minute."""
SETTLED_SECONDS: Final = 30.0
"""Some questions of the queue; jobs that are LONGER are patient for half an hour."""
URGENT: Final = 3
"""This one's 700 epochs count like 70."""
IDLE_PERCENT: Final = 2
"""What an idle GPU of the simulation shows at most."""
GPUS_PER_WORKER: Final = 2
WORKERS: Final = {"minReplicas": 2, "maxReplicas": 6, "resources": {"limits": {"nvidia.com/gpu": GPUS_PER_WORKER}}}
MODEL: Final = {"architecture": "GraphSAGE", "layers": 3, "hiddenSize": 256}
DATASET: Final = {"source": {"s3": {"bucket": "graphs"}}, "vertices": 2_449_029, "edges": 123_718_280, "featureSize": 100, "classes": 47}
SLOW_GPUS: Final = [
    {"product": product, "gigaflops": 100} for product in ("NVIDIA-H100-80GB-HBM3", "NVIDIA-A100-SXM4-80GB", "NVIDIA-L40S", "Tesla-V100")
]
"""So slow that an epoch pays more workers than one node holds."""
LARGE_NODE: Final = "eu-h100-0"
"""Of eight GPUs: four workers."""
SMALL_NODE: Final = "ap-v100-0"
"""Of four, which are as slow here: two workers."""
WAITING: Final = frozenset({"WaitingForAdmission", "WaitingForBetterNodes", "InsufficientGPUs"})


@pytest.fixture
def space(installed: Cluster, calm: Cluster, request: pytest.FixtureRequest) -> Iterator[str]:
    api = installed.api()
    wait_idle(installed)
    with namespace(api, "queue-" + str(abs(hash(request.node.name)))[:8]) as name:
        yield name
    if api.find(POLICY) is not None:
        api.delete(POLICY)


@contextlib.contextmanager
def operating(cluster: Cluster, **settings: str) -> Iterator[OperatorProcess]:
    process = start_operator(cluster, {**IDENTITY, **settings}, name="operator-queue")
    try:
        yield process
    finally:
        process.stop()


@contextlib.contextmanager
def cordoned(cluster: Cluster, name: str) -> Iterator[None]:
    """A node takes no pods."""
    api = cluster.api()
    api.patch(f"/api/v1/nodes/{name}", {"spec": {"unschedulable": True}})
    try:
        yield
    finally:
        api.patch(f"/api/v1/nodes/{name}", {"spec": {"unschedulable": None}})


def wait_idle(cluster: Cluster) -> None:
    """Prometheus has seen that nothing runs: for a scrape or two GPUs look busy with pods that are gone, and decisions differ by that."""
    busy = f"DCGM_FI_DEV_GPU_UTIL > {IDLE_PERCENT}"
    wait_until(lambda: try_query(cluster.prometheus_url, busy) == [], PATIENCE_SECONDS, "GPUs are still busy")


def set_policy(cluster: Cluster, **spec: object) -> None:
    """The default PlannerPolicy, until the test ends. No decision rests on a fallback because the machine is busy."""
    patient = {"planDeadlineSeconds": 60, **spec}
    policy = {"apiVersion": "hyperscale.dev/v1alpha1", "kind": "PlannerPolicy", "metadata": {"name": "default"}, "spec": patient}
    cluster.api().apply(POLICY, policy)


def ten_jobs(cluster: Cluster, space: str, *, times: int = 1) -> list[Job]:
    """They are there before the operator is, so that it finds all of them pending; `times` their usual epochs."""
    jobs = [Job(cluster.api(), space, f"train-{number}") for number in range(len(EPOCHS))]
    for number, job in enumerate(jobs):
        weight = 10 if number == URGENT else 1
        job.create(model={**MODEL, "epochs": times * EPOCHS[number]}, dataset=DATASET, workers=WORKERS, queueWeight=weight)
    return jobs


def decided(job: Job) -> bool:
    status = job.status()
    return state_of(status) == "Running" or job.reason() in WAITING


def wait_decided(jobs: list[Job]) -> list[Job]:
    """Those that run, once all are decided on."""
    for job in jobs:
        job.wait(functools.partial(decided, job), "neither runs nor waits")
    return running_of(jobs)


def running_of(jobs: list[Job]) -> list[Job]:
    """Those that run now."""
    return [job for job in jobs if job.state() == "Running"]


def decision(job: Job) -> Object:
    found: Object = job.status().get("queueDecision") or {}
    return found


def index(job: Job) -> float:
    """What the rule orders by, up to the common time of an epoch."""
    number = int(job.name.rpartition("-")[2])
    return EPOCHS[number] / (10 if number == URGENT else 1)


def assert_no_gpu_is_given_twice(cluster: Cluster, jobs: list[Job]) -> None:
    allocatable = {
        node["metadata"]["name"]: int(node["status"]["allocatable"]["nvidia.com/gpu"]) for node in cluster.api().items("/api/v1/nodes")
    }
    planned = Counter[str]()
    bound = Counter[str]()
    for job in jobs:
        for worker in job.plan().get("workers", ()):
            planned[worker["node"]] += worker["gpus"]
        for node in job.pod_nodes():
            bound[node] += GPUS_PER_WORKER
        assert job.pod_nodes() == job.nodes()
    assert all(taken <= allocatable[node] for node, taken in (planned + Counter()).items())
    assert all(taken <= allocatable[node] for node, taken in (bound + Counter()).items())


def print_decisions(jobs: list[Job]) -> None:
    for job in sorted(jobs, key=index):
        print(job.name, index(job), len(job.nodes()), "workers", job.nodes(), job.reason(), decision(job))
        print("  ", job.condition("Planned").get("message", ""))


def assert_positions(running: list[Job], waiting: list[Job]) -> None:
    """Each waiting job has one of its own; all but the first also name a job that goes before them."""
    assert {decision(job)["position"] for job in running} == {0}
    assert all(decision(job)["ruleScore"] > 0 for job in (*running, *waiting) if decision(job))
    positions = {job.name: decision(job)["position"] for job in waiting}
    assert len(set(positions.values())) == len(waiting)
    for job in waiting:
        message = job.condition("Planned")["message"]
        assert positions[job.name] <= 1 or "goes first" in message or "first is" in message


def remove_until_it_starts(running: list[Job], first: Job) -> None:
    """Remove jobs, the next to end first, until the first of the queue starts."""
    for job in sorted(running, key=index):
        job.remove()
        if first.state() in ("Starting", "Running"):
            return


def assert_the_agent_is_used_only_where_no_worse(job: Job) -> None:
    scores = decision(job)
    assert scores["chosenBy"] == ("Learned" if scores["learnedScore"] <= scores["ruleScore"] else "Rule")


def test_ten_pending_jobs_are_ordered_sized_and_placed_together(installed: Cluster, space: str) -> None:
    # By their order alone: else a short job may wait for a running one, and a longer job starts on the nodes that it left free.
    set_policy(installed, gpus=SLOW_GPUS, queue={"maxStartSlowdown": "4", "minWaitSpeedup": "0"})
    alone = Job(installed.api(), space, "alone")
    alone.create(model={**MODEL, "epochs": 100}, dataset=DATASET, workers=WORKERS, startPolicy="Never")
    with operating(installed):
        alone.wait_reason("StartPolicyNever")
    jobs = ten_jobs(installed, space)
    with cordoned(installed, "eu-h100-1"), operating(installed):
        running = wait_decided(jobs)
        waiting = [job for job in jobs if job not in running]
        for job in running:
            job.wait_bound()
        assert_no_gpu_is_given_twice(installed, running)
        print("alone:", len(alone.nodes()), "workers")
        print_decisions(jobs)
        assert running
        assert waiting, "56 GPUs are too few for ten such jobs"
        assert max(map(index, running)) < min(map(index, waiting)), "shorter and more urgent jobs go first"
        assert jobs[URGENT] in running
        assert min(len(job.nodes()) for job in running) < len(alone.nodes()), "among others some get fewer workers than alone"
        assert_positions(running, waiting)

        first = min(waiting, key=index)
        remove_until_it_starts(running, first)
        first.wait_bound()
        started = [job for job in jobs if job.mpijob() is not None]  # the removal may have started others too
        for job in started:
            job.wait_bound()
        assert_no_gpu_is_given_twice(installed, started)


def test_a_job_waits_for_a_running_one_that_ends_soon_says_so_and_starts_when_it_ends(installed: Cluster, space: str) -> None:
    set_policy(installed, gpus=SLOW_GPUS)
    soonest, waiting = Job(installed.api(), space, "soonest"), Job(installed.api(), space, "waiting")
    with contextlib.ExitStack() as stack:
        nodes = [node["metadata"]["name"] for node in installed.api().items("/api/v1/nodes")]
        for name in sorted({*nodes} - {LARGE_NODE, SMALL_NODE}):
            stack.enter_context(cordoned(installed, name))
        stack.enter_context(operating(installed))
        soonest.create(model={**MODEL, "epochs": 100}, dataset=DATASET, workers={**WORKERS, "minReplicas": 4, "maxReplicas": 4})
        soonest.wait_state("Running")
        soonest.wait_bound()
        assert set(soonest.nodes()) == {LARGE_NODE}

        waiting.create(model={**MODEL, "epochs": 800}, dataset=DATASET, workers=WORKERS)
        waiting.wait_reason("WaitingForBetterNodes")
        message = waiting.condition("Planned")["message"]
        print(message)
        assert "with 2 workers; other jobs end in" in message, "it could start on the small node"
        soonest.remove()
        waiting.wait(lambda: waiting.state() in ("Starting", "Running"), "the end of a running job starts no job that waits for it")
        waiting.wait_bound()
        assert set(waiting.nodes()) == {LARGE_NODE}, "it starts on the node that the other left"


def test_the_agents_choice_is_scored_beside_the_rules_and_used_only_where_it_is_no_worse(installed: Cluster, space: str) -> None:
    set_policy(installed, queue={"order": "Learned"})
    jobs = ten_jobs(installed, space)
    with operating(installed) as process:
        running = wait_decided(jobs)
        assert running
        for job in running:
            job.wait_bound()
        assert_no_gpu_is_given_twice(installed, running)
        for job in jobs:
            print(job.name, len(job.nodes()), job.reason(), decision(job))
            assert_the_agent_is_used_only_where_no_worse(job)
        assert "hyperscale_queue_decisions_total" in process.metrics()

        waiting = [job for job in jobs if job not in running]
        for job in running:
            job.remove()
        # The agent may keep nodes free for later while others run, so each is ended as soon as it has started.
        while waiting:
            waiting[0].wait(lambda: any(job.state() == "Running" for job in waiting), "no waiting job starts", 180.0)
            job = next(job for job in waiting if job.state() == "Running")
            print("then", job.name, len(job.nodes()), decision(job))
            assert_the_agent_is_used_only_where_no_worse(job)
            job.remove()
            waiting.remove(job)


def test_a_restart_in_the_middle_of_a_decision_comes_to_the_same_mpijobs(installed: Cluster, space: str) -> None:
    # The free nodes are 3.7 times slower than those that the first jobs take, and no patience ends before the second operator has decided.
    set_policy(installed, queue={"maxStartSlowdown": "2"})
    jobs = ten_jobs(installed, space, times=LONGER)
    with operating(installed):
        expected = sizes(wait_decided(jobs))
    for job in jobs:
        job.remove()
    for job in jobs:
        job.wait(job.is_gone, "something is left")
    wait_idle(installed)

    jobs = ten_jobs(installed, space, times=LONGER)
    dying = start_operator(installed, {**IDENTITY, "KILL_OPERATOR_AT": "created"}, name="operator-dying", wait=False)
    dying.wait_killed(180)
    created = mpijob_uids(jobs)
    assert 0 < len(created) < len(jobs)
    print("created before the crash:", sorted(created))
    with operating(installed):
        wait_decided(jobs)
        print("expected:", expected)
        # A look may fall between two decisions of the second operator: the first one may leave a job to the next.
        wait_until(lambda: sizes(running_of(jobs)) == expected, SETTLED_SECONDS, "the MPIJobs are others than without the crash")
        running = running_of(jobs)
        for job in running:
            job.wait_bound()
        assert_no_gpu_is_given_twice(installed, running)
        assert sizes(running_of(jobs)) == expected
        uids = mpijob_uids(jobs)
        assert set(uids) == {job.name for job in running}
        assert {name: uids[name] for name in created} == created


def mpijob_uids(jobs: list[Job]) -> dict[str, str]:
    """Of those that have an MPIJob, by name."""
    return {job.name: mpijob["metadata"]["uid"] for job in jobs if (mpijob := job.mpijob()) is not None}


def sizes(jobs: list[Job]) -> dict[str, int]:
    """Workers of the MPIJobs by name."""
    mpijobs = {job.name: job.mpijob() for job in jobs}
    return {name: found["spec"]["mpiReplicaSpecs"]["Worker"]["replicas"] for name, found in sorted(mpijobs.items()) if found is not None}
