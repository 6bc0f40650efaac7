"""Training in real pods: real kubelets and containers, the real MPI Operator, Open MPI and Horovod; only the GPUs are not there."""

from __future__ import annotations

import contextlib
import re
import time
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

import pytest
import yaml

from e2e import training
from e2e.cluster.api import Api, Object
from e2e.cluster.cluster import Cluster
from e2e.cluster.operator import OperatorProcess, install, start_operator
from e2e.demo import TRAINING_EXAMPLE
from e2e.jobs import Job, namespace, state_of

POLICIES: Final = "/apis/hyperscale.dev/v1alpha1/plannerpolicies"
EPOCHS: Final = 200
LONG_SECONDS: Final = 40.0
"""Of a run that must still be under way when the operator has decided to stop it, however fast the machine."""
CHECKPOINT_EPOCHS: Final = 20
KILLED_AFTER_EPOCH: Final = 50
POINT: Final = 0.01
METRICS_PORT: Final = 9464
SHRINK_SECONDS: Final = 3
SLOW_GPU: Final[Object] = {"product": "NVIDIA-L4", "gigaflops": 1}
"""So slow that every further worker pays, even on Cora."""
_METRICS_SECONDS: Final = 2.0


@dataclass(frozen=True)
class Trainer:
    """Nodes that run containers, and an operator."""

    cluster: Cluster
    operator: OperatorProcess


@pytest.fixture(scope="module")
def trainer(real_cluster: Cluster) -> Iterator[Trainer]:
    """Nodes that run containers, and an operator."""
    install(real_cluster)
    process = start_operator(real_cluster)
    yield Trainer(real_cluster, process)
    process.stop()


@pytest.fixture(scope="module")
def space(trainer: Trainer) -> Iterator[str]:
    """A namespace."""
    with namespace(trainer.cluster.api(), "training") as name:
        yield name


@pytest.fixture(scope="module")
def undisturbed(trainer: Trainer, space: str) -> Job:
    """A job that has run to its end."""
    job = _create(trainer, space, "undisturbed")
    _succeeded(trainer, job)
    return job


def test_cora_is_trained_in_real_pods_on_the_planned_nodes_and_the_result_is_in_the_status(undisturbed: Job) -> None:
    measured = undisturbed.status()["measured"]
    assert measured["finished"]
    assert measured["epoch"] == EPOCHS
    assert measured["accuracy"] >= training.CORA_ACCURACY
    assert measured["peerBytes"] > 0
    assert undisturbed.plan()["predicted"]["epochSeconds"] > 0


def test_a_killed_worker_alone_is_planned_anew_and_training_goes_on_from_the_checkpoint(
    trainer: Trainer, space: str, undisturbed: Job
) -> None:
    job = _create(trainer, space, "killed")
    seen = _wait_epoch(job)
    stays, lost = job.nodes()
    uid = job.pods()[0]["metadata"]["uid"]
    with _cordoned(job.api, lost):
        reached = max(seen, _epoch(job))
        job.api.delete(f"/api/v1/namespaces/{space}/pods/{job.name}-worker-1", gracePeriodSeconds="0")
        job.wait(lambda: job.nodes()[1:] not in ([], [lost]), "the lost rank was not planned again")
        job.wait_bound()
        assert job.nodes()[0] == stays
        assert job.pods()[0]["metadata"]["uid"] == uid, "the other worker's pod stays"
        assert job.pod_nodes() == job.nodes()
        measured = _succeeded(trainer, job)["measured"]
    assert measured["epoch"] == EPOCHS
    assert measured["resumedEpoch"] >= reached - CHECKPOINT_EPOCHS, "work of more than one checkpoint interval is lost"
    assert abs(measured["accuracy"] - undisturbed.status()["measured"]["accuracy"]) <= POINT


def _assert_same_mpijob(before: Object | None, after: Object | None, workers: int) -> None:
    """It exists all the time, and has that many workers in the end."""
    assert before is not None
    assert after is not None
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert after["spec"]["mpiReplicaSpecs"]["Worker"]["replicas"] == workers


