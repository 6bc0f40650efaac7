"""Long jobs hold the only large nodes when a short one comes: told, or stopped for it, and gone on with afterwards."""

from __future__ import annotations

import contextlib
import functools
import time
from collections import Counter
from collections.abc import Iterator
from typing import Final

import pytest

from e2e.cluster import audit
from e2e.cluster.api import Object
from e2e.cluster.cluster import Cluster
from e2e.cluster.operator import USER, OperatorProcess, start_operator
from e2e.jobs import Job, claim_volume, namespace, state_of

POLICIES: Final = "/apis/hyperscale.dev/v1alpha1/plannerpolicies"
IDENTITY: Final = {"HYPERSCALE_IDENTITY": "hyperscale-0"}
HOLD_SECONDS: Final = 5
JUDGED_SECONDS: Final = 180.0
"""Patience with a judgement and what follows it: a stop, a start, pods."""
PREEMPTION: Final = {"checkPeriodSeconds": 5, "holdDownSeconds": HOLD_SECONDS, "minGainPercent": 5}
DATASET: Final = {"source": {"s3": {"bucket": "graphs"}}, "vertices": 2_449_029, "edges": 123_718_280, "featureSize": 100, "classes": 47}
MODEL: Final = {"architecture": "GraphSAGE", "layers": 3, "hiddenSize": 256}
GPUS_PER_WORKER: Final = 8
"""As many as the four largest nodes have."""
ENDS_SOON: Final = {"metadata": {"annotations": {"hyperscale.dev/simulated-runtime": "1s"}}}


@pytest.fixture
def space(installed: Cluster, calm: Cluster, request: pytest.FixtureRequest) -> Iterator[str]:
    api = installed.api()
    with namespace(api, "stop-" + str(abs(hash(request.node.name)))[:8]) as name:
        claim_volume(api, name)
        yield name
    for mode in ("advise", "automatic"):
        if api.find(f"{POLICIES}/stop-{mode}") is not None:
            api.delete(f"{POLICIES}/stop-{mode}")


@contextlib.contextmanager
def operating(cluster: Cluster, wait: bool = True, **settings: str) -> Iterator[OperatorProcess]:
    process = start_operator(cluster, {**IDENTITY, **settings}, name="operator-stop", wait=wait)
    try:
        yield process
    finally:
        process.stop()


def set_policy(cluster: Cluster, mode: str) -> Object:
    """A policy of that mode; its reference."""
    name = f"stop-{mode.lower()}"
    spec = {"queue": {"preemption": {"mode": mode, **PREEMPTION}}, "migration": {"mode": "Never", "restartSeconds": 1}}
    cluster.api().create(
        POLICIES, {"apiVersion": "hyperscale.dev/v1alpha1", "kind": "PlannerPolicy", "metadata": {"name": name}, "spec": spec}
    )
    return {"name": name}


def start_long(cluster: Cluster, space: str, policy: Object, name: str = "long", workers: int = 4) -> Job:
    """A job that runs for days on `workers` of the four large nodes."""
    job = Job(cluster.api(), space, name)
    counts = {"minReplicas": workers, "maxReplicas": workers, "resources": {"limits": {"nvidia.com/gpu": GPUS_PER_WORKER}}}
    checkpoint = {"claimName": "state", "everyEpochs": 10}
    job.create(model={**MODEL, "epochs": 1_000_000}, dataset=DATASET, workers=counts, checkpoint=checkpoint, policyRef=policy)
    job.wait_state("Running")
    job.wait(lambda: job.pod_nodes() == job.nodes(), "ranks are not where they were planned")
    return job


def add_short(cluster: Cluster, space: str, policy: Object, workers: int = 2) -> Job:
    """An urgent job of minutes that needs `workers` of those nodes."""
    job = Job(cluster.api(), space, "short")
    counts = {"minReplicas": workers, "maxReplicas": workers, "resources": {"limits": {"nvidia.com/gpu": GPUS_PER_WORKER}}}
    job.create(model={**MODEL, "epochs": 50}, dataset=DATASET, workers=counts, policyRef=policy, queueWeight=10)
    return job


def let_end(job: Job) -> None:
    """Its program comes to its end soon."""
    for pod in job.pods("launcher"):
        job.api.patch(f"/api/v1/namespaces/{job.namespace}/pods/{pod['metadata']['name']}", ENDS_SOON)


def end(job: Job) -> None:
    """Its program comes to its end, and its status says so."""
    let_end(job)
    job.wait_state("Succeeded")


def runs_as_planned(job: Job) -> bool:
    status = job.status()
    return state_of(status) == "Running" and job.pod_nodes() == job.nodes() and not job.condition("Migrating")


def uid(job: Job) -> str:
    found = job.mpijob()
    assert found is not None
    return str(found["metadata"]["uid"])


def assert_no_gpu_is_given_twice(*jobs: Job) -> None:
    taken = Counter(node for job in jobs for node in job.pod_nodes() if node)
    assert all(count == 1 for count in taken.values()), taken


def mpijobs_created(cluster: Cluster, since: int, space: str) -> list[str]:
    entries = [entry for entry in cluster.requests(since) if entry.resource == "mpijobs" and entry.verb == "create" and entry.code == 201]
    return sorted(entry.name for entry in entries if entry.namespace == space)


