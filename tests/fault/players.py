"""The parts of other controllers that a test plays: the MPI Operator creates pods, the scheduler binds them, the kubelet says Ready."""

from __future__ import annotations

import copy
from typing import Final

from e2e.cluster.api import Api, Object
from e2e.jobs import Job
from tests.fault.proxy import FaultProxy

_MPI_VERSION: Final = "kubeflow.org/v2beta1"


def create_workers(job: Job, *ranks: int) -> list[Object]:
    """The worker pods of the job's MPIJob, as the MPI Operator makes them; without ranks all of them."""
    mpijob = job.mpijob()
    assert mpijob is not None
    worker = mpijob["spec"]["mpiReplicaSpecs"]["Worker"]
    owner = {"apiVersion": _MPI_VERSION, "kind": "MPIJob", "name": job.name, "uid": mpijob["metadata"]["uid"], "controller": True}
    roles = {rank: {"job-role": "worker", "replica-index": str(rank)} for rank in ranks or range(worker["replicas"])}
    return [_create(job, f"{job.name}-worker-{rank}", worker["template"], owner, role) for rank, role in roles.items()]


def create_launcher(job: Job) -> Object:
    """The launcher pod, as the Job controller makes it for the MPI Operator."""
    mpijob = job.mpijob()
    assert mpijob is not None
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": f"{job.name}-launcher", "uid": f"launcher-{job.name}", "controller": True}
    template = mpijob["spec"]["mpiReplicaSpecs"]["Launcher"]["template"]
    return _create(job, f"{job.name}-launcher", template, owner, {"job-role": "launcher"})


def bind(job: Job, pod: Object, node: str) -> None:
    """The scheduler sends a pod to a node."""
    name = pod["metadata"]["name"]
    target = {"apiVersion": "v1", "kind": "Node", "name": node}
    body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target}
    job.api.create(f"/api/v1/namespaces/{job.namespace}/pods/{name}/binding", body)


def refuse(job: Job, pod: Object, message: str) -> None:
    """The scheduler finds no node for a pod."""
    path = f"/api/v1/namespaces/{job.namespace}/pods/{pod['metadata']['name']}/status"
    told = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
    job.api.patch(path, {"status": {"phase": "Pending", "conditions": [told]}})


def delete_workers(job: Job, *ranks: int) -> None:
    """Without ranks all of them, as the MPI Operator does when it is suspended, and the kubelet after it."""
    pods = job.pods()
    for pod in [pods[rank] for rank in ranks] or pods:
        job.api.delete(f"/api/v1/namespaces/{job.namespace}/pods/{pod['metadata']['name']}", gracePeriodSeconds="0")


def make_ready(job: Job, pod: Object) -> None:
    """The kubelet says Ready."""
    path = f"/api/v1/namespaces/{job.namespace}/pods/{pod['metadata']['name']}/status"
    job.api.patch(path, {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}})


def _create(job: Job, name: str, template: Object, owner: Object, role: dict[str, str]) -> Object:
    pod = copy.deepcopy(template)
    metadata = pod.setdefault("metadata", {})
    metadata["name"] = name
    told = {f"training.kubeflow.org/{key}": value for key, value in {"job-name": job.name, **role}.items()}
    metadata["labels"] = {**metadata.get("labels", {}), **told}
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


def set_suspend(job: Job, suspend: bool, manager: str = "kubectl-patch") -> None:
    """Another than the operator suspends or resumes the MPIJob."""
    job.api.patch(f"{job.mpijob_path}?fieldManager={manager}", {"spec": {"runPolicy": {"suspend": suspend}}})


def is_suspended(job: Job) -> bool:
    """Whether the MPIJob is."""
    return bool((job.mpijob() or {})["spec"]["runPolicy"].get("suspend"))


def wait_suspended(job: Job, reason: str) -> Object:
    """The condition Suspended, once it has this reason."""
    job.wait(lambda: job.condition("Suspended").get("reason") == reason, f"condition Suspended has no reason {reason}")
    return job.condition("Suspended")


def writes_to_mpijob(proxy: FaultProxy, job: Job, since: int) -> int:
    """Requests of the operator that change the MPIJob."""
    return len(proxy.asked_since(since, lambda asked: asked.method == "PATCH" and asked.path == job.mpijob_path))
