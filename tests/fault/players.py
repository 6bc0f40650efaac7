"""The parts of other controllers that a test plays: the MPI Operator creates pods, the scheduler binds them, the kubelet says Ready."""

from __future__ import annotations

import copy
from typing import Final

from e2e.cluster.api import Api, Object
from e2e.jobs import Job

_MPI_VERSION: Final = "kubeflow.org/v2beta1"


def create_workers(job: Job) -> list[Object]:
    """The worker pods of the job's MPIJob, as the MPI Operator makes them."""
    mpijob = job.mpijob()
    assert mpijob is not None
    worker = mpijob["spec"]["mpiReplicaSpecs"]["Worker"]
    return [_create(job, mpijob, worker["template"], rank) for rank in range(worker["replicas"])]


def _create(job: Job, mpijob: Object, template: Object, rank: int) -> Object:
    pod = copy.deepcopy(template)
    name = f"{job.name}-worker-{rank}"
    metadata = pod.setdefault("metadata", {})
    metadata["name"] = name
    metadata["labels"] = {
        **metadata.get("labels", {}),
        "training.kubeflow.org/job-name": job.name,
        "training.kubeflow.org/job-role": "worker",
        "training.kubeflow.org/replica-index": str(rank),
    }
    owner = {"apiVersion": _MPI_VERSION, "kind": "MPIJob", "name": job.name, "uid": mpijob["metadata"]["uid"], "controller": True}
    metadata["ownerReferences"] = [owner]
    pod["spec"].setdefault("restartPolicy", "Never")
    return job.api.create(f"/api/v1/namespaces/{job.namespace}/pods", {"apiVersion": "v1", "kind": "Pod", **pod})


def gates(pod: Object) -> list[str]:
    """Names of a pod's scheduling gates."""
    return [gate["name"] for gate in pod["spec"].get("schedulingGates", ())]


def resize_node(api: Api, name: str, gpus: int) -> None:
    """The kubelet reports another number of GPUs."""
    resources = {"nvidia.com/gpu": str(gpus)}
    api.patch(f"/api/v1/nodes/{name}/status", {"status": {"allocatable": resources, "capacity": resources}})