@pytest.mark.parametrize(
    ("longs", "workers", "wanted", "stops"), [(4, 1, 2, 2), (2, 2, 4, 2)], ids=["two of four", "both, on two kinds of GPU"]
)
def test_as_many_long_jobs_stop_for_an_urgent_one_as_it_needs_and_go_on_after_it(
    installed: Cluster, space: str, longs: int, workers: int, wanted: int, stops: int
) -> None:
    since = installed.position()
    policy = set_policy(installed, "Automatic")
    with operating(installed):
        jobs = [start_long(installed, space, policy, f"long-{number}", workers) for number in range(longs)]
        first = {job.name: uid(job) for job in jobs}
        came = time.monotonic()
        short = add_short(installed, space, policy, wanted)
        short.wait(lambda: runs_as_planned(short), "the short job does not run", seconds=JUDGED_SECONDS)
        print(f"the short job runs {time.monotonic() - came:.1f} s after it came, on {short.nodes()}")
        assert_no_gpu_is_given_twice(*jobs, short)
        stopped = [job for job in jobs if job.condition("Preempted")]
        assert len(stopped) == stops
        for long in stopped:
            tells_why_it_stopped(long)
        end(short)
        ended = time.monotonic()
        for long in jobs:
            long.wait(functools.partial(runs_as_planned, long), "the long job does not go on", seconds=JUDGED_SECONDS)
            assert uid(long) == first[long.name]
            assert not long.condition("Preempted")
            assert long.status()["preemptions"] == (1 if long in stopped else 0)
        print(f"the long jobs run again {time.monotonic() - ended:.1f} s after the short one's end")
        assert_no_gpu_is_given_twice(*jobs)
    assert mpijobs_created(installed, since, space) == [*sorted(first), "short"]


def tells_why_it_stopped(long: Job) -> None:
    stopped, short = long.mpijob(), f"{long.namespace}/short"
    assert stopped is not None
    assert stopped["spec"]["runPolicy"]["suspend"]
    long.wait(lambda: long.reason() == "Preempted" and long.condition("Planned")["status"] == "False", "it is not told why")
    status, preempted = long.status(), long.condition("Preempted")
    print(preempted["message"], "|", long.condition("Planned")["message"])
    assert (state_of(status), preempted["reason"]) == ("Queued", "PreemptedForOthers")
    assert f"{short} could start" in preempted["message"]
    assert status["lastPreemption"]["beneficiaries"] == [short]
    long.wait(lambda: "Preempted" in {event["reason"] for event in long.events()}, "no event")
    assert long.pods() == []


def test_advice_is_a_condition_that_is_written_once_and_goes_with_those_who_would_gain(installed: Cluster, space: str) -> None:
    policy = set_policy(installed, "Advise")
    with operating(installed):
        long = start_long(installed, space, policy)
        short = add_short(installed, space, policy)
        long.wait(lambda: bool(long.condition("PreemptionProposed")), "no advice", seconds=JUDGED_SECONDS)
        message = long.condition("PreemptionProposed")["message"]
        print(message)
        assert f"{space}/short could start on its GPUs" in message
        assert "only advises" in message
        long.wait(lambda: "PreemptionProposed" in {event["reason"] for event in long.events()}, "no event")
        long.wait(lambda: bool(long.condition("Evaluated")), "its plan is not evaluated")  # which is written once
        time.sleep(2)
        since = installed.position()
        time.sleep(12)
        writes = [entry for entry in installed.requests(since) if entry.user == USER and entry.verb in audit.WRITES]
        assert [entry.resource for entry in writes if entry.resource not in ("leases", "clustertopologies")] == []
        assert long.state() == "Running"
        assert short.mpijob() is None
        short.remove()
        long.wait(lambda: not long.condition("PreemptionProposed"), "the advice stays", seconds=JUDGED_SECONDS)
        assert "proposedPreemption" not in long.status()


def test_killed_at_every_point_between_stop_and_resume_it_goes_on_with_the_one_mpijob(installed: Cluster, space: str) -> None:
    since = installed.position()
    policy = set_policy(installed, "Automatic")
    with operating(installed, KILL_OPERATOR_AT="stop-begun") as dying:
        long = start_long(installed, space, policy)
        first = uid(long)
        short = add_short(installed, space, policy)
        dying.wait_killed(JUDGED_SECONDS)
    assert not long.condition("Preempted"), "nothing has happened before it is written down"
    with operating(installed, wait=False, KILL_OPERATOR_AT="before-suspend") as dying:  # due at once: it may not get ready
        dying.wait_killed(JUDGED_SECONDS)
    assert long.condition("Preempted")["status"] == "True"
    with operating(installed) as killed:
        short.wait(lambda: runs_as_planned(short), "the short job does not run", seconds=JUDGED_SECONDS)
        killed.kill()
    with operating(installed, KILL_OPERATOR_AT="before-resume") as dying:
        let_end(short)  # the operator may die before it writes that the job ended
        dying.wait_killed(JUDGED_SECONDS)
    with operating(installed):
        short.wait_state("Succeeded")
        long.wait(lambda: runs_as_planned(long), "the long job does not go on", seconds=JUDGED_SECONDS)
        assert_no_gpu_is_given_twice(long, short)
        assert uid(long) == first
        assert long.status()["preemptions"] == 1
    assert mpijobs_created(installed, since, space) == ["long", "short"]