def test_a_job_of_three_workers_stops_for_an_urgent_one_and_resumes_with_two_and_may_grow_again(
    trainer: Trainer, space: str, undisturbed: Job
) -> None:
    api = trainer.cluster.api()
    epochs = max(2 * EPOCHS, int(LONG_SECONDS / undisturbed.status()["measured"]["epochSeconds"]))
    preemption = {"mode": "Automatic", "checkPeriodSeconds": 5, "holdDownSeconds": 5, "minGainPercent": 0}
    # The urgent job ends in seconds: by default the stopped one would rather wait for its GPU than go on with two at once.
    queue, migration = {"preemption": preemption, "minWaitSpeedup": "0"}, {"mode": "Never", "restartSeconds": 0}
    with _policy(api, "stops", queue=queue, migration=migration, gpus=[SLOW_GPU]) as reference:
        patient = _create(trainer, space, "patient", epochs, {"minReplicas": 2, "maxReplicas": 3}, policyRef=reference)
        reached, first = _wait_epoch(patient), patient.mpijob()
        assert len(patient.nodes()) == 3
        urgent = Job(api, space, "urgent")
        one = _spec(CHECKPOINT_EPOCHS, {"minReplicas": 1, "maxReplicas": 1}, policyRef=reference, queueWeight=1000)
        urgent.create(**one)
        urgent.wait(lambda: bool(urgent.nodes()), "the urgent job does not start", training.FINISHED_SECONDS)
        patient.wait(lambda: len(patient.nodes()) == 2, "it does not go on with two workers", training.FINISHED_SECONDS)
        assert patient.status()["preemptions"] == 1
        assert not {*urgent.nodes()} & {*patient.nodes()}, "no node is given twice"
        assert _succeeded(trainer, urgent)["measured"]["epoch"] == CHECKPOINT_EPOCHS
        status = _succeeded(trainer, patient)
    measured = status["measured"]
    print(
        f"stopped after epoch {reached}, resumed from {measured['resumedEpoch']}; "
        f"reported: {status['lastPreemption']['completedEpochs']} kept"
    )
    grown = status["preemptions"] - 1  # the urgent job's GPU is free again: where enough work is left, it grows onto it
    assert grown in (0, 1)
    _assert_same_mpijob(first, patient.mpijob(), workers=2 + grown)
    assert len(patient.nodes()) == 2 + grown
    assert measured["epoch"] == epochs
    assert measured["resumedEpoch"] >= reached - CHECKPOINT_EPOCHS, "work of more than one checkpoint interval is lost"
    assert measured["accuracy"] >= training.CORA_ACCURACY


def test_a_job_that_loses_a_node_for_good_goes_on_with_fewer_workers_on_parts_made_for_them(
    trainer: Trainer, space: str, undisturbed: Job
) -> None:
    api, since, alone = trainer.cluster.api(), trainer.cluster.position(), undisturbed.status()["measured"]
    training.fresh_claim(trainer.cluster, space, "parts")
    more: Object = {
        "partitioning": {"method": "METIS", "claimName": "parts"},
        "recovery": {"shrinkAfterSeconds": SHRINK_SECONDS},
    }
    with _policy(api, "fewer", gpus=[SLOW_GPU]) as reference:
        job = _create(trainer, space, "fewer", EPOCHS, {"minReplicas": 2, "maxReplicas": 3}, policyRef=reference, **more)
        reached, first = _wait_epoch(job), job.nodes()
        assert len(first) == 3
        with _cordoned(api, first[1]):
            api.delete(f"/api/v1/namespaces/{space}/pods/{job.name}-worker-1", gracePeriodSeconds="0")
            lost = time.monotonic()
            job.wait(lambda: _runs_with(job, 2), "it does not go on with two workers", training.FINISHED_SECONDS)
            print(f"two workers run {time.monotonic() - lost:.1f} s after the loss")
            assert job.pod_nodes() == job.nodes() == [first[0], first[2]]
            status = _succeeded(trainer, job)
    measured, log = status["measured"], training.launcher_log(trainer.cluster, space, job.name)
    kept = status["lastMigration"]["completedEpochs"]
    print(f"lost after epoch {reached}, resumed from {measured['resumedEpoch']}; told: {kept} kept; accuracy {measured['accuracy']}")
    assert (measured["epoch"], status["planChanges"], status["plan"]["partitions"]) == (EPOCHS, 1, 2)
    assert kept <= measured["resumedEpoch"], "more is told to be kept than was"
    assert measured["resumedEpoch"] >= reached - CHECKPOINT_EPOCHS, "work of more than one checkpoint interval is lost"
    assert abs(measured["accuracy"] - alone["accuracy"]) <= POINT
    assert job.condition("Partitioned")["status"] == "True"
    assert "in memory" not in log, "workers did not find parts for two"
    assert [e.name for e in trainer.cluster.requests(since) if (e.resource, e.verb, e.code) == ("mpijobs", "create", 201)] == ["fewer"]


