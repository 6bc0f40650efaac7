"""Partitions written by a Job in a real pod before training: once, from the graph, to the volume that the workers then read."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
import yaml

from e2e import training
from e2e.cluster.api import Api, Object
from e2e.cluster.cluster import Cluster
from e2e.cluster.operator import OperatorProcess, install, start_operator
from e2e.demo import TRAINING_EXAMPLE
from e2e.jobs import Job, namespace, state_of
from hyperscale.control.history.run_store import RunStore
from hyperscale.training.data.formats import builtin

EPOCHS: Final = 30
CORA_FILE: Final = Path(builtin.__file__).with_name("planetoid") / "cora.npz"
LEAST_ACCURACY: Final = 0.6
"""After so few epochs; that it learns at all shows that every rank has its part."""
_FAILED_SECONDS: Final = 120.0


@pytest.fixture(scope="module")
def history_url(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Where the operator keeps finished runs."""
    return f"sqlite:///{tmp_path_factory.mktemp('history')}/history.sqlite"


@pytest.fixture(scope="module")
def operator(real_cluster: Cluster, history_url: str) -> Iterator[OperatorProcess]:
    """An operator for nodes that run containers."""
    install(real_cluster)
    process = start_operator(real_cluster, {"HYPERSCALE_HISTORY_URL": history_url, "HYPERSCALE_HISTORY_MIN_RUNS": "1"})
    yield process
    process.stop()


@pytest.fixture(scope="module")
def space(real_cluster: Cluster, operator: OperatorProcess) -> Iterator[str]:
    """A namespace."""
    with namespace(real_cluster.api(), "partitions") as name:
        yield name


def create(nodes: Cluster, space: str, name: str, **dataset: object) -> Job:
    """The example's job, short, with partitions on a volume."""
    spec = yaml.safe_load(TRAINING_EXAMPLE.read_text())["spec"]
    spec["model"]["epochs"] = EPOCHS
    spec["dataset"] |= dataset
    spec["partitioning"] = {"method": "METIS", "claimName": name}
    del spec["checkpoint"]
    (launcher,) = spec["launcher"]["template"]["spec"]["containers"]
    spec["workers"] |= {"template": {"spec": {"containers": [{"name": "worker", "env": launcher["env"]}]}}}
    training.fresh_claim(nodes, space, name)
    job = Job(nodes.api(), space, name)
    job.create(**spec)
    return job


def partition_pods(job: Job) -> list[Object]:
    """Pods of its partition Job."""
    return job.api.items(f"/api/v1/namespaces/{job.namespace}/pods", labelSelector=f"batch.kubernetes.io/job-name={job.name}-partition")


def test_a_job_partitions_once_workers_train_on_its_parts_and_the_run_is_history(
    real_cluster: Cluster, operator: OperatorProcess, space: str, history_url: str
) -> None:
    job = create(real_cluster, space, "parted")
    job.wait_state("Partitioning")
    status = training.wait_finished(operator, job.status)
    assert state_of(status) == "Succeeded", f"{status}\n{training.launcher_log(real_cluster, space, job.name)}"
    (pod,) = partition_pods(job)
    assert pod["status"]["phase"] == "Succeeded"
    assert job.condition("Partitioned")["status"] == "True"
    job.wait(lambda: job.status()["measured"].get("finished", False), "no result")
    assert job.status()["measured"]["accuracy"] >= LEAST_ACCURACY
    history = RunStore(history_url)
    job.wait(lambda: any(run.measured_seconds for run in history.runs(10)), "the run is not in history")
    (run,) = history.runs(10)
    assert (run.name, run.architecture, run.workers, run.method) == ("parted", "GCN", 2, "METIS")
    print(f"predicted {run.predicted_seconds:.4g} s, measured {run.measured_seconds:.4g} s an epoch: {run.ratio:.3g}")


def test_the_next_job_is_predicted_with_what_the_first_taught(real_cluster: Cluster, operator: OperatorProcess, space: str) -> None:
    job = create(real_cluster, space, "taught")
    job.wait(lambda: bool(job.plan()), "no plan")
    known = job.plan()["predicted"]["calibration"]
    assert known["runs"] == 1
    assert known["factor"] > 0
    print(f"corrected by {known['factor']:.4g} to {job.plan()['predicted']['epochSeconds']:.4g} s")


def stored_cora(api: Api, space: str, name: str) -> Object:
    """A `spec.dataset` of the Cora graph as a user's own file in a ConfigMap."""
    packed = base64.b64encode(CORA_FILE.read_bytes()).decode()
    graph = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "binaryData": {"own.npz": packed}}
    api.create(f"/api/v1/namespaces/{space}/configmaps", graph)
    return {"source": {"configMap": {"name": name}}, "path": "own.npz", "format": "NPZ"}


def test_what_partitioning_refuses_is_told_in_its_own_words(real_cluster: Cluster, operator: OperatorProcess, space: str) -> None:
    stated = {"vertices": 99, "edges": 200, "featureSize": 3, "classes": 2}
    job = create(real_cluster, space, "refused", **stored_cora(real_cluster.api(), space, "stated-graph"), **stated)
    job.wait(lambda: job.condition("Stalled").get("reason") == "PartitioningFailed", "it is not refused", _FAILED_SECONDS)
    message = job.condition("Stalled")["message"]
    print(message)
    assert "vertices" in message.lower()
    assert len(partition_pods(job)) == 1, "what cannot succeed is not tried again"
    assert job.mpijob() is None


def test_a_stored_graph_without_sizes_is_read_planned_and_trained(real_cluster: Cluster, operator: OperatorProcess, space: str) -> None:
    api = real_cluster.api()
    spec = yaml.safe_load(TRAINING_EXAMPLE.read_text())["spec"]
    spec["model"]["epochs"] = EPOCHS
    spec["dataset"] = stored_cora(api, space, "own-graph")
    spec.pop("checkpoint", None)
    job = Job(api, space, "unsized")
    job.create(**spec)
    status = training.wait_finished(operator, job.status)
    assert state_of(status) == "Succeeded", f"{status}\n{training.launcher_log(real_cluster, space, job.name)}"
    told = status["dataset"]
    print(f"read: {told}")
    assert (told["source"], told["vertices"], told["edges"], told["featureSize"], told["classes"]) == ("Read", 2708, 10556, 1433, 7)
    assert told["trainVertices"] == 140
    job.wait(lambda: job.status()["measured"].get("finished", False), "no result")
    assert job.status()["measured"]["accuracy"] >= LEAST_ACCURACY
