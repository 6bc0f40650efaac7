"""Training in real pods: real kubelets and containers, the real MPI Operator, Open MPI and Horovod; only the GPUs are not there."""

from __future__ import annotations

import re
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

import pytest
import yaml

from e2e import training
from e2e.cluster.api import Object
from e2e.cluster.cluster import Cluster
from e2e.cluster.operator import OperatorProcess, install, start_operator
from e2e.demo import TRAINING_EXAMPLE
from e2e.jobs import Job, namespace

POLICIES: Final = "/apis/hyperscale.dev/v1alpha1/plannerpolicies"
EPOCHS: Final = 200
LONG_SECONDS: Final = 40.0
"""Of a run that must still be under way when the operator has decided to stop it, however fast the machine."""
CHECKPOINT_EPOCHS: Final = 20
KILLED_AFTER_EPOCH: Final = 50
POINT: Final = 0.01
METRICS_PORT: Final = 9464
SLOW_GPU: Final[Object] = {"product": "NVIDIA-L4", "teraflops": 0.0001}
"""So slow that every further worker pays, even on Cora."""
_METRICS_SECONDS: Final = 2.0

pytestmark = pytest.mark.skipif(not training.has_data(), reason="no cora.npz in $HYPERSCALE_DATASETS, and a generated graph proves nothing")


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
    job.wait(lambda: _epoch(job) >= KILLED_AFTER_EPOCH, f"epoch {KILLED_AFTER_EPOCH} does not come", training.FINISHED_SECONDS)
    stays, lost = job.nodes()
    uid = job.pods()[0]["metadata"]["uid"]
    node = f"/api/v1/nodes/{lost}"
    job.api.patch(node, {"spec": {"unschedulable": True}})
    try:
        reached = _epoch(job)
        job.api.delete(f"/api/v1/namespaces/{space}/pods/{job.name}-worker-1", gracePeriodSeconds="0")
        job.wait(lambda: job.nodes()[1:] not in ([], [lost]), "the lost rank was not planned anew")
        job.wait_bound()
        assert job.nodes()[0] == stays
        assert job.pods()[0]["metadata"]["uid"] == uid, "the other worker's pod stays"
        assert job.pod_nodes() == job.nodes()
        measured = _succeeded(trainer, job)["measured"]
    finally:
        job.api.patch(node, {"spec": {"unschedulable": None}})
    assert measured["epoch"] == EPOCHS
    assert 0 <= reached - measured["resumedEpoch"] <= CHECKPOINT_EPOCHS, "work of more than one checkpoint interval is lost"
    assert abs(measured["accuracy"] - undisturbed.status()["measured"]["accuracy"]) <= POINT


def test_a_job_of_three_workers_stops_for_an_urgent_one_and_finishes_with_two_from_its_checkpoint(
    trainer: Trainer, space: str, undisturbed: Job
) -> None:
    api = trainer.cluster.api()
    epochs = max(2 * EPOCHS, int(LONG_SECONDS / undisturbed.status()["measured"]["epochSeconds"]))
    preemption = {"mode": "Act", "checkSeconds": 5, "holdDownSeconds": 5, "minGainRatio": 0.0}
    policy = {"queue": {"preemption": preemption}, "replan": {"mode": "Off", "restartSeconds": 0}, "gpus": [SLOW_GPU]}
    api.create(POLICIES, {"apiVersion": "hyperscale.dev/v1alpha1", "kind": "PlannerPolicy", "metadata": {"name": "stops"}, "spec": policy})
    try:
        patient = _create(trainer, space, "patient", epochs, {"min": 2, "max": 3}, policyRef={"name": "stops"})
        patient.wait(lambda: _epoch(patient) >= KILLED_AFTER_EPOCH, f"epoch {KILLED_AFTER_EPOCH} does not come", training.FINISHED_SECONDS)
        first, reached = patient.mpijob(), _epoch(patient)
        assert len(patient.nodes()) == 3
        urgent = Job(api, space, "urgent")
        one = _spec(CHECKPOINT_EPOCHS, {"min": 1, "max": 1}, policyRef={"name": "stops"}, runPolicy={"priority": 1000})
        urgent.create(**one)
        urgent.wait(lambda: bool(urgent.nodes()), "the urgent job does not start", training.FINISHED_SECONDS)
        patient.wait(lambda: len(patient.nodes()) == 2, "it does not go on with two workers", training.FINISHED_SECONDS)
        assert patient.status()["stops"] == 1
        assert not {*urgent.nodes()} & {*patient.nodes()}, "no node is given twice"
        assert _succeeded(trainer, urgent)["measured"]["epoch"] == CHECKPOINT_EPOCHS
        status = _succeeded(trainer, patient)
    finally:
        api.delete(f"{POLICIES}/stops")
    measured, after = status["measured"], patient.mpijob()
    print(f"stopped after epoch {reached}, resumed from {measured['resumedEpoch']}; told: {status['lastStop']['epochsDone']} kept")
    assert first is not None
    assert after is not None
    assert after["metadata"]["uid"] == first["metadata"]["uid"]
    assert after["spec"]["mpiReplicaSpecs"]["Worker"]["replicas"] == 2
    assert len(patient.nodes()) == 2
    assert measured["epoch"] == epochs
    assert measured["resumedEpoch"] >= reached - CHECKPOINT_EPOCHS, "work of more than one checkpoint interval is lost"
    assert measured["accuracy"] >= training.CORA_ACCURACY


def _create(
    trainer: Trainer, space: str, name: str, epochs: int = EPOCHS, counts: Mapping[str, int] = MappingProxyType({}), **more: object
) -> Job:
    """The example's job under another name, with checkpoints on a volume of its own."""
    training.wait_idle(trainer.cluster)
    training.fresh_claim(trainer.cluster, space, name)
    job = Job(trainer.cluster.api(), space, name)
    job.create(**_spec(epochs, counts, checkpoint={"volumeClaimName": name, "everyEpochs": CHECKPOINT_EPOCHS}, **more))
    return job


def _spec(epochs: int, counts: Mapping[str, int], **more: object) -> Object:
    """The example's, with as many epochs and workers, and without its checkpoints unless `more` has others."""
    spec: Object = yaml.safe_load(TRAINING_EXAMPLE.read_text())["spec"]
    del spec["checkpoint"]
    return {**spec, "model": {**spec["model"], "epochs": epochs}, "workers": {**spec["workers"], **counts}, **more}


def _succeeded(trainer: Trainer, job: Job) -> Object:
    """Its status at the end, which must be a good one."""
    status = training.wait_finished(trainer.operator, job.status)
    assert status["phase"] == "Succeeded", f"{status}\n{training.launcher_log(trainer.cluster, job.namespace, job.name)}"
    return status


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
