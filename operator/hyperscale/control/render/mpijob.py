"""The MPIJob (kubeflow.org/v2beta1, mpi-operator 0.8.2) of one job: everything is in it at creation, nothing needs to be written later."""

from __future__ import annotations

from copy import deepcopy
from typing import Final

import msgspec
from msgspec.structs import replace

from hyperscale.control.render.commands import SSH_PATH
from hyperscale.control.render.pod import common_labels, follows_plan, gated, launcher_template, worker_template
from hyperscale.control.render.template import Json, owner_references
from hyperscale.model import constants
from hyperscale.model.api.job import JobSpec, PlacementMode
from hyperscale.model.meta import JobMetadata, RenderDefaults
from hyperscale.model.plan import Plan, bounded
from hyperscale.model.pods import LAUNCHER, WORKER

MAX_ANNOTATION_BYTES: Final = 200_000
"""The API server takes 262,144 bytes for all annotations together."""
WORKER_RESTART_POLICY: Final = "OnFailure"
"""A worker is an sshd: when it ends, the kubelet starts it again in the same pod, on the planned node."""
LAUNCHER_RESTART_POLICY: Final = "Never"
"""A failed launcher comes back as a new pod, gated again: it waits for replaced workers and does not use up its retries meanwhile."""


def render(metadata: JobMetadata, job: JobSpec, plan: Plan | None, defaults: RenderDefaults) -> Json:
    """The whole MPIJob for `job`.

    plan: None for `planner: None`: workers.maxReplicas workers that kube-scheduler places
    Raises RenderError, with the field's path, where the user's pod templates ask for what cannot be given.
    The same arguments give the same object; pods are gated exactly in the modes Strict and Preferred.
    """
    gates = gated(job, plan)
    return {
        "apiVersion": f"{constants.MPI_GROUP}/{constants.MPI_VERSION}",
        "kind": "MPIJob",
        "metadata": _metadata(metadata, job, plan),
        "spec": {
            "slotsPerWorker": job.workers.gpus_per_worker,
            "runPolicy": _run_policy(metadata, job),
            # WaitForWorkersReady starts the launcher too early after a suspend (kubeflow/mpi-operator#615); our gate does not.
            "launcherCreationPolicy": "AtStartup" if gates else "WaitForWorkersReady",
            "sshAuthMountPath": SSH_PATH,
            "mpiImplementation": "OpenMPI",
            "mpiReplicaSpecs": {
                "Launcher": {
                    "replicas": 1,
                    "restartPolicy": LAUNCHER_RESTART_POLICY,
                    "template": launcher_template(metadata, job, plan, defaults),
                },
                "Worker": {
                    "replicas": len(plan.workers) if plan is not None else job.workers.max_replicas,
                    "restartPolicy": WORKER_RESTART_POLICY,
                    "template": worker_template(metadata, job, plan, defaults),
                },
            },
        },
    }


def worker_pod_for_dry_run(mpijob: Json) -> Json:
    """The pod that mpi-operator would make for rank 0, for a server-side dry run: it tells the user what the API server will not take.

    Its name is not the rank's own: that one may still be ending from an earlier run, which says nothing about the template.
    """
    return _pod(mpijob, "Worker", f"{mpijob['metadata']['name']}-worker-0", {constants.MPI_REPLICA_INDEX_LABEL: "0"}, WORKER)


def launcher_pod_for_dry_run(mpijob: Json) -> Json:
    """The pod that the launcher's Job would make, for a server-side dry run."""
    return _pod(mpijob, "Launcher", f"{mpijob['metadata']['name']}-launcher", {}, LAUNCHER)


def plan_annotation(plan: Plan) -> str:
    """The plan as JSON; without its explanations and links where it would be too large for an annotation."""
    plan = bounded(plan)
    whole = msgspec.json.encode(plan)
    if len(whole) > MAX_ANNOTATION_BYTES:
        whole = msgspec.json.encode(replace(plan, rejected=(), reasons=(), links=None))
    return whole.decode()


def _metadata(metadata: JobMetadata, job: JobSpec, plan: Plan | None) -> Json:
    labels = common_labels(metadata, plan, "training")
    for key in (constants.KUEUE_QUEUE_LABEL, constants.KUEUE_PRIORITY_LABEL):
        if metadata.labels.get(key):
            labels[key] = metadata.labels[key]
    rendered: Json = {
        "namespace": metadata.namespace,
        "name": metadata.name,
        "labels": labels,
        "ownerReferences": owner_references(metadata),
        "annotations": {constants.SUSPEND_ANNOTATION: suspend_annotation(_suspended(metadata, job))},
    }
    if plan is not None:
        rendered["annotations"][constants.PLAN_ANNOTATION] = plan_annotation(plan)
        # Said at creation: the launcher of an MPIJob that an earlier version made may not know of resizing.
        if (
            job.workers.min_replicas < job.workers.max_replicas
            and job.placement.mode is PlacementMode.STRICT
            and gated(job, plan)
            and follows_plan(job)
        ):
            rendered["annotations"][constants.RESIZABLE_ANNOTATION] = "true"
    return rendered


def suspend_annotation(suspend: bool) -> str:
    """Value of the annotation that records what the operator wrote to `runPolicy.suspend`."""
    return "true" if suspend else "false"


def _suspended(metadata: JobMetadata, job: JobSpec) -> bool:
    """Suspended by ourselves where a queue will decide: without it pods exist until the queue's webhook or controller has seen the job."""
    return job.run_policy.suspend or bool(metadata.labels.get(constants.KUEUE_QUEUE_LABEL))


def _run_policy(metadata: JobMetadata, job: JobSpec) -> Json:
    policy = job.run_policy
    rendered: Json = {
        "cleanPodPolicy": policy.clean_pod_policy.value,
        "backoffLimit": policy.backoff_limit,
        "suspend": _suspended(metadata, job),
    }
    if policy.active_deadline_seconds is not None:
        rendered["activeDeadlineSeconds"] = policy.active_deadline_seconds
    if policy.ttl_seconds_after_finished is not None:
        rendered["ttlSecondsAfterFinished"] = policy.ttl_seconds_after_finished
    return rendered


def _pod(mpijob: Json, replica: str, hostname: str, labels: dict[str, str], role: str) -> Json:
    job_name = mpijob["metadata"]["name"]
    spec = mpijob["spec"]["mpiReplicaSpecs"][replica]
    pod: Json = deepcopy(spec["template"])
    pod["apiVersion"], pod["kind"] = "v1", "Pod"
    pod["metadata"] |= {"namespace": mpijob["metadata"]["namespace"], "name": f"{hostname}-dry-run"}
    pod["metadata"]["labels"] |= {constants.MPI_JOB_NAME_LABEL: job_name, constants.MPI_JOB_ROLE_LABEL: role, **labels}
    pod["spec"] |= {"restartPolicy": spec["restartPolicy"], "hostname": hostname, "subdomain": job_name}
    return pod
