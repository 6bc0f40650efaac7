"""The Job (batch/v1) that writes a job's partitions to the shared volume, and the key that says what they are made from. Pure."""

from __future__ import annotations

import hashlib
from typing import Final

import msgspec

from hyperscale.control.render import commands, environment
from hyperscale.control.render.batch_job import batch_job
from hyperscale.control.render.pod import common_labels, data_template
from hyperscale.control.render.template import Json, mapping_at
from hyperscale.model import constants
from hyperscale.model.api.job import JobSpec, PartitioningMethod
from hyperscale.model.meta import JobMetadata, RenderDefaults
from hyperscale.model.plan import Plan
from hyperscale.model.pods import PARTITION

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
