"""The Jobs (batch/v1) of one pod that a run rests on: one reads the sizes of its training graph, one writes its partitions. Pure."""

from __future__ import annotations

import hashlib
from typing import Final

import msgspec

from hyperscale.control.render import commands, environment
from hyperscale.control.render.pod import common_labels, data_template
from hyperscale.control.render.template import Json, mapping_at, owner_references
from hyperscale.model import constants
from hyperscale.model.api.datasets import dataset_key
from hyperscale.model.api.job import JobSpec, PartitioningMethod
from hyperscale.model.meta import JobMetadata, RenderDefaults
from hyperscale.model.plan import Plan
from hyperscale.model.pods import INSPECT, PARTITION

BACKOFF_LIMIT: Final = 2
"""Evictions and lost nodes are tried again so often."""
REFUSED_EXIT_CODE: Final = 2
"""Of the programs, for input that will not do and memory that will not suffice: trying again changes nothing."""
KEY_LABELS: Final = (constants.PARTITION_KEY_LABEL, constants.DATASET_KEY_LABEL, constants.PREFLIGHT_KEY_LABEL)


def batch_job(metadata: JobMetadata, name: str, labels: dict[str, str], pod: Json) -> Json:
    """The whole Job. pod: its template with one container; the label among `labels` that says what the Job is for is copied to it."""
    pod["metadata"]["labels"].update({key: labels[key] for key in KEY_LABELS if key in labels})
    container = pod["spec"]["containers"][0]["name"]
    rule = {"action": "FailJob", "onExitCodes": {"containerName": container, "operator": "In", "values": [REFUSED_EXIT_CODE]}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "namespace": metadata.namespace,
            "name": name,
            "labels": labels,
            "ownerReferences": owner_references(metadata),
        },
        "spec": {
            "backoffLimit": BACKOFF_LIMIT,
            "completions": 1,
            "parallelism": 1,
            "podFailurePolicy": {
                "rules": [rule, {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}],
            },
            "template": pod,
        },
    }


def inspect_job(metadata: JobMetadata, job: JobSpec, defaults: RenderDefaults) -> Json:
    """The whole Job; the same arguments give the same object.

    It mounts the dataset as the partition Job does and asks for no GPU, and for no memory: nothing is known yet of the graph.
    Raises RenderError, with the field's path, where the user's worker template cannot be merged.
    """
    pod = data_template(metadata, job, None, defaults, INSPECT, commands.INSPECT_COMMAND)
    labels = {**common_labels(metadata, None, INSPECT), constants.DATASET_KEY_LABEL: dataset_key(job.dataset)}
    return batch_job(metadata, f"{metadata.name}-inspect", labels, pod)


KEY_DIGITS: Final = 16
MEBIBYTE: Final = 2**20

_ENCODER: Final = msgspec.json.Encoder(order="deterministic")


def job_name(job: str) -> str:
    """Name of the Job of a job."""
    return f"{job}-partition"


def partition_key(job: JobSpec, plan: Plan | None) -> str:
    """What decides the partitions, as 16 hex digits; empty where no Job writes any.

    A plan with other nodes and the same shares has the same key: its partitions are there already.
    """
    claim, method = job.partitioning.claim_name, job.partitioning.method
    if claim is None or method is PartitioningMethod.NONE:
        return ""
    workers = len(plan.workers) if plan is not None else job.workers.max_replicas
    identity = {
        "dataset": job.dataset,
        "claim": claim,
        "method": method,
        "balance": job.partitioning.balance,
        "count": environment.partitions(job, plan),
        "shares": environment.shares(workers, plan),
        "seed": plan.seed if plan is not None else 0,
    }
    return hashlib.sha256(_ENCODER.encode(identity)).hexdigest()[:KEY_DIGITS]


def partition_job(metadata: JobMetadata, job: JobSpec, plan: Plan | None, defaults: RenderDefaults, memory_bytes: int | None) -> Json:
    """The whole Job; the same arguments give the same object.

    memory_bytes: what partitioning takes at least, asked for so that the scheduler finds a node with so much; None where unknown
    Raises RenderError, with the field's path, where the user's worker template cannot be merged.
    """
    pod = data_template(metadata, job, plan, defaults, PARTITION, commands.PREPARE_COMMAND)
    container = pod["spec"]["containers"][0]
    requests = {}
    if (cpu := job.workers.resources.asked().get("cpu")) is not None:
        requests["cpu"] = cpu
    if memory_bytes is not None:
        requests["memory"] = f"{-(-memory_bytes // MEBIBYTE)}Mi"
    if requests:
        mapping_at(container, "resources", "spec.workers.template.spec.containers[0]")["requests"] = requests
    labels = {**common_labels(metadata, plan, PARTITION), constants.PARTITION_KEY_LABEL: partition_key(job, plan)}
    return batch_job(metadata, job_name(metadata.name), labels, pod)