@contextlib.contextmanager
def _cordoned(api: Api, name: str) -> Iterator[None]:
    """No new pod gets to a node for a while."""
    api.patch(f"/api/v1/nodes/{name}", {"spec": {"unschedulable": True}})
    try:
        yield
    finally:
        api.patch(f"/api/v1/nodes/{name}", {"spec": {"unschedulable": None}})


@contextlib.contextmanager
def _policy(api: Api, name: str, **spec: object) -> Iterator[Object]:
    """A policy for a while; its reference."""
    metadata = {"name": name}
    api.create(POLICIES, {"apiVersion": "hyperscale.dev/v1alpha1", "kind": "PlannerPolicy", "metadata": metadata, "spec": spec})
    try:
        yield metadata
    finally:
        api.delete(f"{POLICIES}/{name}")


def _runs_with(job: Job, workers: int) -> bool:
    """Whether it runs with `workers` workers, each where it was planned."""
    status = job.status()
    return (
        state_of(status) == "Running" and len(job.nodes()) == workers and not job.condition("Migrating") and job.pod_nodes() == job.nodes()
    )


def _create(
    trainer: Trainer, space: str, name: str, epochs: int = EPOCHS, counts: Mapping[str, int] = MappingProxyType({}), **more: object
) -> Job:
    """The example's job under another name, with checkpoints on a volume of its own."""
    training.wait_idle(trainer.cluster)
    training.fresh_claim(trainer.cluster, space, name)
    job = Job(trainer.cluster.api(), space, name)
    job.create(**_spec(epochs, counts, checkpoint={"claimName": name, "everyEpochs": CHECKPOINT_EPOCHS}, **more))
    return job


def _spec(epochs: int, counts: Mapping[str, int], **more: object) -> Object:
    """The example's, with as many epochs and workers, and without its checkpoints unless `more` has others."""
    spec: Object = yaml.safe_load(TRAINING_EXAMPLE.read_text())["spec"]
    del spec["checkpoint"]
    return {**spec, "model": {**spec["model"], "epochs": epochs}, "workers": {**spec["workers"], **counts}, **more}


def _succeeded(trainer: Trainer, job: Job) -> Object:
    """Its status at the end, which must be a good one."""
    status = training.wait_finished(trainer.operator, job.status)
    assert state_of(status) == "Succeeded", f"{status}\n{training.launcher_log(trainer.cluster, job.namespace, job.name)}"
    return status


def _wait_epoch(job: Job) -> int:
    """Finished epochs, once they are KILLED_AFTER_EPOCH: training continues, and rank 0 may not answer a second time."""
    seen = [0]

    def reached() -> bool:
        seen.append(_epoch(job))
        return seen[-1] >= KILLED_AFTER_EPOCH

    job.wait(reached, f"epoch {KILLED_AFTER_EPOCH} does not come", training.FINISHED_SECONDS)
    return seen[-1]


def _epoch(job: Job) -> int:
    """Finished epochs, asked of rank 0 itself; 0 while it does not answer."""
    pods = job.pods()
    address = pods[0]["status"].get("podIP") if pods else None
    try:
        with urllib.request.urlopen(f"http://{address}:{METRICS_PORT}/metrics", timeout=_METRICS_SECONDS) as answer:
            found = re.search(r"^hyperscale_training_epoch\{.*\} (\S+)$", answer.read().decode(), re.MULTILINE)
    except OSError:
        return 0
    return int(float(found.group(1))) if found else 0
