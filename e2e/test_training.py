"""Training in real pods: real kubelets and containers, the real MPI Operator, Open MPI and Horovod; only the GPUs are not there."""

from __future__ import annotations

import re
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import pytest
import yaml

from e2e import training
from e2e.cluster.api import Object
from e2e.cluster.cluster import Cluster
from e2e.cluster.operator import OperatorProcess, install, start_operator
from e2e.demo import TRAINING_EXAMPLE
from e2e.jobs import Job, namespace

EPOCHS: Final = 200
CHECKPOINT_EPOCHS: Final = 20
KILLED_AFTER_EPOCH: Final = 50
POINT: Final = 0.01
METRICS_PORT: Final = 9464
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


def _create(trainer: Trainer, space: str, name: str) -> Job:
    """The example's job under another name, with checkpoints on a volume of its own."""
    spec = yaml.safe_load(TRAINING_EXAMPLE.read_text())["spec"]
    spec["model"]["epochs"] = EPOCHS
    spec["checkpoint"] = {"volumeClaimName": name, "everyEpochs": CHECKPOINT_EPOCHS}
    training.wait_idle(trainer.cluster)
    training.fresh_claim(trainer.cluster, space, name)
    job = Job(trainer.cluster.api(), space, name)
    job.create(**spec)
    return job


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
